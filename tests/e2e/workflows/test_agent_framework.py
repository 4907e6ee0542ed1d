"""Refunds that an agent of Agent Framework proposes: one is approved, the server is killed, the other one is answered.

Then its checkpoint is restored and both are decided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("agent_framework")

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.desk import add_people
from tests.e2e.looks import check_accessibility
from tests.e2e.moves import LATER, act, card, check_events, expect_live, expect_status, start_run
from tests.e2e.server import Server, serving

EXAMPLE = Path(__file__).parents[3] / "wfdash" / "examples" / "agent_framework_refunds.py"
REQUESTS = "#run-requests"
VALUES = "#run-values"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The example alone, with people."""
    data = tmp_path_factory.mktemp("agent_framework") / "data"
    with serving(Server(data, files=[EXAMPLE], template=sqlite_template)) as server:
        add_people(server)
        yield server


def open_question(page: Page, address: str, subject: str) -> None:
    page.goto(address)
    page.locator(REQUESTS).get_by_role("link", name=subject).first.click(timeout=LATER)
    expect(card(page)).to_contain_text(subject)


@pytest.mark.nightly
def test_refunds_are_decided_over_a_restart_and_decided_otherwise_after_a_restore(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    page = person("admin")
    start_run(page, "refund_clerk", {"Customer": "Ida Holm"})
    expect_live(page)
    expect_status(page, "waiting")
    address = page.url
    open_question(page, address, "1042, ")
    expect(card(page)).to_contain_text("Order 1042: Desk lamp, paid 89.90 euros.")
    check_accessibility(page)
    act(page, "approve")

    troubles.expect_outage()
    server.kill()
    server.start()
    open_question(page, address, "1077, ")
    act(page, "reject", {"Feedback": "The chair is fine"})
    page.goto(address)
    expect_status(page, "completed")
    expect(page.locator(VALUES)).to_contain_text("89.90 euros were paid back for order 1042.")
    expect(page.locator(VALUES)).to_contain_text("The chair is fine")
    check_events(page)
    check_accessibility(page)

    page.locator("#run-rail").get_by_role("link", name="clerk").last.click()
    expect(page.get_by_role("main")).to_contain_text("I look up what was ordered.")
    check_accessibility(page)
    page.get_by_role("link", name="Restore…").first.click()
    page.get_by_role("button", name="Restore checkpoint").click()
    expect_status(page, "waiting")
    for subject in ("1042, ", "1077, "):
        open_question(page, address, subject)
        act(page, "edit", {"Amount": "10"})
    page.goto(address)
    expect_status(page, "completed")
    expect(page.locator(VALUES)).to_contain_text("10.00 euros were paid back for order 1077.")
