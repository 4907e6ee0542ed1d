"""Every place is two keys away, each page tells its keys, and what has no keyboard taps."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenContext, OpenPage, sign_in
from tests.e2e.looks import check_accessibility
from tests.e2e.server import Server

PLACES = {"r": "/runs/", "w": "/workflows/", "s": "/numbers/", "a": "/audit/", "i": "/"}
LISTS = {"/runs/", "/workflows/", "/audit/", "/"}


@pytest.fixture(scope="module")
def server(shared_demo: Server) -> Server:
    """Nothing is changed here."""
    return shared_demo


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def check_list_of_keys(page: Page) -> None:
    """Open the list by ? and leave it by Escape."""
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Go to Statistics")
    press(page, "Escape")
    expect(dialog).to_be_hidden()


def test_every_place_is_two_keys_away_and_each_page_lists_its_keys(person: OpenPage) -> None:
    page = person("adam")
    page.goto("/")
    for key, path in PLACES.items():
        press(page, "g", key)
        page.wait_for_url(re.compile(rf":\d+{re.escape(path)}$"))
        check_list_of_keys(page)
        if path in LISTS:
            press(page, "/")
            expect(page.locator("[data-key='/']").first).to_be_focused()
            press(page, "g", "r", "?", "Escape")
            expect(page.locator("[data-key='/']").first).not_to_be_focused()
    page.goto("/runs/")
    press(page, "j", "j", "k", "Enter")
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/$"))
    press(page, "?")
    check_accessibility(page)


def test_the_places_are_a_tap_away_on_a_phone(open_context: OpenContext, server: Server) -> None:
    phone = {"width": 390, "height": 844}
    context = open_context(base_url=server.url, viewport=phone, has_touch=True, is_mobile=True)
    page = context.new_page()
    sign_in(page, server.link_for("adam"))
    for path in PLACES.values():
        page.get_by_role("navigation", name="Main").locator(f'a[href="{path}"]').tap()
        page.wait_for_url(re.compile(rf":\d+{re.escape(path)}$"))
        if path in LISTS:
            page.locator("[data-key='/']").first.tap()
            expect(page.locator("[data-key='/']").first).to_be_focused()
