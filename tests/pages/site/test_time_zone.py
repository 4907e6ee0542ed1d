"""Times are shown in the browser's zone, and say which it is."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Absence, AuditEntry, Event, Preference
from tests import people
from wfdash.domain.cron import known_zones
from wfdash.web.pages.ui import times
from wfdash.web.pages.ui.fragments import event_row


@pytest.fixture
def berlin(as_):
    client = as_("otto")
    client.cookies["wfdash_zone"] = "Europe%2FBerlin"
    return client


@pytest.fixture
def run(everybody):
    found = people.make_run()
    people.happen(found, *people.step("pay", "started", "finished"))
    return found


def text(answer) -> str:
    return answer.content.decode()


def test_lists_whose_order_matters_show_times_to_the_millisecond_in_the_browser_s_zone(run, berlin, as_):
    page = text(berlin.get(f"/runs/{run.pk}/events/"))
    assert ">2026-01-05 10:00:01.000</time>" in page
    assert 'title="2026-01-05 10:00:01 UTC+1"' in page
    assert ">2026-01-05 09:00:01.000</time>" in text(as_("otto").get(f"/runs/{run.pk}/events/"))


def test_events_say_how_long_after_the_run_was_created_they_happened_live_ones_too(run, as_):
    page = text(as_("otto").get(f"/runs/{run.pk}/events/"))
    assert '<span class="elapsed">+1.000 s</span>' in page
    assert '<span class="elapsed">+1.000 s</span>' in event_row(Event.objects.get(run=run, seq=1))
    assert page.count("data-zone title") == 2, "in the menu and at the list"


def test_relative_times_are_dates_where_the_browser_has_chosen_that(run, berlin):
    assert "2026-01-05 10:00:00</time>" not in text(berlin.get("/runs/"))
    berlin.cookies["wfdash_times"] = "absolute"
    page = text(berlin.get("/runs/"))
    assert "data-relative>2026-01-05 10:00:00</time>" in page
    assert re.search("data-zone data-zone-lists title=.Europe/Berlin.", page), "then the zone is said"
    berlin.cookies["wfdash_times"] = "nonsense"
    assert "data-zone data-zone-lists hidden" in text(berlin.get("/runs/"))


def test_without_script_pages_use_the_zone_of_the_settings(run, berlin, as_):
    client = as_("otto")
    form = {"zone": "Asia/Tokyo", "digest": "", "digest_at": "08:00"}
    assert client.post("/settings/", form).status_code == 302
    assert ">2026-01-05 18:00:01.000</time>" in text(client.get(f"/runs/{run.pk}/events/"))
    assert ">2026-01-05 10:00:01.000</time>" in text(berlin.get(f"/runs/{run.pk}/events/")), "a browser knows better"


def test_a_zone_that_differs_from_the_browser_s_is_offered_to_be_changed(run, berlin):
    assert "This browser is in" not in text(berlin.get("/settings/"))
    Preference.objects.create(user=people.viewer("otto").user, data={"zone": "Asia/Tokyo"})
    page = text(berlin.get("/settings/"))
    assert "This browser is in Europe/Berlin" in page
    assert 'value="Asia/Tokyo"' in page
    taken = text(berlin.get("/settings/?zone=browser"))
    assert 'value="Europe/Berlin"' in taken
    assert "This browser is in" not in taken


def test_the_audit_log_shows_when_each_act_happened(run, berlin):
    AuditEntry.objects.create(n=900, at=people.THEN, actor="otto", verb="pause", run=run.pk, workflow=run.workflow)
    assert ">2026-01-05 10:00:00.000</time>" in text(berlin.get("/audit/"))
    # The record is evidence: it reads the same for everyone.
    assert ">2026-01-05 09:00:00.000 UTC</time>" in text(berlin.get("/audit/900/"))


@pytest.mark.parametrize("zone", ["Nowhere/Town", "../../etc/passwd", "posix", "%00", "x" * 5000, "Europe%2FBerlin%0D"])
def test_an_unknown_zone_is_utc(run, as_, zone):
    client = as_("otto")
    client.cookies["wfdash_zone"] = zone
    assert "UTC+1" not in text(client.get(f"/runs/{run.pk}/events/"))
    assert timezone.get_current_timezone_name() == "UTC"


def test_forms_use_the_browser_s_zone_until_a_person_has_chosen_one(run, berlin):
    request = people.ask(run)
    assert "Europe/Berlin, your time zone" in text(berlin.get(f"/requests/{request.pk}/deadline/"))
    assert 'value="Europe/Berlin"' in text(berlin.get("/settings/"))
    Preference.objects.create(user=people.viewer("otto").user, data={"zone": "Asia/Tokyo"})
    assert "Asia/Tokyo, your time zone" in text(berlin.get(f"/requests/{request.pk}/deadline/"))


def test_days_away_are_days_where_the_person_is(everybody, as_):
    client = as_("ana")
    client.cookies["wfdash_zone"] = "Asia/Tokyo"
    day = (timezone.now() + timedelta(days=10)).date()
    client.post("/out-of-office/", {"delegate": "ben", "since": day.isoformat(), "until": day.isoformat()})
    kept = Absence.objects.get()
    assert kept.since == datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=9)
    assert kept.until - kept.since == timedelta(days=1)


@pytest.mark.parametrize(("zone", "words"), [("UTC", "UTC"), ("Asia/Kolkata", "UTC+5:30"), ("America/Lima", "UTC-5")])
def test_the_zone_is_said_as_its_distance_to_utc(zone, words):
    assert times.offset(people.THEN, timezone.zoneinfo.ZoneInfo(zone)) == words


def test_zones_are_known_by_name():
    assert {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"} <= known_zones()
