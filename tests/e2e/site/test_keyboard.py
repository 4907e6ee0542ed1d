"""Every place is two keys away, each page tells its keys, and what has no keyboard taps."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.conftest import OpenContext, OpenPage, sign_in
from tests.e2e.looks import check_accessibility
from tests.e2e.server import Server, shell, wait_until
from tests.e2e.server import demo_of_all as demo_of_all
from tests.e2e.touch import TWO_FRAMES

PLACES = {"r": "/runs/", "w": "/workflows/", "s": "/statistics/", "a": "/audit/", "i": "/"}
LISTS = {"/runs/", "/workflows/", "/audit/", "/"}


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


def test_everything_is_found_from_any_page_by_keyboard_alone(person: OpenPage) -> None:
    page = person("adam")
    page.goto("/workflows/")
    filter_ = page.locator("[data-key='/']").first
    filter_.focus()
    press(page, "Control+k")
    dialog = page.get_by_role("dialog", name="Search")
    box = dialog.get_by_role("combobox")
    expect(box).to_be_focused()
    expect(dialog.get_by_role("option", name="Inbox", exact=True)).to_have_attribute("aria-selected", "true")
    check_accessibility(page)
    press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect(filter_).to_be_focused()
    late_answers_are_dropped(page, dialog, box)
    expect(dialog.get_by_role("group", name="Workflows").get_by_role("option")).to_have_count(1)
    chosen = dialog.locator("[aria-selected=true]")
    press(page, "ArrowDown")
    expect(chosen).to_have_text(re.compile("Start Expense batch"))
    assert box.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    check_accessibility(page)
    # Enter before the answer opens what was typed, not what is shown.
    box.fill("audit lo")
    press(page, "Enter")
    page.wait_for_url("**/audit/")
    page.get_by_role("link", name="Search", exact=True).click()
    box.fill("colour:red statist")
    expect(dialog).to_contain_text('Unknown filter "colour"')
    expect(dialog.get_by_role("option", name="Statistics", exact=True)).to_be_visible()
    press(page, "Enter")
    page.wait_for_url("**/statistics/")
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Search everything")


def late_answers_are_dropped(page: Page, dialog: Locator, box: Locator) -> None:
    """Type twice, and let the first answer come after the second: it must not replace it."""
    held: list[Route] = []
    page.route("**/search/?q=patch&*", lambda route: held.append(route))
    press(page, "Control+k")
    with page.expect_request("**/search/?q=patch&*"):
        box.fill("patch")
    box.fill("expense")
    expect(dialog.get_by_role("option", name=re.compile("^Expense batch")).first).to_be_visible()
    for route in held:
        with suppress(PlaywrightError):  # the browser may have given up on it
            route.continue_()
    page.unroute_all()
    expect(dialog.get_by_role("option", name=re.compile("^Patch review"))).to_have_count(0)


HISTORY = """
from checkpoints.models import HumanRequest
asked = HumanRequest.objects.filter(workflow="patch_review", answered=None, closed=None).first()
print(asked.run_id if asked else "")
"""
MENUS = """[...document.querySelectorAll("[popovertarget]")].map((one) => one.getAttribute("popovertarget"))"""
CUT = """panel => {
  const { left, top, right, bottom } = panel.getBoundingClientRect();
  if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) return [`${left} ${top} ${right} ${bottom}`];
  return [...panel.querySelectorAll("a, button, label")].filter((one) => {
    one.scrollIntoView({ block: "nearest" });
    const { x, y, width, height } = one.getBoundingClientRect();
    return !one.contains(document.elementFromPoint(x + width / 2, y + height / 2)) && one.checkVisibility();
  }).map((one) => one.textContent.trim());
}"""
"""What of a menu cannot be seen: beyond the window, or behind something."""
NO_ANCHORS = """Object.defineProperty(CSS, "supports", { value: (...asked) => !asked[0].includes("position-area") });"""


def check_menu(page: Page, name: str) -> None:
    """Open a menu by its button and an arrow, look at all of it, move in it, and leave it by Escape."""
    button, menu = page.locator(f"[popovertarget='{name}']"), page.locator(f"[id='{name}']")
    button.focus()
    press(page, "ArrowDown")
    expect(menu).to_be_visible()
    items = menu.locator("a[href], button, input:not([type=hidden])").locator("visible=true")
    expect(items.first).to_be_focused()
    page.evaluate(TWO_FRAMES)
    assert menu.evaluate(CUT) == [], f"{page.url} {name} {page.viewport_size}"
    if items.first.get_attribute("name") is None:
        press(page, "End")
        expect(items.last).to_be_focused()
    # A key of the page does nothing behind it.
    press(page, "j", "Escape")
    expect(menu).to_be_hidden()
    expect(button).to_be_focused()


@pytest.mark.parametrize(
    "anchors",
    [pytest.param(True, marks=pytest.mark.nightly), False],
    ids=["placed by the browser", "placed by a script"],
)
def test_a_menu_is_never_cut_off_and_keys_lead_in_and_out(anchors: bool, person: OpenPage, server: Server) -> None:
    run = wait_until(lambda: shell(server, HISTORY), what="a request of the demo")
    page = person("adam")
    if not anchors:
        page.add_init_script(NO_ANCHORS)
    for address in ("/?q=-risk:low", "/runs/?q=workflow:patch_review", f"/runs/{run}/checkpoints/"):
        page.goto(address)
        names = page.evaluate(MENUS)
        assert len(names) > 2
        for size in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            for name in names:
                check_menu(page, name)
    page.locator(".rail-menu > button").nth(1).click()
    check_accessibility(page)


def test_the_places_of_a_phone_are_a_tap_away_or_in_the_menu(open_context: OpenContext, server: Server) -> None:
    phone = {"width": 390, "height": 844}
    page = open_context(base_url=server.url, viewport=phone, has_touch=True, is_mobile=True).new_page()
    sign_in(page, server.link_for("adam"))
    for path in PLACES.values():
        if path in ("/statistics/", "/audit/"):
            page.locator("[popovertarget=menu-user]").tap()
        page.locator(f':is(.bar-nav, #menu-user) a[href="{path}"]').locator("visible=true").tap()
        page.wait_for_url(re.compile(rf":\d+{re.escape(path)}$"))
        if path in LISTS:
            page.locator("[data-key='/']").first.tap()
            expect(page.locator("[data-key='/']").first).to_be_focused()
