"""Stories of the inbox: what arrives never moves what one reads, filters suggest, views are shared, keys suffice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.desk import add_people, look, start
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling, check_page
from tests.e2e.moves import LATER, act, expect_live
from tests.e2e.server import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The gate alone, with people."""
    data = tmp_path_factory.mktemp("inbox") / "data"
    with serving(Server(data, files=[Path(__file__).parents[1] / "gates.py"], template=sqlite_template)) as served:
        add_people(served)
        yield served


def rows(page: Page) -> list[str]:
    """Return the subjects in the list, without what marks them."""
    titles = page.locator("#inbox-list .row-title").all_inner_texts()
    return [re.sub(r"^New:\s*", "", title.strip()) for title in titles]


def test_what_arrives_waits_behind_a_button_and_what_left_stays_in_its_place(person: OpenPage, server: Server) -> None:
    first, second = start(server, {"subject": "Stay one?"}, {"subject": "Stay two?"})
    ana, ben = person("ana"), person("ben")
    ana.goto("/?q=Stay")
    expect_live(ana)
    ana.keyboard.press("j")
    expect(ana.locator("#card-subject")).to_have_text("Stay two?")
    before = rows(ana)
    ben.goto(f"/requests/{look(server, first)['open'][0]}/")
    act(ben, "approve")
    expect(ana.locator(".inbox-row.is-gone")).to_have_count(1, timeout=LATER)
    start(server, {"subject": "Stay three?"})
    button = ana.get_by_role("link", name="Show 1 new request")
    expect(button).to_be_visible(timeout=LATER)
    assert rows(ana) == before
    expect(ana.locator("#card-subject")).to_be_focused()
    check_accessibility(ana)
    button.click()
    expect(ana.locator("#inbox-list")).to_contain_text("Stay three?")
    assert rows(ana) == ["Stay two?", "Stay three?"]
    # The new row has the focus, and is the last.
    ana.keyboard.press("j")
    expect(ana.get_by_text("This is the last of 2")).to_be_visible()
    assert look(server, second)["open"]


def test_a_filter_is_suggested_saved_and_shared(person: OpenPage, server: Server) -> None:
    start(server, {"subject": "Calm?", "risk": "low"}, {"subject": "Urgent?", "risk": "high"})
    ana, ben = person("ana"), person("ben")
    ana.goto("/")
    ana.keyboard.press("/")
    ana.keyboard.type("ri")
    expect(ana.get_by_role("listbox", name="Suggestions")).to_be_visible()
    check_accessibility(ana)
    for key in ("ArrowDown", "Enter", "ArrowDown", "Enter", "Enter"):
        ana.keyboard.press(key)
    ana.wait_for_url("**q=risk*")
    assert rows(ana) == ["Urgent?"]
    ana.get_by_text("Save view").click()
    ana.get_by_label("Name").fill("High ones")
    ana.get_by_label("Share with everyone").check()
    check_accessibility(ana)
    headline = ana.get_by_role("heading", name="Inbox", exact=True)
    before = headline.bounding_box()
    ana.get_by_role("button", name="Save", exact=True).click()
    message = ana.get_by_role("status").filter(has_text="Saved: “High ones”.")
    expect(message).to_be_visible()
    assert headline.bounding_box() == before
    check_accessibility(ana)
    message.get_by_role("button", name="Close message").click()
    expect(message).not_to_be_visible()
    view = ana.get_by_role("link", name="High ones")
    expect(view).to_have_attribute("aria-current", "true")
    ben.goto(view.get_attribute("href") or "")
    expect(ben.get_by_label("Filter requests")).to_have_value("risk:high")
    assert rows(ben) == ["Urgent?"]
    check_no_sideways_scrolling(ben)


@pytest.mark.nightly
def test_a_wrong_filter_says_what_to_write(person: OpenPage, server: Server) -> None:
    ana = person("ana")
    ana.goto("/?q=due:<4x")
    expect(ana.get_by_role("alert")).to_contain_text("Example: due:<4h")
    check_page(ana, "inbox-filter")


@pytest.mark.nightly
@pytest.mark.parametrize("address", ["/?tab=groups", "/?tab=asked", "/?tab=answered", "/?sort=alike", "/focus/"])
def test_every_state_of_the_inbox_can_be_used_by_everyone(person: OpenPage, server: Server, address: str) -> None:
    start(server, *({"subject": f"Everyone {number}?"} for number in range(3)))
    ana = person("ana")
    ana.goto(address)
    check_page(ana, "inbox-" + re.sub(r"\W+", "-", address).strip("-"))


def test_keys_do_nothing_while_one_types(person: OpenPage, server: Server) -> None:
    (run,) = start(server, {"subject": "Typing?"})
    ana = person("ana")
    ana.goto("/?q=Typing&focus=1&tab=mine")
    ana.keyboard.press("c")
    ana.keyboard.type("a reject u /? j")
    assert look(server, run)["open"]
    ana.keyboard.press("Escape")
    ana.keyboard.press("Escape")
    ana.wait_for_url(lambda url: "focus" not in url)
    ana.keyboard.press("g")
    ana.keyboard.press("r")
    ana.wait_for_url("**/runs/")
    ana.keyboard.press("g")
    ana.keyboard.press("i")
    ana.wait_for_url(re.compile(r":\d+/$"))
