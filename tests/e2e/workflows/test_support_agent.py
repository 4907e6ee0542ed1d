"""An agent proposes a refund: a person reads the conversation that led to it, pays less, and the agent answers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytest.importorskip("pydantic_ai")

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_accessibility
from tests.e2e.moves import LATER, act, card, check_events, expect_live, expect_status, start_run
from tests.e2e.server import Server


@pytest.fixture(scope="module")
def server(shared_demo: Server) -> Server:
    """It looks at a run of its own."""
    return shared_demo


def test_a_refund_that_an_agent_proposes_is_paid_as_a_person_changed_it(person: OpenPage) -> None:
    adam, ben = person("adam"), person("ben")
    start_run(adam, "support_agent", {"Customer": "Ida Holm", "Message": "Order 1077 arrived broken."})
    expect_live(adam)
    requests = adam.locator("#run-requests").get_by_role("listitem")
    expect(requests).to_have_count(1, timeout=LATER)
    expect(adam.locator("#run-events")).to_contain_text("model turn")

    talk = adam.locator("#run-talk")
    expect(talk.locator(".talk-turn.is-user")).to_contain_text("Order 1077 arrived broken.")
    expect(talk.locator(".talk-call").last).to_contain_text("no result yet")

    ben.goto(adam.url)
    ben.locator("#run-requests").get_by_role("link").first.click(timeout=LATER)
    expect(card(ben)).to_contain_text("Order 1077 arrived broken.")
    expect(card(ben)).to_contain_text("Office chair")
    looked = card(ben).locator(".talk-call").first
    looked.locator("summary").first.click()
    expect(looked).to_contain_text("Arguments")
    expect(looked).to_contain_text("Result")
    check_accessibility(ben)
    act(ben, "edit", {"Amount": "100", "Reason": "One leg is bent"})

    expect_status(adam, "completed")
    expect(adam.locator("#run-values")).to_contain_text("We have paid back 100.00 euros.")
    expect(talk.locator(".talk-turn").last).to_contain_text("We have paid back 100.00 euros.")
    check_events(adam)
