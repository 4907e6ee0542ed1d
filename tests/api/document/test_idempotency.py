"""Every POST of the document, sent twice with one key: it is done once, and answered the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from checkpoints.models import AuditEntry, Event, Grant, HumanRequest, IdempotencyKey, Notice, Run, SavedView, Schedule
from checkpoints.models.user_model import User
from tests import people
from tests.api.document.calls import DAYS, PLAN, START, Call
from tests.pages.runs.test_migrate import catalogue, serve, waiting
from tests.worker.graphs import expense
from wfdash.engines.catalog import Catalog
from wfdash.web.api.document import KEY, PURE, operations
from wfdash.web.api.router import api_document

__all__ = ["catalogue", "waiting"]
OTHERS: Mapping[str, Any] = {
    "start_run": {**START, "message": {"claims": "b"}},
    "tag_run": {"add": ["y"]},
    "send_signal": {"name": "paid"},
    "label_checkpoint": {"label": "b"},
    "assign_many": {"requests": ["x"]},
    "undo_many": {"requests": ["x"]},
    "write_comment": {"text": "Why not?"},
    "assign_request": {"to": None},
    "snooze_request": {"until": DAYS["until"]},
    "extend_deadline": {"due": DAYS["until"]},
    "amend_request": {"body": "Even more"},
    "create_schedule": {**PLAN, "workflow": people.WORKFLOW, "name": "Daily"},
    "make_group": {"name": "sales"},
    "grant_role": {"role": "admin", "person": "sam"},
    "read_notifications": {"ids": ["x"]},
    "create_view": {"name": "Ours"},
    "create_absence": {"delegate": "vera", **DAYS},
}
"""Operation -> the body that its key is refused for afterwards; of the others it is refused for a new group."""
GRAPHS = ("migrate_run", "override_run")
"""Tried with a run whose graph has changed."""
ELSEWHERE = ("answer_again", "follow_up")
"""Tried with a run that has failed after an answer, and in ``runs/test_follow_ups.py``."""


def posts() -> set[str]:
    return {one["operationId"] for _, method, one in operations(api_document()) if method == "post"}


def rows() -> list[int]:
    """Return how much has happened: what a second call would add to."""
    kinds = (AuditEntry, Event, Grant, HumanRequest, Notice, Run, SavedView, Schedule, User, IdempotencyKey)
    return [kind.objects.count() for kind in kinds]


def check(client: Client, call: Call, body: Any = None) -> None:
    key = {"Idempotency-Key": "once"}
    first = call.send(client, **key)
    assert first.status_code < 300, first.content
    done = rows()
    again = call.send(client, **key)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert rows() == done
    group = Call("post", "/api/v1/groups", {"name": "another"})
    other = (group if body is None else call._replace(body=body)).send(client, **key)
    assert (other.status_code, b"key_reused" in other.content) == (409, True), other.content
    assert rows() == done


def test_a_call_that_is_sent_twice_is_done_once(each: dict[str, Call], adam: Client) -> None:
    wrong = []
    for name in posts() - PURE - {*GRAPHS, *ELSEWHERE}:
        # Each finds what was there before the others.
        with transaction.atomic():
            try:
                check(adam, each[name], OTHERS.get(name))
            except AssertionError as error:
                wrong.append(f"{name}: {error}")
            transaction.set_rollback(True)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.django_db(transaction=True)
def test_a_run_is_moved_to_its_changed_graph_once(name: str, waiting: Run, catalogue: Catalog, adam: Client) -> None:
    serve(catalogue, expense(extra=True)).migrate(from_version=waiting.version)(lambda migration: None)
    check(adam, Call("post", f"/api/v1/runs/{waiting.pk}/{name.removesuffix('_run')}"))


def test_the_document_offers_a_key_where_something_changes() -> None:
    taking = {one["operationId"] for _, _, one in operations(api_document()) if KEY in one["parameters"]}
    assert taking == posts() - PURE
