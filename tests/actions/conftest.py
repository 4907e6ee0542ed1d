from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection

from checkpoints import ids
from checkpoints.models import Grant, HumanRequest, Run
from tests.actions.lock_order import LockOrder, watched_locks
from tests.queries.conftest import everybody as everybody
from wfdash.access.viewer import Viewer, viewer_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def locks() -> Iterator[LockOrder]:
    """Each action locks rows in the one order, so that no two wait for each other."""
    if connection.vendor != "sqlite":  # Its statements say what they lock, and are not watched.
        yield LockOrder()
        return
    with watched_locks() as order:
        yield order
    assert not order.broken, "\n".join(order.broken)


@pytest.fixture
def person(db) -> Callable[..., Viewer]:
    def make(name: str, role: str | None = None, workflow: str = "*") -> Viewer:
        # In bulk, as no signal tells of it: the audit of a test begins with what the test does.
        user = User.objects.filter(username=name).first() or User.objects.bulk_create([User(username=name)])[0]
        Grant.objects.bulk_create([Grant(user=user, role=role, workflow=workflow)] if role else [])
        return viewer_for(user)

    return make


@pytest.fixture
def run(db) -> Run:
    run_id = ids.new_run_id()
    return Run.objects.create(
        id=run_id, family=run_id, workflow="expense", version="v1", phase="waiting", created=NOW, updated=NOW
    )


@pytest.fixture
def ask(run: Run) -> Callable[..., HumanRequest]:
    def make(key: str = "review:0", **facts: object) -> HumanRequest:
        facts = {
            "workflow": run.workflow,
            "step": "review",
            "kind": "approval",
            "answer_schema": {
                "type": "object",
                "properties": {"action": {"enum": ["approve", "reject"]}, "amount": {"type": "number", "maximum": 500}},
                "required": ["action"],
            },
            "created": NOW,
        } | facts
        return HumanRequest.objects.create(id=ids.new_request_id(), run=run, key=key, **facts)

    return make
