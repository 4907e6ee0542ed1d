"""Times in the browser: in the server's words, in the browser's zone, as dates where someone prefers them."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenContext, OpenPage, sign_in
from tests.e2e.looks import check_accessibility
from tests.e2e.server import Server
from tests.e2e.server import demo_of_all as demo_of_all
from tests.pages.ui.time_cases import AWAY, LENGTHS, MOMENTS, NOW, SINCE, ZONES
from wfdash.web.pages.ui import times

ASK = """async ([now, away, since, lengths, moments]) => {
  const time = await import(new URL("site/time.js", document.querySelector("script[data-scripts]").src));
  const from = new Date(now);
  const moved = (seconds) => new Date(from.getTime() + Math.round(seconds * 1000));
  return [
    away.map((seconds) => time.relative(moved(seconds), from)),
    since.map((seconds) => time.since(moved(seconds), from)),
    lengths.map((seconds) => time.duration(seconds)),
    moments.map((at) => [time.clock(new Date(at)), time.exact(new Date(at))]),
  ];
}"""


@pytest.mark.parametrize("name", ZONES)
def test_the_browser_says_times_as_the_server_does(name: str, open_context: OpenContext, server: Server) -> None:
    zone = ZoneInfo(name)
    page = open_context(base_url=server.url, timezone_id=name).new_page()
    page.goto("/")
    asked = ([away.total_seconds() for away, _ in AWAY], [away.total_seconds() for away, _ in SINCE])
    relative, since, lengths, moments = page.evaluate(
        ASK, [NOW.isoformat(), *asked, [seconds for seconds, _ in LENGTHS], list(MOMENTS)]
    )
    assert relative == [times.relative(NOW + away, NOW, zone) for away, _ in AWAY]
    assert since == [words for _, words in SINCE]
    assert lengths == [words for _, words in LENGTHS]
    known = [datetime.fromisoformat(text) for text in MOMENTS]
    assert moments == [[times.clock(at, zone), times.exact(at, zone)] for at in known]


def test_a_person_may_prefer_dates_and_the_browser_remembers_it(person: OpenPage) -> None:
    page = person("adam")
    page.goto("/")
    first = page.locator("time[data-relative]:not([data-since])").first
    expect(first).to_have_text(re.compile("ago|now|^in "))
    page.keyboard.press("T")
    expect(first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"))
    page.goto("/runs/")
    html = page.request.get("/runs/").text()
    assert re.search(r"data-relative>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d</time>", html), "from the start"
    page.get_by_text("A adam").click()
    chosen = page.get_by_role("group", name="Times in lists")
    expect(chosen.get_by_role("button", name="Date")).to_have_attribute("aria-pressed", "true")
    check_accessibility(page)
    chosen.get_by_role("button", name="Relative").click()
    expect(page.locator("#main time[data-relative]").first).to_have_text(re.compile("ago|now"))


def test_settings_and_tables_know_the_zone_of_the_browser(open_context: OpenContext, server: Server) -> None:
    context = open_context(base_url=server.url, timezone_id="Europe/Berlin")
    page = context.new_page()
    sign_in(page, server.link_for("ben"))
    page.goto("/settings/")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    page.goto("/audit/")
    expect(page.locator("[data-zone]").first).to_have_text(re.compile(r"UTC\+[12]"))
