"""An agent proposes a refund: a person reads the conversation that led to it, pays less, and the agent answers."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("pydantic_ai")

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_accessibility
from tests.e2e.moves import LATER, act, card, check_events, expect_live, expect_status, run_of, start_run
from tests.e2e.server import demo_of_all as demo_of_all


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
    send_a_follow_up(adam, "Thank you. When does the money arrive?")


def send_a_follow_up(page: Page, message: str) -> None:
    """Write the next message where the conversation ends: the run that follows shows all that was said."""
    first = run_of(page)
    composer = page.locator("#run-follow-up")
    composer.get_by_role("textbox").first.fill(message)
    composer.get_by_role("button", name="Send").click()
    page.wait_for_url(lambda address: f"/runs/{first}/" not in address, timeout=LATER)
    later = run_of(page)

    expect(page.locator("#run-head")).to_contain_text("follows")
    thread = page.locator("#run-thread")
    expect(thread.locator(f'a[href="/runs/{first}/"]')).to_be_visible()
    expect(thread.locator(f'a[href="/runs/{later}/"]')).to_have_attribute("aria-current", "page")
    expect_status(page, "completed")
    said = page.locator("#run-talk .talk-turn")
    expect(said.filter(has_text="Order 1077 arrived broken.").first).to_be_attached()
    expect(said.filter(has_text="We have paid back 100.00 euros.").first).to_be_attached()
    expect(page.locator("#run-talk .talk-turn.is-user").last).to_contain_text(message)
    check_accessibility(page)
    check_events(page)
