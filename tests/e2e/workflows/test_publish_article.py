"""An article goes to and fro: sent back with a comment, written again, edited, slept on, published word by word."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.moves import LATER, act, card, check_events, expect_live, expect_status, start_run
from tests.e2e.server import demo_of_all as demo_of_all

TEXT = "A run that waits is a row, and a row costs nothing. Nobody keeps a process for it."


def open_newest_request(page: Page, address: str) -> None:
    """Open the run's request that is still open."""
    page.goto(address)
    rows = page.locator("#run-requests").get_by_role("listitem")
    rows.filter(has=page.get_by_text("open", exact=True)).get_by_role("link").first.click(timeout=LATER)
    expect(card(page)).to_be_visible()


@pytest.mark.nightly
def test_an_article_is_sent_back_edited_and_published_after_its_cool_down(person: OpenPage) -> None:
    adam, ben = person("adam"), person("ben")
    start_run(adam, "publish_article", {"Headline": "A story of waiting", "Cool-down": "3"})
    address = adam.url
    expect_live(adam)
    requests = adam.locator("#run-requests").get_by_role("listitem")
    expect(requests).to_have_count(1, timeout=LATER)

    open_newest_request(ben, address)
    act(ben, "reject", {"Reason": "Say it in fewer words"})
    expect(requests).to_have_count(2, timeout=LATER)

    author = adam.context.new_page()
    open_newest_request(author, address)
    expect(card(author)).to_contain_text("Say it in fewer words")
    card(author).get_by_label("Text").first.fill(TEXT)
    card(author).get_by_role("button", name="Submit").click()
    expect(requests).to_have_count(3, timeout=LATER)

    open_newest_request(ben, address)
    fold = card(ben).locator("details.action").filter(has=ben.locator("button[value=edit]"))
    fold.locator("summary").first.click()
    fold.get_by_role("textbox").first.fill(f"{TEXT} Edited.")
    fold.locator("button[value=edit]").click()
    expect_status(adam, "sleeping")
    expect_status(adam, "completed")
    expect(adam.locator("#run-events")).to_contain_text("words set")
    expect(adam.locator("#run-values")).to_contain_text("Edited.")
    check_events(adam)
