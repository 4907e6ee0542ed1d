"""A reviewer's morning by keyboard: nothing moves, nothing is lost, undo is one answer, a restart costs no word."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenPage, Troubles
from tests.e2e.desk import START, add_people, look, start
from tests.e2e.looks import COLOURS, check_accessibility, check_no_sideways_scrolling, check_nothing_moved, watch_shifts
from tests.e2e.moves import card, expect_live, read
from tests.e2e.server import Server, serving, shell, wait_until
from tests.e2e.touch import RESTYLE

LEAST_WIDTH = 480
FIELDS = "input:not([type=hidden]), textarea"
HEADLINE = "#card-subject"
PRESS_WHEN_SHOWN = """key => document.addEventListener("card:shown", () => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}, { once: true })"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path):
    data, file = tmp_path_factory.mktemp("morning") / "data", Path(__file__).parents[1] / "gates.py"
    with serving(Server(data, files=[file], template=sqlite_template, undo=600)) as server:
        add_people(server)
        yield server


def box_of(element: Locator) -> dict[str, float]:
    box = element.bounding_box()
    assert box is not None
    return dict(box)


def top_of(page: Page) -> float:
    return box_of(page.locator("button[value=approve]").first)["y"]


def test_a_morning_of_a_reviewer(person: OpenPage, server: Server, troubles: Troubles) -> None:
    troubles.expect("422")
    runs = start(server, *({"subject": f"Refund number {n}?", "plain": True} for n in range(5)))
    ana = person("ana")
    ana.set_viewport_size({"width": 1440, "height": 900})
    ana.goto("/?tab=mine")
    first = ana.locator(HEADLINE).inner_text()
    expect_live(ana)

    # j opens the next in this page, and k and the browser's Back lead back: each has its address, and its headline the
    # focus.
    watch_shifts(ana)
    ana.keyboard.press("j")
    expect(ana.locator(HEADLINE)).not_to_have_text(first)
    expect(ana.locator(HEADLINE)).to_be_focused()
    after = ana.locator(HEADLINE).inner_text()
    ana.keyboard.press("k")
    expect(ana.locator(HEADLINE)).to_have_text(first)
    ana.go_back()
    expect(ana.locator(HEADLINE)).to_have_text(after)
    expect(ana.locator("#inbox-list .is-here")).to_contain_text(after)
    ana.go_back()
    expect(ana.locator(HEADLINE)).to_have_text(first)
    expect(ana.locator(HEADLINE)).to_be_focused()
    check_nothing_moved(ana)

    watch_shifts(ana)

    # The first press asks, the second decides; nothing moves, and the next headline has the focus. What is pressed as
    # soon as that card comes was meant for the one before.
    before = top_of(ana)
    read(ana)
    ana.keyboard.press("a")
    expect(ana.get_by_text("Press a again: Approve")).to_be_visible()
    assert ana.evaluate("scrollY") == 0
    ana.evaluate(PRESS_WHEN_SHOWN, "a")
    ana.keyboard.press("a")
    expect(ana.locator(HEADLINE)).not_to_have_text(first)
    expect(ana.get_by_text("nor on a card that has just opened")).to_be_visible()
    expect(ana.locator(HEADLINE)).to_be_focused()
    toast = ana.get_by_role("region", name="Undo")
    expect(toast).to_contain_text(first)
    assert top_of(ana) == before
    expect(ana.locator("#inbox-list .is-gone")).to_contain_text(first)
    check_nothing_moved(ana)
    check_accessibility(ana)
    ana.emulate_media(color_scheme="dark")
    # Chromium does not style all of a page again when the scheme changes, and axe would look at the old colours.
    ana.reload()
    check_accessibility(ana, COLOURS)
    check_no_sideways_scrolling(ana)
    ana.emulate_media(color_scheme="light")
    ana.evaluate(RESTYLE)

    # Reasons and edits are as wide as the card, and what is edited stays in sight; Escape closes them.
    watch_shifts(ana)
    second = ana.locator(HEADLINE).inner_text()
    for key in ("e", "r"):
        ana.keyboard.press(key)
        field = ana.locator("details.action[open] .sheet").locator(FIELDS).last
        expect(field).to_be_visible()
        assert box_of(field)["width"] > LEAST_WIDTH
        assert abs(box_of(ana.locator(".sheet:visible"))["width"] - box_of(card(ana))["width"]) < 4
        assert box_of(ana.locator(".proposal-box"))["y"] < box_of(ana.locator(".sheet:visible"))["y"]
        check_accessibility(ana)
        ana.keyboard.press("Escape")
        expect(ana.locator(".sheet:visible")).to_have_count(0)

    # An answer with an error keeps the list; Ctrl+Enter sends.
    ana.keyboard.press("r")
    ana.locator("details.action[open] textarea").last.press("Control+Enter")
    expect(ana.locator("[data-error-summary]")).to_be_visible()
    expect(ana.locator("#inbox-list [data-row]").first).to_be_visible()
    reason = ana.locator("details.action[open] textarea").last
    expect(reason).to_be_focused()
    ana.keyboard.type("Not with this receipt")
    reason.press("Control+Enter")
    expect(toast).to_contain_text(second)
    expect(ana.locator(HEADLINE)).to_be_focused()

    # u takes back the last answer alone and opens its card with what was said.
    ana.keyboard.press("u")
    expect(ana.locator(HEADLINE)).to_have_text(second)
    expect(ana.locator(HEADLINE)).to_be_focused()
    expect(ana.get_by_role("main")).to_contain_text("Decision undone")
    expect(ana.locator(".sheet textarea:visible")).to_have_value("Not with this receipt")
    check_nothing_moved(ana)

    # That sheet came with the card: it hides no other action.
    sheet, approve = box_of(ana.locator(".sheet:visible")), box_of(ana.locator("button[value=approve]").first)
    assert sheet["y"] + sheet["height"] <= approve["y"]
    check_accessibility(ana)
    assert sum(bool(look(server, run)["open"]) for run in runs) == 4


