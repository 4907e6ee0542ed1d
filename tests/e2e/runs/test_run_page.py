"""A run is looked into: a step of its graph, a stretch of its time, its events while they come, its state."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_page, picture_page
from tests.e2e.moves import LATER, act, check_events, expect_live, expect_status, start_run
from tests.e2e.server import demo_of_all as demo_of_all
from tests.e2e.server import wait_until


def look_at_a_step(page: Page) -> None:
    """Click the step that asks in the graph, and see beside it what it was given; Escape and Back work, too."""
    page.evaluate("window.stays = true")
    node, panel = page.locator('.graph-node[data-step="review"]'), page.locator("#run-step")
    title = panel.get_by_role("heading", name="Review", exact=True)
    node.click()
    expect(title).to_be_focused()
    graph, beside = page.locator("#run-graph").bounding_box(), panel.bounding_box()
    assert graph is not None
    assert beside is not None
    assert beside["x"] > graph["x"] + graph["width"]
    assert beside["y"] == graph["y"]
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(node).to_be_focused()
    page.go_back()
    expect(title).to_be_visible()
    assert page.evaluate("window.stays"), "the page was loaded again"
    expect(panel).to_contain_text("Looked into")
    expect(panel.get_by_role("link", name=re.compile("Looked into"))).to_be_visible()
    assert "step=review" in page.url
    check_page(page, "run-step")


def move_the_graph(page: Page) -> None:
    """Zoom by key and wheel, drag, and come back to the step that waits; every time it can be read."""
    place, picture = page.locator(".graph-scroll"), page.locator(".graph-picture")

    def scale() -> float:
        return float(picture.evaluate("svg => svg.getAttribute('width') / svg.viewBox.baseVal.width"))

    begun = scale()
    assert begun >= 0.75
    place.focus()
    for _ in range(4):
        page.keyboard.press("+")
    assert scale() > begun * 2
    left, top = place.evaluate("place => [place.scrollLeft, place.scrollTop]")
    assert left + top > 20
    box = place.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 270, steps=4)
    page.mouse.up()
    assert place.evaluate("place => [place.scrollLeft, place.scrollTop]") == [max(left - 60, 0), max(top - 70, 0)]
    expect(page.locator(".graph-map")).to_be_visible()
    page.keyboard.down("Control")
    page.mouse.wheel(0, 400)
    page.keyboard.up("Control")
    assert scale() < begun * 2
    page.get_by_role("button", name="Go to the active step").click()
    expect(page.locator('.graph-node[data-state="waiting"]')).to_be_in_viewport()
    assert scale() == pytest.approx(begun, rel=0.1)


def draw_over_the_timeline(page: Page) -> None:
    """Waiting is folded until one asks for the wall clock. Drawing over a stretch chooses it, a link leads back."""
    timeline = page.locator("#run-timeline")
    expect(timeline.locator(".timeline-folds")).to_contain_text("waiting")
    timeline.get_by_role("link", name="Wall clock").click()
    page.wait_for_url(re.compile("clock=wall"))
    expect(timeline.locator(".timeline-folds")).to_have_count(0)
    timeline.get_by_role("link", name="Waiting folded").click()
    page.wait_for_url(lambda url: "clock=" not in url)
    bars = page.locator("#run-timeline .timeline-bars").first
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 4, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=[\d.]+&to=[\d.]+"))
    page.get_by_role("link", name="Fit").click()
    page.wait_for_url(lambda url: "from=" not in url)


def count(page: Page) -> int:
    """Return how many events are shown."""
    return page.locator("#run-events [data-seq]").count()


def hold_the_stream_while(page: Page, answer: Page) -> None:
    """Pause the events, let someone answer, and see every one of them after the pause."""
    page.get_by_role("link", name="Events", exact=False).first.click()
    expect_live(page)
    page.get_by_role("button", name="Pause", exact=True).last.click()
    before = count(page)
    act(answer, "approve")
    expect_status(page, "completed")
    wait_until(lambda: int(page.locator("[data-held]").text_content() or 0) > 3, what="events that are held")
    assert count(page) == before
    page.get_by_role("button", name=re.compile("Resume")).last.click()
    expect(page.locator("#run-events")).to_contain_text("Run completed", timeout=LATER)
    assert len(check_events(page)) > before
    picture_page(page, "run-events")


def open_an_event_by_its_address(page: Page) -> None:
    """Follow the link of the third event: it is open, marked and in sight."""
    page.locator("#e3 a.event-seq").click()
    row = page.locator("#e3")
    expect(row.locator("details")).to_have_attribute("open", "")
    expect(row).to_be_in_viewport()
    assert page.url.endswith("?seq=3#e3")


def look_at_the_state(page: Page) -> None:
    """Find a word in the input."""
    page.locator(".run-tabs").get_by_role("link", name="State").click()
    page.get_by_role("navigation", name="View").get_by_role("link", name="Input", exact=True).click()
    page.get_by_role("searchbox").fill("looked into")
    page.get_by_role("button", name="Search").click()
    page.locator(".run-hits").get_by_role("link").first.click()
    expect(page.locator("[data-tree]")).to_contain_text("Looked into")
    picture_page(page, "run-state")


def test_a_run_is_looked_into_and_no_event_is_lost_while_its_stream_is_held(person: OpenPage) -> None:
    adam, ben = person("adam"), person("ben")
    start_run(adam, "publish_article", {"Headline": "Looked into", "Cool-down": "0"})
    expect_live(adam)
    expect_status(adam, "waiting")
    expect(adam.locator("#run-head .run-standing")).to_contain_text("Waiting for")
    move_the_graph(adam)
    look_at_a_step(adam)
    draw_over_the_timeline(adam)
    ben.goto(adam.url)
    ben.locator("#run-requests").get_by_role("link").first.click()
    hold_the_stream_while(adam, ben)
    open_an_event_by_its_address(adam)
    look_at_the_state(adam)
