from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Grant, Preference, Run, Schedule
from tests.pages.markup import flat
from tests.people import viewer
from wfdash.actions.schedules import SchedulePlan, create_schedule, pause_schedule, run_now
from wfdash.engines import catalog
from wfdash.queries.schedules import read_schedules
from wfdash.web.pages import schedules

NEW = "/schedules/new/?workflow=expense_batch"
FORM = {
    "name": "Nightly",
    "cron": "0 9 * * MON-FRI",
    "zone": "Europe/Berlin",
    "missed": "all",
    "overlap": "skip",
    "input:claims": "ana,taxi,30",
    "input:limit": "50",
    "_key": "once",
}


@pytest.fixture
def made(everybody) -> Schedule:
    plan = SchedulePlan(
        name="Nightly", cron="0 3 * * *", zone="Europe/Berlin", message={"claims": "ana,taxi,30", "limit": 50}
    )
    return create_schedule(viewer("otto"), "expense_batch", plan)


def test_a_schedule_is_made_from_its_form_once(as_):
    client = as_("otto")
    answers = [client.post(NEW, FORM) for _ in range(2)]
    made = Schedule.objects.get()
    assert {answer.url for answer in answers} == {f"/schedules/{made.pk}/"}
    assert (made.name, made.cron, made.zone, made.missed, made.overlap) == tuple(list(FORM.values())[:5])
    assert (made.message, made.owner.username) == ({"claims": "ana,taxi,30", "limit": 50}, "otto")
    page = client.get(answers[0].url).content.decode()
    assert "At 09:00 on Monday through Friday" in page
    assert page.count('class="schedule-there"') == 5
    assert "09:00 CE" in page


def test_a_time_that_the_clock_skips_says_so_and_the_next_one_is_in_the_schedule_s_zone(made, as_):
    Schedule.objects.update(next_at=datetime(2027, 3, 28, 1, tzinfo=UTC))
    times = (datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 3, 29, 0, 30, tzinfo=UTC))
    shown = schedules.fire_times(times, "30 2 * * *", "Europe/Berlin", "UTC")
    assert [(one.there, one.instead_of) for one in shown] == [
        ("Sun 2027-03-28 03:00 CEST", "02:30"),
        ("Mon 2027-03-29 02:30 CEST", ""),
    ]
    otto = as_("otto")
    for address in f"/schedules/{made.pk}/", "/workflows/expense_batch/":
        assert "next Sun 2027-03-28 03:00 CEST" in otto.get(address).content.decode()


def test_mistakes_are_said_at_their_fields_and_what_was_typed_is_kept(as_):
    wrong = {**FORM, "name": "", "cron": "0 25 * * *", "zone": "Mars/Base", "input:limit": "9999"}
    answer = as_("otto").post(NEW, wrong)
    page = answer.content.decode()
    assert answer.status_code == 422
    for field in ("name", "zone", "cron"):
        assert f'id="schedule-{field}-error"' in page
    assert 'value="0 25 * * *"' in page
    assert 'value="9999"' in page
    assert 'value="all" checked' in page
    assert not Schedule.objects.exists()
    page = as_("otto").post(NEW, {**FORM, "cron": "0 25 * * *"}).content.decode()
    assert page.count("The hour, at character 3") == 2, "in the summary and at the field, not beside it too"


def test_input_that_the_workflow_refuses_is_said_at_its_field(as_):
    answer = as_("otto").post(NEW, {**FORM, "input:claims": ""})
    assert answer.status_code == 422
    assert "field-input" in answer.content.decode()
    assert not Schedule.objects.exists()


def test_the_times_can_be_checked_without_scripts_and_nothing_is_saved(as_):
    page = as_("otto").post(NEW, {**FORM, "name": "", "_check": "1"})
    assert page.status_code == 200
    assert page.content.decode().count('class="schedule-there"') == 5
    assert not Schedule.objects.exists()


def test_the_next_five_times_are_told_while_one_types_in_both_zones(as_, everybody):
    Preference.objects.create(user=everybody["otto"], data={"zone": "Asia/Tokyo"})
    page = as_("otto").get("/schedules/next/?cron=30+2+*+*+*&zone=America/New_York").content.decode()
    assert page.count('class="schedule-there"') == 5
    assert "02:30 E" in page
    assert flat(page).count("JST your time") == 5
    assert "at character 1" in as_("otto").get("/schedules/next/?cron=x+9+*+*+*&zone=UTC").content.decode()
    assert "appear here" in as_("otto").get("/schedules/next/").content.decode()


