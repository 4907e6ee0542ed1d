"""A patch is decided by one of two people who both have it open: approve changes the repository, reject does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.looks import picture_page
from tests.e2e.moves import (
    LATER,
    act,
    card,
    expect_live,
    expect_status,
    open_request,
    snapshot,
    start_run,
    wait_for_change,
)
from tests.e2e.server import Server
from tests.e2e.server import demo_of_all as demo_of_all
from wfdash.examples import repository

PATCH = (repository.DATA / "decimal.diff").read_text()


@pytest.fixture
def shop(server: Server, tmp_path: Path) -> Path:
    """A place for a repository where the demo lets the example touch one."""
    return server.data / "demo" / tmp_path.name / "shop"


def start_review(page: Page, shop: Path) -> None:
    """Start a review of the demo's patch on a repository of its own, so that nothing else touches it."""
    repository.make_shop(shop)
    start_run(page, "patch_review", {"Repository": str(shop), "Patch": PATCH})
    expect_status(page, "waiting")


def open_from_run(page: Page, address: str) -> None:
    """Open the run's request from its page."""
    page.goto(address)
    page.locator("#run-requests").get_by_role("link").first.click()
    expect(card(page)).to_be_visible()


def on_paper(page: Page) -> None:
    """Check that a printed request has all of its proposal, in dark on light, and nothing to press."""
    page.emulate_media(media="print", color_scheme="dark")
    for hidden in (".bar", ".dock", ".thread-form"):
        expect(page.locator(hidden).first).to_be_hidden()
    expect(page.get_by_text("requirements.txt").first).to_be_visible()
    cut = "nodes => nodes.filter((node) => node.scrollHeight > node.clientHeight + 2).length"
    assert page.locator(".diff-scroll").evaluate_all(cut) == 0
    assert page.evaluate("getComputedStyle(document.body).color.match(/\\d+/)[0] < 80")
    page.emulate_media(media="screen", color_scheme="light")


@pytest.mark.nightly
def test_approving_changes_the_repository_and_the_second_answer_is_told_who_was_first(
    person: OpenPage, server: Server, troubles: Troubles, shop: Path
) -> None:
    adam, ana, ben = person("adam"), person("ana"), person("ben")
    start_review(adam, shop)
    expect_live(adam)
    before = snapshot(shop)
    for reviewer in (ana, ben):
        open_from_run(reviewer, adam.url)
    expect(card(ana).locator("ins, .is-added, .added").first).to_be_attached()
    picture_page(ana, "request")
    on_paper(ben)
    assert snapshot(shop) == before
    act(ana, "approve")
    after = wait_for_change(shop, before)
    expect_status(adam, "completed")
    expect(ben.locator("#request-notice")).to_contain_text("ana answered", timeout=LATER)
    approve = card(ben).locator("button[name=_action][value=approve]").first
    expect(approve).to_be_disabled(timeout=LATER)
    # As if the click had been on its way before the page heard of it.
    troubles.expect("409")
    approve.evaluate("button => { button.disabled = false; button.click(); }")
    expect(ben.get_by_role("alert")).to_contain_text("Answer not submitted")
    expect(ben.locator("#request-notice")).to_contain_text("ana answered")
    assert snapshot(shop) == after


@pytest.mark.nightly
def test_rejecting_needs_a_reason_and_leaves_the_repository_as_it_was(
    person: OpenPage, server: Server, troubles: Troubles, shop: Path
) -> None:
    adam, ana = person("adam"), person("ana")
    start_review(adam, shop)
    before = snapshot(shop)
    open_from_run(ana, adam.url)
    troubles.expect("422")
    act(ana, "reject", open_fold=True)
    expect(card(ana).locator("[aria-invalid=true]")).to_have_count(1)
    act(ana, "reject", {"Reason": "The rounding is decided elsewhere"})
    expect_status(adam, "completed")
    expect(adam.locator("#run-values")).to_contain_text("The rounding is decided elsewhere")
    assert snapshot(shop) == before


@pytest.mark.nightly
def test_the_demo_s_request_is_in_the_inbox(person: OpenPage) -> None:
    ana = person("ana")
    open_request(ana, re.compile("patch|apply|shop", re.IGNORECASE))
