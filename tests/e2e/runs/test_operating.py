"""A story of someone who operates: a signal from the page, what steps log, a cancellation that says what it cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_page
from tests.e2e.moves import LATER, check_events, choose_action, expect_live, expect_status, start_run
from tests.e2e.server import gate_of_all as gate_of_all
from tests.e2e.server import wait_until


def open_the_log(page: Page, last: str) -> Page:
    """Open the run's log beside it, once it has that line; nothing reloads that page."""
    log = page.context.new_page()
    log.goto(page.url)
    log.locator(".run-tabs").get_by_role("link", name="Log").click()
    expect(log.locator(".log-text").last).to_have_text(last)
    expect_live(log)
    return log


def search_the_log(log: Page) -> None:
    """See the new line come, find it by its text, and take what was found away."""
    expect(log.locator(".log-text").last).to_have_text("Charging 70")
    log.get_by_role("searchbox").fill("charging")
    log.get_by_role("button", name="Filter").click()
    expect(log.locator("mark")).to_have_text(["Charging"])
    log.get_by_role("link", name="Do not wrap").click()
    expect(log.locator(".log.is-unwrapped mark")).to_have_text(["Charging"])
    with log.expect_download() as started:
        log.get_by_role("link", name="Download").click()
    assert re.search(r"WARNING charge .*: Charging 70\n$", started.value.path().read_text())
    check_page(log)
    log.close()


@pytest.mark.nightly
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

    log = open_the_log(page, "Prepared chairs")
    expect(log.locator(".log-text")).to_have_count(1)
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
    search_the_log(log)

    choose_action(page, "Cancel run…")
    check_accessibility(page)
    check_no_sideways_scrolling(page)
    expect(page.get_by_role("main")).to_contain_text("The outcome of bank is unknown.")
    page.get_by_role("button", name="Cancel now").click()
    expect_status(page, "cancelled")
    expect(page.get_by_role("main")).to_contain_text("“Charge” interrupted")
    expect(page.get_by_role("main")).to_contain_text("outcome of “bank” unknown")
    check_events(page)


def scrolled(lines: Locator) -> float:
    """Return how far the log is scrolled down."""
    return float(lines.evaluate("list => list.scrollTop"))


def test_a_log_follows_its_end_until_one_scrolls_up_and_again_from_there(person: OpenPage, tmp_path: Path) -> None:
    book = tmp_path / "book"
    book.write_text("".join(f"Line {number}\n" for number in range(80)))
    page = person("olga")
    start_run(page, "dictation", {"Book": str(book)})
    log = open_the_log(page, "Line 79")
    lines = log.get_by_role("list", name="Log lines")

    def dictate(text: str) -> Locator:
        with book.open("a") as file:
            file.write(f"{text}\n")
        line = lines.get_by_text(text, exact=True)
        expect(line).to_be_attached(timeout=LATER)
        return line

    expect(dictate("At the end")).to_be_in_viewport()
    lines.press("Home")
    wait_until(lambda: scrolled(lines) == 0, what="the log scrolled up")
    expect(dictate("Further up")).not_to_be_in_viewport()
    assert scrolled(lines) == 0
    lines.press("End")
    expect(lines.get_by_text("Further up", exact=True)).to_be_in_viewport()
    expect(dictate("At the end again")).to_be_in_viewport()
    expect(dictate("end")).to_be_in_viewport()