def test_the_list_shows_what_comes_next_and_filters_by_address(as_, made):
    create_schedule(viewer("otto"), "expense_batch", SchedulePlan(name="Other", cron="0 4 * * *", message=made.message))
    pause_schedule(viewer("otto"), made.pk)
    page = as_("vera").get("/schedules/").content.decode()
    assert page.index("Other") < page.index("Nightly")
    assert "Run now" not in page
    page = as_("otto").get("/schedules/?q=state:paused").content.decode()
    assert "Nightly" in page
    assert "Other" not in page
    assert "No schedules match" in as_("otto").get("/schedules/?q=state:stopped").content.decode()
    assert "Unknown filter &quot;colour&quot;" in as_("otto").get("/schedules/?q=colour:red").content.decode()
    assert "Nightly" not in as_("sam").get("/schedules/").content.decode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *[("state:paused", ["Nightly"]), ("-state:paused", ["Other"]), ("state:on,paused", ["Other", "Nightly"])],
        *[("state:on state:paused", ["Other", "Nightly"]), ("State:PAUSED", ["Nightly"]), ("-other", ["Nightly"])],
        *[("next:<2d", ["Other"]), ("next:>2d", []), ("next:<9999-01-01", ["Other"]), ("-next:<2d", ["Nightly"])],
        *[
            ("owner:me workflow:exp*", ["Other", "Nightly"]),
            ("owner:ana", []),
            ("workflow:other,expense_batch o", ["Other"]),
        ],
    ],
)
def test_schedules_are_filtered_as_every_list_is(made, text, found):
    plan = SchedulePlan(name="Other", cron="0 4 * * *", message=made.message)
    create_schedule(viewer("otto"), "expense_batch", plan)
    pause_schedule(viewer("otto"), made.pk)
    assert [row.name for row in read_schedules(viewer("otto"), text=text).items] == found


def test_many_schedules_are_shown_in_pages_the_next_to_fire_first(made, as_, monkeypatch):
    mine = viewer("otto")
    for name, cron in (("Noon", "0 12 * * *"), ("Also noon", "0 12 * * *"), ("Withdrawn", "0 3 * * *")):
        create_schedule(mine, "expense_batch", SchedulePlan(name=name, cron=cron, message=made.message))
    Schedule.objects.filter(name="Withdrawn").update(next_at=None)
    whole = [row.name for row in read_schedules(mine).items]
    read, cursor = [], ""
    for _ in whole:
        page = read_schedules(mine, cursor=cursor, limit=1)
        read, cursor = [*read, *(row.name for row in page.items)], page.next
    assert read == whole
    assert cursor == ""
    assert whole.index("Also noon") + 1 == whole.index("Noon")
    assert whole[-1] == "Withdrawn"

    monkeypatch.setattr(schedules, "PAGE_ROWS", 3)
    first = as_("otto").get("/schedules/").content.decode()
    assert "Withdrawn</a>" not in first
    later = html.unescape(re.search(r'href="(/schedules/\?after=[^"]+)"[^>]*>Later ', first)[1])
    second = as_("otto").get(later).content.decode()
    assert "Withdrawn</a>" in second
    assert "Noon</a>" not in second
    listed = as_("otto").get("/api/v1/schedules?limit=3").json()
    following = as_("otto").get("/api/v1/schedules", {"after": listed["next"]}).json()
    assert [row["name"] for row in (*listed["items"], *following["items"])] == whole
    assert following["next"] == ""


def test_the_empty_list_says_what_to_do(as_):
    assert "Create schedule" in as_("otto").get("/schedules/").content.decode()
    assert "Create schedule" not in as_("vera").get("/schedules/").content.decode()
    assert "Expense batch" in as_("otto").get("/schedules/new/").content.decode()
    assert "No workflows to schedule" in as_("vera").get("/schedules/new/").content.decode()


def test_run_now_opens_the_run_which_says_where_it_comes_from(as_, made):
    client = as_("otto")
    answer = client.post(f"/schedules/{made.pk}/", {"act": "run", "_key": "k"})
    run = Run.objects.get()
    assert answer.url == f"/runs/{run.pk}/"
    assert run.pk[-8:] in client.get(f"/schedules/{made.pk}/").content.decode()
    assert f'schedule <a href="/schedules/{made.pk}/" dir="auto">Nightly</a>' in client.get(answer.url).content.decode()
    assert "schedule Nightly" in client.get(f"/runs/{run.pk}/events/").content.decode()
    assert flat('last <span class="pill') in flat(client.get("/workflows/expense_batch/").content.decode())


