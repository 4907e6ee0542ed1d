"""A story of someone who operates: a signal from the page, what steps log, a cancellation that says what it cut."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling
from tests.e2e.moves import check_events, choose_action, expect_live, expect_status, start_run
from tests.e2e.server import Server


@pytest.fixture
def server(shared_gate: Server) -> Server:
    return shared_gate


def test_a_signal_is_sent_logs_appear_and_cancelling_names_what_it_cut_off(
    person: OpenPage, troubles: Troubles
) -> None:
    troubles.expect("422")
    page = person("olga")
    start_run(page, "purchase", {"Item": "chairs"})
    expect_status(page, "waiting")
    expect_live(page)
    head, events = page.locator("#run-head"), page.locator("#run-events")
    expect(head).to_contain_text("Waiting for signal 'go'")
    expect(events).to_contain_text("Prepared chairs")

    head.get_by_role("link", name=re.compile("Send signal")).click()
    check_accessibility(page)
    page.get_by_label("Amount").fill("5000")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("main")).to_contain_text("1 error")
    page.get_by_label("Amount").fill("70")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("main")).to_contain_text("Signal go received by a step.")
    expect_status(page, "running")
    expect(events).to_contain_text("Charging 70")
    expect(events).to_contain_text("Calling bank")

    choose_action(page, "Cancel run…")
    check_accessibility(page)
    check_no_sideways_scrolling(page)
    expect(page.get_by_role("main")).to_contain_text("The outcome of bank is unknown.")
    page.get_by_role("button", name="Cancel now").click()
    expect_status(page, "cancelled")
    expect(page.get_by_role("main")).to_contain_text("“Charge” interrupted")
    expect(page.get_by_role("main")).to_contain_text("outcome of “bank” unknown")
    check_events(page)