def test_an_answer_given_while_the_server_is_away_is_sent_when_it_is_back(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect_outage()
    (run,) = start(server, {"subject": "Refund during a restart?"})
    (request,) = look(server, run)["open"]
    ben = person("ben")
    ben.goto(f"/requests/{request}/")
    ben.locator("summary", has_text="Reject").first.click()
    reason = ben.locator("details.action[open] textarea").last
    reason.fill("Typed with care")
    server.kill()
    ben.locator("details.action[open] button[name=_action]").click()
    expect(ben.get_by_text("Not sent. Retrying")).to_be_visible()
    expect(reason).to_have_value("Typed with care")
    ben.locator("[data-unsent]").get_by_role("button", name="Cancel").click()
    expect(ben.locator("[data-unsent]")).to_have_count(0)
    expect(reason).to_be_focused()
    ben.keyboard.press("Control+Enter")
    expect(ben.get_by_text("Not sent. Retrying")).to_be_visible()
    server.start()
    expect(ben.get_by_role("region", name="Undo")).to_be_visible(timeout=20_000)
    assert [reply[:2] for reply in look(server, run)["replies"]] == [["ben", "reject"]]


PANGRAM = "The quick brown fox jumps over the lazy dog"
KINDS = 6
PLACES = ("/?q=workflow:kinds&focus=1&request={}", "/?q=workflow:kinds&request={}", "/requests/{}/")


@pytest.mark.parametrize("places", [pytest.param(3, marks=pytest.mark.nightly), 1])
def test_what_is_typed_beside_a_field_decides_nothing(
    places: int, person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect("422")
    (run,) = shell(server, START.format(by="olga", workflow="kinds", messages=[None])).split()
    wait_until(lambda: len(look(server, run)["open"]) == KINDS, what="a request of every kind", pause=0.1)
    cem = person("cem")
    requests = look(server, run)["open"]
    for address in [PLACES[(n + i) % 3].format(request) for n, request in enumerate(requests) for i in range(places)]:
        cem.goto(address)
        title = cem.locator(HEADLINE).inner_text()
        folds = cem.locator(".dock .action:not(.dock-lines *)")
        for box in folds.all() or cem.locator(".card-form").all():
            fail(box)
            cem.keyboard.type(PANGRAM)
            cem.locator(HEADLINE).click()
            cem.keyboard.type(PANGRAM)
            expect(cem.locator(HEADLINE)).to_have_text(title)
            if folds.count():
                assert box.evaluate("fold => fold.open")
                assert covered(cem) == []
                cem.keyboard.press("Escape")
                expect(cem.locator(".sheet:visible")).to_have_count(0)
    assert look(server, run)["replies"] == []


def fail(box: Locator) -> None:
    """Open an action, empty its fields, and send it if it needs any: it is refused, and the next letter is written."""
    page = box.page
    # A draft of before may have opened it already.
    summary = box.locator("summary:visible")
    if summary.count() and not box.evaluate("fold => fold.open"):
        summary.first.click()
    fields = box.locator(FIELDS)
    for field in fields.all():
        if field.get_attribute("type") == "checkbox":
            continue
        field.fill("")
    if not box.locator("[aria-required=true]").count():
        return
    fields.last.press("Control+Enter")
    expect(page.locator("[data-error-summary]:visible")).to_be_visible()


def covered(page: Page) -> list[str]:
    """Return the actions that lie under an open sheet and can be reached all the same."""
    found: list[str] = page.locator(".decision > .button, .action > summary").evaluate_all(
        "found => found.filter((one) => !one.closest('[inert]')).map((one) => one.textContent.trim())"
    )
    return found
