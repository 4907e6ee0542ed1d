"""What people do on the pages, in their words; and what they see there."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.server import wait_until

RUN_ADDRESS = re.compile(r"/runs/([0-9a-f-]{36})/$")
LATER = 60_000
"""Milliseconds for what needs a server to come back, or many steps to run."""
QUIET = 450
"""Milliseconds in which nothing is pressed: then a key decides the card that is shown."""


def start_run(page: Page, workflow: str, fields: dict[str, str] | None = None) -> str:
    """Fill in a workflow's start form, send it, and return the id of the run whose page opens."""
    page.goto(f"/workflows/{workflow}/")
    for label, text in (fields or {}).items():
        page.get_by_role("main").get_by_label(label).first.fill(text)
    page.get_by_role("main").get_by_role("button", name=re.compile("^Start")).click()
    page.wait_for_url(RUN_ADDRESS)
    return run_of(page)


def run_of(page: Page) -> str:
    """Return the id of the run whose page is open."""
    match = RUN_ADDRESS.search(page.url.split("?")[0].split("#")[0])
    assert match is not None, page.url
    return match.group(1)


def expect_status(page: Page, status: str, *, timeout: float = LATER) -> None:
    """Wait until the run page says so, without a reload."""
    pill = page.locator("#run-head [data-status]").first
    expect(pill).to_have_attribute("data-status", status, timeout=timeout)


def choose_action(page: Page, label: str) -> None:
    """Open the menu of a run's actions and choose one."""
    menu = page.locator("#run-actions")
    menu.get_by_role("button", name="Actions").click()
    menu.get_by_text(label, exact=True).click()


def expect_live(page: Page) -> None:
    """Wait until the page's socket is connected and has caught up."""
    expect(page.locator("[data-live-state]").first).to_have_attribute("data-live-state", "live", timeout=LATER)


def check_events(page: Page) -> list[int]:
    """Return the numbers of the events that are shown: each once, in order, without a gap."""
    seqs: list[int] = page.locator("#run-events [data-seq]").evaluate_all("rows => rows.map(row => +row.dataset.seq)")
    assert seqs == list(range(1, len(seqs) + 1)), seqs
    return seqs


def card(page: Page) -> Locator:
    """Return the decision card that is open."""
    return page.locator("article.card")


def read(page: Page) -> None:
    """Look at a card for as long as it takes until a key decides it: longer than one that was meant for another."""
    page.wait_for_timeout(QUIET)


def open_request(page: Page, subject: str | re.Pattern[str]) -> None:
    """Open a request from the inbox by its subject; it may still have to arrive."""
    page.goto("/")
    page.locator("#inbox-list").get_by_role("link", name=subject).first.click(timeout=LATER)
    expect(card(page)).to_be_visible()


def act(page: Page, action: str, fields: dict[str, str] | None = None, *, open_fold: bool = False) -> None:
    """Answer with an action, by its name; its fields, filled in by their labels, are in a fold."""
    expect(card(page)).to_be_visible()
    buttons = card(page).locator(f"button[name=_action][value={action}]")
    fold = card(page).locator("details.action").filter(has=page.locator(f"button[name=_action][value={action}]"))
    if not fields and not open_fold:
        with page.expect_navigation():
            buttons.first.click()
        return
    if not fold.evaluate("fold => fold.open"):
        fold.locator("summary").first.click()
    for label, text in (fields or {}).items():
        fold.get_by_label(label).first.fill(text)
    with page.expect_navigation():
        fold.locator(f"button[name=_action][value={action}]").click()


def snapshot(folder: Path) -> dict[str, str]:
    """Return path -> text of every file of a work tree."""
    files = [path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(files)}


def wait_for_change(folder: Path, before: dict[str, str]) -> dict[str, str]:
    """Wait until a work tree differs from what it was, and return it."""
    return wait_until(lambda: now if (now := snapshot(folder)) != before else {}, what="a changed tree")
