from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.test import Client

from checkpoints.database import schema
from checkpoints.database.clock import database_now
from checkpoints.models import Schedule
from tests.people import ask, make_people, make_run
from wfdash.installation.stopping import Stopping
from wfdash.web.pages.site import health
from wfdash.worker.serving import start_heartbeat, stop_heartbeat


@pytest.fixture
def worker(db: None) -> None:
    start_heartbeat("elsewhere")


def checks(address: str = "/health") -> tuple[int, dict[str, str]]:
    answer = Client().get(address)
    first, *lines = answer.content.decode().splitlines()
    good = "ready" if address == "/readyz" else "healthy"
    assert first == (good if answer.status_code == 200 else f"not {good}")
    assert ("Retry-After" in answer.headers) == (answer.status_code == 503)
    return answer.status_code, {line.split()[1].rstrip(":"): line for line in lines}


def test_a_live_process_says_so_without_a_database():
    assert Client().get("/livez").content == b"ok\n"


def test_a_migrated_database_with_a_worker_anywhere_is_healthy(worker):
    status, told = checks()
    assert status == 200
    assert all(line.startswith("ok") for line in told.values())
    assert list(told) == ["database", "migrations", "keys", "worker", "timers"]


def test_anyone_who_asks_learns_it_in_a_few_small_queries(worker, django_assert_max_num_queries):
    with django_assert_max_num_queries(13):
        checks()


@pytest.mark.django_db
def test_without_a_worker_nothing_is_healthy_and_the_remedy_is_said():
    status, told = checks()
    assert status == 503
    assert (
        told["worker"] == "FAILED worker: no heartbeat for 20 s: start one (wfdash worker, or manage.py wfdash_worker)"
    )
    start_heartbeat("elsewhere")
    assert checks()[0] == 200
    stop_heartbeat("elsewhere")
    assert checks()[0] == 503


def test_what_is_late_is_named(worker):
    now = database_now()
    make_people()
    run = make_run()
    ask(run, alarm=now - timedelta(seconds=10))
    assert checks()[0] == 200
    ask(run, alarm=now - timedelta(minutes=5))
    status, told = checks()
    assert status == 503
    assert told["timers"].startswith("FAILED timers: a deadline or reminder of a request is 5 min")


def test_a_schedule_that_did_not_fire_is_late(worker):
    now = database_now()
    owner = make_people()["otto"]
    Schedule.objects.create(
        id="s", workflow="expense", name="daily", cron="0 9 * * *", owner=owner, created=now, updated=now,
        next_at=now - timedelta(minutes=2),
    )  # fmt: skip
    assert "a schedule is 2 min" in checks()[1]["timers"]


def test_a_database_that_does_not_answer_is_not_healthy(monkeypatch):
    def fail():
        raise DatabaseError

    monkeypatch.setattr(health, "database_now", fail)
    assert checks() == (503, {"database": "FAILED database: no response"})


def test_one_check_that_fails_leaves_the_others_told(worker, monkeypatch):
    def fail(now):
        raise DatabaseError

    monkeypatch.setattr(health, "lateness", fail)
    status, told = checks()
    assert status == 503
    assert told["worker"].startswith("ok")
    assert told["timers"] == "FAILED timers: the database did not respond"


def test_a_migration_that_is_missing_is_named(worker, monkeypatch):
    monkeypatch.setattr(schema, "needed_migrations", lambda: frozenset({("checkpoints", "9999_later")}))
    assert checks() == (
        503,
        {"database": "ok database: responding", "migrations": "FAILED migrations: not applied: checkpoints.9999_later"},
    )


@pytest.mark.django_db
def test_a_server_is_ready_whatever_becomes_of_workers_and_timers(django_assert_max_num_queries):
    with django_assert_max_num_queries(6):
        status, told = checks("/readyz")
    assert status == 200
    assert list(told) == ["process", "workflows", "database", "migrations", "keys"]


@pytest.mark.django_db
def test_a_process_that_stops_is_not_ready(monkeypatch):
    ours = Stopping()
    monkeypatch.setattr(health, "stopping", ours)
    ours.begin()
    status, told = checks("/readyz")
    assert status == 503
    assert told["process"] == "FAILED process: stopping"


@pytest.mark.django_db
def test_a_process_whose_workflows_cannot_be_loaded_is_not_ready(monkeypatch):
    def fail():
        raise RuntimeError

    monkeypatch.setattr(health.catalog, "read", fail)
    status, told = checks("/readyz")
    assert status == 503
    assert told["workflows"] == "FAILED workflows: cannot be loaded: RuntimeError"
