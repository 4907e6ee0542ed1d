"""Every POST of the document, sent twice with one key: it is done once, and answered the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from checkpoints.models import (
    AuditEntry,
    Event,
    Grant,
    HumanRequest,
    IdempotencyKey,
    Notice,
    Run,
    SavedView,
    Schedule,
)
from checkpoints.models.user_model import User
from tests import people
from tests.pages.runs.test_migrate import catalogue, serve, waiting
from tests.worker.graphs import expense
from wfdash import actions
from wfdash.access.viewer import viewer_for
from wfdash.api.document import KEY, PURE, operations
from wfdash.api.router import api_document
from wfdash.catalog import Catalog

__all__ = ["catalogue", "waiting"]
Ids = dict[str, str]
MESSAGE = {"claims": "x"}
PLAN = {"workflow": people.WORKFLOW, "name": "Nightly", "cron": "0 3 * * *", "message": MESSAGE}
START = {"workflow": people.WORKFLOW, "message": MESSAGE}
LATER = {"since": "2031-01-01T00:00:00Z", "until": "2031-01-02T00:00:00Z"}


class Call(NamedTuple):
    """A call that can be made; ``{run}`` and so on are ids. ``other``: what the key is refused for afterwards."""

    path: str
    body: Any = None
    other: Any = None


CALLS: Mapping[str, Call] = {
    "start_run": Call("runs", START, {**START, "message": {"claims": "b"}}),
    "bulk_runs": Call("runs/bulk", {"verb": "tag", "runs": ["{run}"], "add": ["x"]}),
    "cancel_run": Call("runs/{run}/cancel"),
    "pause_run": Call("runs/{run}/pause"),
    "resume_run": Call("runs/{paused}/resume"),
    "retry_run": Call("runs/{failed}/retry"),
    "tag_run": Call("runs/{run}/tags", {"add": ["x"]}, {"add": ["y"]}),
    "send_signal": Call("runs/{run}/signals", {"name": "shipped"}, {"name": "paid"}),
    "label_checkpoint": Call("runs/{run}/checkpoints/{checkpoint}/label", {"label": "a"}, {"label": "b"}),
    "restore_run": Call("runs/{run}/checkpoints/{checkpoint}/restore", {}),
    "fork_run": Call("runs/{run}/checkpoints/{checkpoint}/fork", {}),
    "answer_request": Call("requests/{request}/answer", {"value": {"action": "approve"}}),
    "undo_answer": Call("requests/{given}/undo"),
    "answer_many": Call("requests/answer", {"requests": [{"id": "{request}", "seen": "x"}], "verdict": "approve"}),
    "assign_many": Call("requests/assign", {"requests": ["{request}"], "to": "ana"}, {"requests": ["{given}"]}),
    "undo_many": Call("requests/undo", {"requests": ["{given}"]}, {"requests": ["{request}"]}),
    "write_comment": Call("requests/{request}/comments", {"text": "Why?", "kind": "ask"}, {"text": "Why not?"}),
    "assign_request": Call("requests/{request}/assign", {"to": "ana"}, {"to": None}),
    "extend_deadline": Call("requests/{request}/deadline", {"due": LATER["since"]}, {"due": LATER["until"]}),
    "take_request": Call("requests/{request}/take"),
    "amend_request": Call("requests/{request}/amend", {"body": "More"}, {"body": "Even more"}),
    "create_schedule": Call("schedules", PLAN, {**PLAN, "name": "Daily"}),
    "pause_schedule": Call("schedules/{schedule}/pause"),
    "resume_schedule": Call("schedules/{stopped}/resume"),
    "run_schedule": Call("schedules/{schedule}/run"),
    "deactivate_person": Call("people/ben/deactivate"),
    "reactivate_person": Call("people/gone/reactivate"),
    "end_sessions": Call("people/ben/end-sessions"),
    "make_group": Call("groups", {"name": "legal"}, {"name": "sales"}),
    "grant_role": Call("grants", {"role": "viewer", "person": "sam"}, {"role": "admin", "person": "sam"}),
    "read_notifications": Call("notifications/read", {}, {"ids": ["x"]}),
    "create_view": Call("views", {"name": "Mine"}, {"name": "Ours"}),
    "create_absence": Call("absences", {"delegate": "ben", **LATER}, {"delegate": "ana", **LATER}),
    "end_absence": Call("absences/{absence}/end"),
}
GRAPHS = ("migrate_run", "override_run")
"""Tried with a run whose graph has changed."""


def documented() -> set[str]:
    return {one["operationId"] for _, _, one in operations(api_document()) if KEY in one["parameters"]}


@pytest.fixture
def ids(everybody: dict[str, User], run: Run, history: Any, question: HumanRequest, as_: Any) -> Ids:
    adam = as_("adam")
    given = people.ask(run)
    address = f"/api/v1/requests/{given.pk}/answer"
    adam.post(address, {"value": {"action": "approve"}, "undo": True}, content_type="application/json")
    viewer = viewer_for(everybody["adam"])
    plans = [actions.SchedulePlan(name=name, cron="@daily", message=MESSAGE) for name in ("Running", "Stopped")]
    schedule, stopped = (actions.create_schedule(viewer, people.WORKFLOW, plan).pk for plan in plans)
    actions.pause_schedule(viewer, stopped)
    away = actions.set_absence(viewer, "ana", timezone.now(), timezone.now() + timedelta(days=1)).pk
    User.objects.create(username="gone", is_active=False)
    paused, failed = (people.make_run(phase=phase) for phase in ("paused", "failed"))
    requests = {"request": question.pk, "given": given.pk}
    runs = {"run": run.pk, "paused": paused.pk, "failed": failed.pk, "checkpoint": history[0].pk}
    return {**requests, **runs, "schedule": schedule, "stopped": stopped, "absence": str(away)}


def filled(value: Any, ids: Ids) -> Any:
    """Return a value with ids in its texts."""
    if isinstance(value, dict):
        return {name: filled(one, ids) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, ids) for one in value]
    return value.format(**ids) if isinstance(value, str) else value


def rows() -> list[int]:
    """Return how much has happened: what a second call would add to."""
    kinds = (AuditEntry, Event, Grant, HumanRequest, Notice, Run, SavedView, Schedule, User, IdempotencyKey)
    return [kind.objects.count() for kind in kinds]


def check(client: Client, call: Call) -> None:
    def send(path: str, body: Any) -> Any:
        headers = {"Idempotency-Key": "once"}
        return client.post(f"/api/v1/{path}", body or {}, content_type="application/json", headers=headers)

    first = send(call.path, call.body)
    assert first.status_code < 300, first.content
    done = rows()
    again = send(call.path, call.body)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert rows() == done
    other = send(call.path, call.other) if call.other else send("groups", {"name": "another"})
    assert (other.status_code, b"key_reused" in other.content) == (409, True), other.content
    assert rows() == done


def test_a_call_that_is_sent_twice_is_done_once(ids: Ids, as_: Callable[..., Client]) -> None:
    adam, wrong = as_("adam"), []
    for name, call in CALLS.items():
        # Each finds what was there before the others.
        with transaction.atomic():
            try:
                check(adam, Call(*(filled(part, ids) for part in call)))
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
            transaction.set_rollback(True)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.django_db(transaction=True)
def test_a_run_is_moved_to_its_changed_graph_once(
    name: str, waiting: Run, catalogue: Catalog, as_: Callable[..., Client]
) -> None:
    new = serve(catalogue, expense(extra=True))
    new.migrate(from_version=waiting.version)(lambda migration: None)
    check(as_("adam"), Call(f"runs/{waiting.pk}/{name.removesuffix('_run')}"))


def test_every_post_that_takes_a_key_was_tried() -> None:
    posts = {one["operationId"] for _, method, one in operations(api_document()) if method == "post"}
    assert documented() == posts - PURE == {*CALLS, *GRAPHS}
