"""What surrounds every page."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import RequestFactory

from wfdash.access.viewer import Viewer
from wfdash.notifications.rendering import engine, render_to_string
from wfdash.web.pages.site.context_processors import THEME_COOKIE, SiteContext, site_context

SOMEONE = Viewer(user=SimpleNamespace(is_staff=False, pk=1), name="ana")


def request_of(viewer: Any = None, **cookies: str) -> Any:
    request = RequestFactory().get("/")
    request.COOKIES.update(cookies)
    request.resolver_match = SimpleNamespace(url_name="runs")
    if viewer:
        request.viewer = viewer
    return request


def test_the_count_is_not_asked_for_until_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("wfdash.web.pages.site.context_processors.count_open", lambda viewer: asked.append(viewer) or 7)
    site = site_context(request_of(SOMEONE))["site"]
    assert asked == []
    assert (site.open_count, site.open_count) == (7, 7)
    assert len(asked) == 1


@pytest.mark.parametrize(("open_requests", "badge"), [(0, "0"), (999, "999"), (1000, "999+"), (10_000, "999+")])
def test_many_open_requests_are_shown_as_more_than_999(open_requests: int, badge: str) -> None:
    request = request_of(SOMEONE)
    request.open_count = open_requests
    assert SiteContext(request).open_badge == badge


def test_strangers_are_counted_nothing_and_have_no_name() -> None:
    site = SiteContext(request_of())
    assert (site.open_count, site.name, site.is_staff) == (0, "", False)


def test_the_theme_comes_from_the_cookie_and_only_a_known_one() -> None:
    assert SiteContext(request_of(**{THEME_COOKIE: "dark"})).theme == "dark"
    assert SiteContext(request_of(**{THEME_COOKIE: '"><script>'})).theme == "auto"


def test_the_place_one_is_at_is_marked() -> None:
    assert [place.label for place in SiteContext(request_of()).nav if place.here] == ["Runs"]


def test_no_page_carries_inline_scripts_or_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wfdash.web.pages.site.context_processors.count_open", lambda viewer: 3)
    monkeypatch.setattr("wfdash.web.pages.site.context_processors.count_each", lambda parts: [3])
    monkeypatch.setattr("wfdash.web.pages.site.context_processors.whom_to_ask", lambda: ("ada",))
    request = request_of(SOMEONE)
    html = render_to_string("base.html", site_context(request), request=request)
    assert "style=" not in html
    assert "<style" not in html
    assert "onclick" not in html
    assert re.findall(r"<script[^>]*>(?!</script>)|<script(?![^>]* src=)[^>]*>", html) == []
    assert 'href="#main"' in html


@pytest.mark.parametrize("status", ["queued", "running", "waiting", "failed"])
def test_a_status_is_told_in_a_word(status: str) -> None:
    html = engine().from_string("{% load wfdash %}{% status s %}").render({"s": status})
    assert f"is-{status}" in html
    assert f">{status}" in html.replace("</span>", ">").replace(">>", ">")


def test_a_query_string_keeps_the_rest_and_drops_the_page() -> None:
    request = RequestFactory().get("/", {"q": "a b", "tab": "all", "after": "x"})
    html = engine().from_string('{% load wfdash %}{% query_set "tab" "mine" %}').render({"request": request})
    assert html == "?q=a+b&amp;tab=mine"
