"""A graph of LangGraph under the dashboard: two payments are decided apart, the server dies in between, and the past
is decided otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytest.importorskip("langgraph")

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.looks import check_accessibility, check_page
from tests.e2e.moves import LATER, RUN_ADDRESS, act, card, check_events, expect_status
from tests.e2e.server import Server, serving, shell

PEOPLE = """
from django.contrib.auth.models import User
from checkpoints.models import Grant
Grant.objects.get_or_create(user=User.objects.get_or_create(username="olga")[0], role="operator", workflow="*")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The example, and one who operates it."""
    data, example = tmp_path_factory.mktemp("graph") / "data", Path("wfdash.examples.langgraph_refunds")
    with serving(Server(data, files=[example], template=sqlite_template)) as server:
        shell(server, PEOPLE)
        yield server


@pytest.mark.nightly
def test_two_payments_are_decided_apart_over_a_crash_and_then_otherwise(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect_outage()
    olga = person("olga")
    olga.goto("/workflows/langgraph_refunds/")
    olga.get_by_role("main").locator("textarea").first.fill("Orders 1042 and 1077 arrived broken.")
    olga.get_by_role("main").get_by_role("button", name=re.compile("^Start")).click()
    olga.wait_for_url(RUN_ADDRESS)
    run, rows = olga.url, olga.locator("#run-requests").get_by_role("listitem")
    requests = rows.filter(has=olga.get_by_text("open", exact=True))
    expect(requests).to_have_count(2, timeout=LATER)

    requests.get_by_role("link", name=re.compile("1042")).click()
    expect(card(olga)).to_contain_text("Orders 1042 and 1077 arrived broken.")
    expect(card(olga)).to_contain_text("I will refund both orders.")
    check_accessibility(olga)
    act(olga, "approve")
    olga.goto(run)
    expect(requests).to_have_count(1, timeout=LATER)

    server.kill()
    server.start()
    olga.goto(run)
    expect(requests).to_have_count(1, timeout=LATER)
    requests.get_by_role("link", name=re.compile("1077")).click()
    act(olga, "reject", {"Feedback": "It was never delivered"})
    olga.goto(run)
    expect_status(olga, "completed")
    expect(olga.locator("#run-values")).to_contain_text("1042")
    check_events(olga)

    olga.get_by_role("link", name="State").first.click()
    olga.get_by_role("link", name="Conversation").first.click()
    expect(olga.get_by_role("main")).to_contain_text("Rejected: It was never delivered")
    expect(olga.get_by_role("main")).to_contain_text("Thank you for your patience.")
    check_page(olga)

    olga.goto(run)
    olga.locator("#run-rail").get_by_role("link", name="Review").last.click()
    olga.get_by_role("link", name="Restore…").first.click()
    olga.get_by_role("main").get_by_role("button", name=re.compile("Restore")).click()
    olga.goto(run)
    expect(requests).to_have_count(2, timeout=LATER)
    for order in ("1042", "1077"):
        olga.goto(run)
        requests.get_by_role("link", name=re.compile(order)).click(timeout=LATER)
        act(olga, "approve")
    olga.goto(run)
    expect_status(olga, "completed")
    expect(olga.locator("#run-values")).to_contain_text("12.5")
