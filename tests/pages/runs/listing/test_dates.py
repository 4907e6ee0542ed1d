"""When runs began is chosen from a menu, in the person's zone, and stands in the filter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.utils import timezone

from tests import people
from wfdash.domain.errors import Invalid
from wfdash.queries.search import Term, split, times_of
from wfdash.web.pages.runs.listing import dates_of, with_dates
from wfdash.web.pages.site.list_page import RunsAddress

NOW = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)


def span_of(text: str) -> tuple[datetime | None, datetime | None]:
    (term,) = (said for _, said in split(text) if isinstance(said, Term) and said.key == "started")
    return times_of(term.values[0], term.sign, NOW)


def filters(place: RunsAddress) -> dict[str, str]:
    return {label: parse_qs(urlsplit(href).query)["q"][0] for href, label, _ in dates_of(place, NOW).presets}


def test_presets_replace_the_dates_and_leave_the_rest():
    with timezone.override("UTC"):
        found = filters(RunsAddress(q="status:failed started:<9d parcel"))
    assert found["Last hour"] == "status:failed started:<1h parcel"
    assert found["Today"] == "status:failed started:today parcel"
    assert found["Last 30 days"] == "status:failed started:<30d parcel"


@pytest.mark.parametrize(("zone", "start"), [("Europe/Rome", 22), ("America/New_York", 21), ("Asia/Kathmandu", 22)])
def test_today_is_that_of_the_person(zone, start):
    with timezone.override(zone):
        since, until = span_of(filters(RunsAddress(q=""))["Today"])
        assert timezone.localtime(since) == timezone.make_aware(datetime(2026, 11, start))
    assert until - since == timedelta(days=1)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Rome", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("2026-11-21T14:05", "2026-11-22T00:00"),
        ("2026-03-28T00:00", "2026-03-30T00:00"),
        ("2026-11-21T14:05", ""),
        ("", "2026-11-21T14:05"),
    ],
)
def test_two_times_are_said_in_the_filter_and_shown_again_as_they_were(zone, first, last):
    with timezone.override(zone):
        text = with_dates("a started:today b", first, last)
        chosen = dates_of(RunsAddress(q=text), NOW)
        assert (chosen.since, chosen.until, chosen.label) == (first, last, "Custom")
    assert [part for part, _ in split(text)][::2] == ["a", "b"]


@pytest.mark.parametrize(
    ("first", "last"), [("x", ""), ("", "2026-13-01T00:00"), ("2026-11-21T15:00", "2026-11-21T14:00")]
)
def test_times_that_are_none_or_the_wrong_way_round_are_refused(first, last, run, as_):
    with pytest.raises(Invalid):
        with_dates("", first, last)
    answer = as_("vera").get(f"/runs/?q=parcel&from={quote(first)}&to={quote(last)}", follow=True)
    assert answer.redirect_chain == [("/runs/?q=parcel", 302)]
    page = answer.content.decode()
    assert "Enter a date and time" in page or "The end must be after the start" in page


def test_no_times_at_all_are_any_time():
    assert with_dates("started:<1h x", "", "") == "x"


def test_the_list_of_two_times_finds_what_began_between_them(everybody, as_):
    inside = people.make_run(created=datetime(2026, 1, 5, 12, tzinfo=UTC))
    people.make_run(created=datetime(2026, 1, 5, 13, tzinfo=UTC))
    page = as_("vera").get("/runs/?from=2026-01-05T12:00&to=2026-01-05T13:00&sort=started", follow=True)
    assert [line.run.id for line in page.context["rows"]] == [inside.pk]
    assert page.redirect_chain[0][0] == "/runs/?q=started%3A2026-01-05T12&sort=started"
