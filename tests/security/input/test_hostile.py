"""No input is answered with 500, stops what happens by itself, or keeps anything from being read afterwards.

The suite sends a hundred requests per person to SQLite; ``WFDASH_SHOTS`` sends more, ``WFDASH_SEED`` others
(``make faults`` does both, on each database).
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import Checkpoint, Event, HumanRequest, Run, WorkflowVersion
from tests import people
from tests.actions.schedules.conftest import _paper_catalog as _paper_catalog
from tests.pages.paper import expenses
from tests.security.hostile import Failure, Storm, World, readable
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import save_view
from wfdash.actions.hooks import incoming, webhooks
from wfdash.actions.hooks.incoming import IncomingPlan
from wfdash.actions.runs import bulk
from wfdash.actions.runs.bulk import start_bulk
from wfdash.actions.schedules import SchedulePlan, create_schedule
from wfdash.worker import outbox, sweeps

SHOTS = int(os.environ.get("WFDASH_SHOTS", "100"))
SEED = int(os.environ.get("WFDASH_SEED", "20261122"))
PAGES = ("runs", "statistics", "audit", "notifications", "workflows", "schedules", "settings", "out-of-office")
API = ("runs", "requests", "schedules", "openapi.json")


pytestmark = pytest.mark.timeout(300 + SHOTS)


@pytest.fixture
def world(db, settings, _paper_catalog) -> World:
    """One of everything that has an address."""
    settings.WFDASH_HOOKS_LOCAL = True
    everybody = people.make_people()
    adam = viewer_for(everybody["adam"])
    described = expenses.description
    WorkflowVersion.objects.create(
        workflow=described.workflow, version=described.version, description=described.model_dump(mode="json")
    )
    run = people.make_run(created_by=everybody["otto"])
    people.happen(run, ("run.queued", None, {"by": "otto"}), *people.step("read", "started", "finished", output=1))
    saved: list[Checkpoint] = [people.save(run, step="read")]
    saved.append(people.save(run, saved[0], step="review"))
    failed = people.make_run(phase="failed", error={"type": "E", "message": "x"})
    requests = [people.ask(run) for _ in range(4)]
    people.answered(requests[3], everybody["ana"])
    plan = SchedulePlan(name="Monthly", cron="0 7 1 * *", message={"claims": "x"})
    hook = IncomingPlan(name="In", workflow=described.workflow, mapping={"$": ""}, scheme="token")
    ids: dict[str, list[str]] = {
        "run_id": [run.pk, failed.pk],
        "checkpoint_id": [one.pk for one in saved],
        "request_id": [one.pk for one in requests],
        "schedule_id": [create_schedule(adam, described.workflow, plan).pk],
        "view_id": [str(save_view(adam, "Mine", "q=risk:high").pk)],
        "webhook_id": [webhooks.create_webhook(adam, name="Hook", url="http://127.0.0.1:9/", kinds=())[0].pk],
        "hook_id": [incoming.create_incoming(adam, hook)[0].pk],
        "bulk_id": [start_bulk(adam, "tag", [run.pk], add=["x"]).pk],
        "name": [described.workflow],
        "workflow": [described.workflow],
        "verb": ["pause", "resume", "retry"],
        "kind": ["json", "csv"],
        "number": ["0", "1", "99999999999999999999"],
        "n": ["1", "2", "99999999999999999999"],
        "seq": ["1", "2", "99999999999999999999"],
    }
    honest = {
        "workflow": described.workflow,
        "message": {"claims": "x", "limit": 1},
        "value": {"action": "approve"},
        "verb": "tag",
        "runs": [run.pk],
        "cron": "0 7 1 * *",
        "zone": "UTC",
        "name": "Name",
        "due": "2026-12-24T12:00:00Z",
        "edits": {"state": {"n": 5}, "messages": {}, "input": None, "answers": {}},
        "text": "Hello",
        "to": "ana",
        "url": "http://127.0.0.1:9/",
    }
    return World(ids=ids, honest=honest)


def told(failures: list[Failure]) -> str:
    return "\n\n".join(map(str, failures))


def everything(world: World) -> list[str]:
    """Return the addresses of all that was there before, and of all that has come since."""
    urls = ["/", *(f"/{page}/" for page in PAGES)] + [f"/api/v1/{page}" for page in API]
    urls += ["/?tab=all", "/?tab=answered", "/audit/export.json", "/audit/export.csv"]
    for run in Run.objects.values_list("pk", flat=True)[:50]:
        urls += [f"/runs/{run}/", f"/runs/{run}/events/", f"/runs/{run}/checkpoints/", f"/api/v1/runs/{run}"]
        urls += [f"/api/v1/runs/{run}/events", f"/runs/{run}/audit/", f"/runs/{run}/state/"]
    for request in HumanRequest.objects.values_list("pk", flat=True)[:50]:
        urls += [f"/requests/{request}/", f"/api/v1/requests/{request}", f"/api/v1/requests/{request}/comments"]
    return urls


@pytest.mark.parametrize("name", ["adam", "ana"])
def test_no_value_is_answered_with_an_error_of_the_server(world: World, name: str, caplog) -> None:
    client = Client()
    client.force_login(User.objects.get(username=name))
    with caplog.at_level(logging.CRITICAL, logger="django.request"):
        storm = Storm(client, world, SEED + len(name))
        failures = storm.run(SHOTS)
    assert not failures, told(failures)
    # Most kinds of answers were given: the storm went through the doors, not against a wall.
    assert {200, 302, 404, 422} <= set(storm.answers), storm.answers
    admin = Client()
    admin.force_login(User.objects.get(username="adam"))
    assert readable(admin, everything(world)) == []
    caplog.clear()
    sweep_all()
    wrong = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert wrong == []
    assert Event.objects.exists()


def sweep_all() -> None:
    """Do once what workers do by themselves."""
    sweeps.sweep_deadlines()
    sweeps.start_scheduled()
    for bundle in outbox.due_bundles():
        outbox.deliver(bundle)
    bulk.finish_bulks()


@pytest.mark.nightly
@pytest.mark.postgres
@pytest.mark.skipif("WFDASH_TEST_DATABASE" in os.environ, reason="this is the run on PostgreSQL")
def test_postgresql_takes_what_sqlite_takes(postgres_server: dict[str, Any], tmp_path: Path) -> None:
    """The same storm in a process whose database is PostgreSQL."""
    server = postgres_server
    url = f"postgresql://{server['USER']}:{server['PASSWORD']}@/{server['NAME']}?host={server['HOST']}"
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'nested'}", "-k", "answered"]
    command = [sys.executable, "-m", "pytest", *options, __file__]
    environment = {**os.environ, "WFDASH_TEST_DATABASE": url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stdout[-20_000:]