def test_pausing_resuming_and_deleting(as_, made):
    client = as_("otto")
    page = client.post(f"/schedules/{made.pk}/", {"act": "pause"}, follow=True).content.decode()
    assert "Schedule paused" in page
    assert "if resumed" in page
    page = client.post(f"/schedules/{made.pk}/", {"act": "pause", "from": "list"}, follow=True).content.decode()
    assert "already paused" in page
    client.post(f"/schedules/{made.pk}/", {"act": "resume"})
    assert Schedule.objects.get().next_at > timezone.now()
    assert client.post(f"/schedules/{made.pk}/", {"act": "delete"}).url == "/schedules/"
    assert not Schedule.objects.exists()


def test_a_schedule_that_stopped_says_why(as_, made):
    Schedule.objects.update(next_at=None, problem="otto may not start runs")
    page = as_("vera").get(f"/schedules/{made.pk}/").content.decode()
    assert "Stopped automatically" in page
    assert "otto may not start runs" in page
    assert "Delete" not in page


def test_editing_shows_what_it_says_and_takes_it_over(as_, made):
    client = as_("adam")
    address = f"/schedules/{made.pk}/edit/"
    page = client.get(address).content.decode()
    assert 'value="0 3 * * *"' in page
    assert "ana,taxi,30" in page
    assert "instead of otto" in page
    assert client.post(address, {**FORM, "name": "Daily"}).url == f"/schedules/{made.pk}/"
    after = Schedule.objects.get()
    assert (after.name, after.owner.username, after.missed) == ("Daily", "adam", "all")


def test_input_that_no_longer_fits_is_said_when_it_is_run(as_, made):
    made.message = {"claims": ""}
    made.save()
    page = as_("otto").post(f"/schedules/{made.pk}/", {"act": "run"}, follow=True).content.decode()
    assert "Edit the schedule first" in page


@pytest.mark.parametrize(("name", "status"), [("ana", 403), ("vera", 403), ("sam", 404)])
def test_schedules_take_the_right_to_start(name, status, as_, made):
    client = as_(name)
    assert client.get(NEW).status_code == status
    assert client.post(NEW, FORM).status_code == status
    assert client.post(f"/schedules/{made.pk}/", {"act": "delete"}).status_code == status
    assert client.get(f"/schedules/{made.pk}/edit/").status_code == status
    assert Schedule.objects.count() == 1


def test_the_input_is_for_those_who_may_inspect_it(as_, made):
    assert "ana,taxi,30" in as_("vera").get(f"/schedules/{made.pk}/").content.decode()
    assert "ana,taxi,30" not in as_("ana").get(f"/schedules/{made.pk}/").content.decode()


def test_a_workflow_shows_its_schedules_and_when_the_next_run_comes(as_, made):
    page = as_("otto").get("/workflows/expense_batch/").content.decode()
    assert f"/schedules/{made.pk}/" in page
    assert "At 03:00 every day" in page
    assert re.search(
        r'workflow-next">\s*<a[^>]*>\s*<time', as_("otto").get("/workflows/?q=show:scheduled").content.decode()
    )
    Grant.objects.all().delete()
    assert as_("otto").get(f"/schedules/{made.pk}/").status_code == 404


def test_a_schedule_of_a_workflow_that_is_not_loaded_says_so_and_offers_what_can_be_done(as_, made, settings):
    settings.WFDASH_APPS = []
    catalog.load.cache_clear()
    page = as_("otto").get(f"/schedules/{made.pk}/").content.decode()
    assert "Its workflow is not loaded" in page
    assert "Run now" not in page
    assert "Pause" in page
    assert as_("otto").post(f"/schedules/{made.pk}/", {"act": "run"}).status_code == 404


def test_the_list_costs_a_constant_number_of_queries(as_, made, django_assert_max_num_queries):
    client = as_("otto")
    for n in range(5):
        plan = SchedulePlan(name=f"n{n}", cron="0 4 * * *", message=made.message)
        run_now(viewer("otto"), create_schedule(viewer("otto"), "expense_batch", plan).pk)
    with django_assert_max_num_queries(13):
        assert client.get("/schedules/").content.decode().count('title="At 04:00') == 5
    assert made.next_at < timezone.now() + timedelta(days=2)
