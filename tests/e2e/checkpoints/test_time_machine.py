"""Back to a checkpoint: look at its state, restore it in place with its request reopened, fork it into a new run."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import picture_page
from tests.e2e.moves import LATER, act, check_events, expect_live, expect_status, run_of, start_run
from tests.e2e.server import demo_of_all as demo_of_all

REQUESTS = "#run-requests"


def open_checkpoint_that_asks(page: Page) -> None:
    """Open the first checkpoint of the run at which a person was being asked."""
    page.locator("#run-rail").get_by_role("link", name="review").last.click()
    expect(page.get_by_role("heading", name="State")).to_be_visible()


def test_a_checkpoint_is_looked_at_restored_with_its_request_and_forked(person: OpenPage) -> None:
    adam, ben = person("adam"), person("ben")
    start_run(adam, "publish_article", {"Headline": "Twice decided", "Cool-down": "0"})
    expect_live(adam)
    expect_status(adam, "waiting")
    address, first = adam.url, run_of(adam)
    ben.goto(address)
    ben.locator(REQUESTS).get_by_role("link").first.click()
    act(ben, "approve")
    expect_status(adam, "completed")
    open_checkpoint_that_asks(adam)
    expect(adam.get_by_role("main")).to_contain_text("Twice decided")
    picture_page(adam, "checkpoint")

    adam.get_by_role("link", name="Restore…").first.click()
    expect(adam.get_by_role("heading", level=1)).to_contain_text("Restore checkpoint")
    expect(adam.get_by_role("main")).to_contain_text("ben")
    picture_page(adam, "restore")
    adam.get_by_role("button", name="Restore checkpoint").click()
    expect_status(adam, "waiting")
    expect(adam.locator(REQUESTS).get_by_text("open", exact=True)).to_have_count(1, timeout=LATER)
    assert run_of(adam) == first
    check_events(adam)

    open_checkpoint_that_asks(adam)
    adam.get_by_role("link", name="Fork…", exact=True).first.click()
    adam.get_by_role("button", name="Fork a new run").click()
    expect_status(adam, "waiting")
    assert run_of(adam) != first
    ben.goto(adam.url)
    ben.locator(REQUESTS).get_by_role("link").first.click()
    act(ben, "approve")
    expect_status(adam, "completed")
    adam.goto(address)
    expect_status(adam, "waiting")
