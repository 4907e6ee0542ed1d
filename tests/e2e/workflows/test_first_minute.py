"""The first minute: the printed link signs in, the demo is there, every example starts from its form, live."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenContext, OpenPage, Troubles, sign_in
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_page, picture_page
from tests.e2e.moves import check_events, expect_live, expect_status, start_run
from tests.e2e.server import Server


def first_page(open_context: OpenContext, server: Server) -> Page:
    context = open_context(base_url=server.url)
    page = context.new_page()
    sign_in(page, server.first_link())
    return page


def test_the_printed_link_signs_in_once_and_shows_what_waits(
    open_context: OpenContext, server: Server, troubles: Troubles
) -> None:
    troubles.expect("404")
    page = first_page(open_context, server)
    expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    expect(page.locator("#inbox-list").get_by_role("listitem").first).to_be_visible(timeout=20_000)
    picture_page(page, "inbox")
    stranger = open_context().new_page()
    answer = stranger.goto(server.first_link())
    assert answer is not None
    assert answer.status == 404
    expect(stranger.get_by_role("heading", level=1)).to_contain_text("Sign-in link not valid")


@pytest.mark.nightly
def test_every_example_starts_from_its_generated_form_and_is_seen_live(person: OpenPage, server: Server) -> None:
    page = person("adam")
    shop = str(server.data / "demo" / "shop")
    forms: dict[str, dict[str, str]] = {
        "patch_review": {"Repository": shop, "Patch": "--- a/none\n+++ b/none\n"},
        "expense_batch": {},
        "publish_article": {},
    }
    for workflow, fields in forms.items():
        start_run(page, workflow, fields)
        expect_live(page)
        expect_status(page, "completed" if workflow == "patch_review" else "waiting")
        expect(page.locator("#run-graph svg").first).to_be_visible()
        check_events(page)
        check_accessibility(page)
        check_no_sideways_scrolling(page)


@pytest.mark.nightly
def test_what_was_typed_stays_when_a_field_is_refused(person: OpenPage, troubles: Troubles) -> None:
    troubles.expect("422")
    page = person("adam")
    page.goto("/workflows/publish_article/")
    check_page(page, "workflow")
    form = page.get_by_role("main")
    form.get_by_label("Headline").fill("A headline that must not be lost")
    form.get_by_label("Cool-down").fill("-5")
    page.get_by_role("main").locator("form").last.evaluate("form => form.noValidate = true")
    form.get_by_role("button", name=re.compile("^Start")).click()
    expect(form.locator("[aria-invalid=true]")).to_have_count(1)
    expect(form.get_by_label("Headline")).to_have_value("A headline that must not be lost")
    expect(form.get_by_label("Cool-down")).to_have_value("-5")


@pytest.mark.nightly
def test_a_viewer_sees_runs_but_no_form_and_no_buttons(person: OpenPage, troubles: Troubles) -> None:
    page = person("vera")
    for path, name in (("/statistics/", "statistics"), ("/workflows/", "workflows"), ("/runs/", "runs")):
        page.goto(path)
        check_page(page, name)
    page.get_by_role("main").locator("tbody").get_by_role("link").first.click()
    expect(page.locator("#run-head")).to_be_visible()
    expect(page.locator("#run-head button:not(.copy, [popovertarget])")).to_have_count(0)
    page.goto("/workflows/patch_review/")
    expect(page.get_by_role("button", name=re.compile("^Start"))).to_have_count(0)
    troubles.expect("404")
    answer: Any = page.goto("/runs/01990000-0000-7000-8000-000000000000/")
    assert answer.status == 404
