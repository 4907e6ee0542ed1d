"""One damaged row hides nothing but itself: SQLite takes any text into any column."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from checkpoints.database.direct import with_write_lock
from tests import people
from wfdash.actions.requests.collaboration import comment_on
from wfdash.actions.schedules import SchedulePlan, create_schedule

pytestmark = pytest.mark.django_db
LISTS = [
    *("/", "/runs/", "/runs/?sort=longest", "/runs/?q=status:waiting", "/decisions/", "/audit/", "/audit/export.csv"),
    *("/statistics/", "/operations/", "/notifications/", "/schedules/", "/workflows/", "/runs/export/"),
    *("/api/v1/runs", "/api/v1/requests", "/api/v1/schedules"),
    *("/runs/{good.pk}/", "/requests/{asked.pk}/", "/requests/{asked.pk}/similar/"),
]
OWN = ["/runs/{run.pk}/", "/runs/{run.pk}/events/", "/api/v1/runs/{run.pk}", "/requests/{bad.pk}/"]
DAMAGED = {
    "run": [
        *("phase='weird'", "created='nope'", "updated='2026-13-45'", "seq='x'", "n='x'", "requesters='{broken'"),
        *("finished='nope', phase='failed'", "error='{broken', phase='failed'", "input='{broken', output='{broken'"),
    ],
    "humanrequest": [
        *(f"{name}='{{broken'" for name in ("policy", "answer_schema", "by", "not_by", "suggestion")),
        *("created='nope'", "risk='x', due='nope'", "by='5'", "by='[7]'", "not_by='{}'", "policy='[3]'"),
    ],
    "event": ["data='{broken'", "at='nope', kind='weird'"],
    "notice": ["payload='{broken', created='nope'"],
    "auditentry": ["facts='{broken', at='nope'"],
    "schedule": ["message='{broken', next_at='nope', created='nope'"],
}


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL refuses such text")
@pytest.mark.parametrize(("table", "damage"), [(table, one) for table, all_ in DAMAGED.items() for one in all_])
def test_a_row_that_cannot_be_read_takes_no_list_down(
    everybody: dict[str, User], client: Client, table: str, damage: str
) -> None:
    assert with_write_lock in connection.execute_wrappers
    good, run = people.make_run(created_by=everybody["otto"]), people.make_run(created_by=everybody["otto"])
    for one in (good, run):
        people.happen(one, ("run.started", None, {}))
        people.save(one)
    asked, bad = people.ask(good, "good question"), people.ask(run, "bad question")
    plan = SchedulePlan(name="s", cron="@daily", message={"claims": "x"})
    create_schedule(people.viewer("otto"), people.WORKFLOW, plan)
    comment_on(people.viewer("ana"), bad.pk, "hi @adam")
    key = {"run": "id", "humanrequest": "run_id", "event": "run_id"}.get(table, f"'{run.pk}'")
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE checkpoints_{table} SET {damage} WHERE {key}=%s", [run.pk])
    client.force_login(everybody["adam"])
    for path in LISTS + OWN:
        at = path.format(good=good, run=run, asked=asked, bad=bad)
        found = client.post(at, {"kind": "csv"}) if at == "/runs/export/" else client.get(at)
        body = b"".join(found.streaming_content) if found.streaming else found.content  # type: ignore[arg-type]
        assert found.status_code == 200 or (path in OWN and found.status_code == 409), (path, found.status_code)
        if table == "run" and path in {"/runs/", "/api/v1/runs"}:
            assert run.pk.encode() in body
            words = b"Its metadata cannot be read" in body
            assert words is damage.startswith(("phase", "created", "updated", "seq", "n="))
