"""An article goes to and fro: sent back with a comment, written again, edited, approved, slept on, published."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage
from tests.e2e.moves import act, expect_live, expect_status, start_run


def test_an_article_is_sent_back_edited_and_published_after_its_cool_down(person: OpenPage) -> None:
    adam, ben = person("adam"), person("ben")
    start_run(adam, "publish_article", {"Headline": "A story of waiting", "Cool-down": "2"})
    expect_live(adam)
    expect_status(adam, "waiting")
    ben.goto(adam.url)
    ben.locator("#run-requests").get_by_role("link").first.click()
    act(ben, "send_back", {"Comment": "Say it in fewer words"})
    expect(adam.locator("#run-requests").get_by_role("listitem")).to_have_count(2, timeout=20_000)
    expect(adam.locator("#run-requests")).to_contain_text("Say it in fewer words")
