"""Bulk operations on runs: previewed with ``dry_run``, started without, polled by id."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from checkpoints.models import Bulk
from wfdash import actions, queries
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.bodies import Body

router = Router()


class BulkIn(Body):
    """The action (retry, cancel, pause, resume, tag), and the runs: their ids, or with ``all`` what ``q`` finds."""

    verb: str
    runs: list[str] = []
    q: str = ""
    all: bool = False
    add: list[str] = []
    remove: list[str] = []
    dry_run: bool = False


class Stays(Schema):
    """Why runs would be unchanged, and how many."""

    why: str
    count: int


class RehearsalOut(Schema):
    """A preview: how many runs would accept, and how many would be unchanged."""

    verb: str
    acts: int
    stays: list[Stays]
    runs: list[str]


class BulkOut(Schema):
    """The progress. ``acted`` of ``done`` runs accepted; ``stayed`` names at most 200 that did not."""

    id: str
    verb: str
    runs: int
    done: int
    acted: int
    finished: bool
    stays: list[Stays]
    stayed: list[dict[str, str]]


def bulk_runs(request: HttpRequest, given: BulkIn) -> Any:
    """Apply an action to many runs, at most 10,000; with ``dry_run`` only preview it. Honours ``Idempotency-Key``.

    422 for an invalid filter or action. Each run has its own transaction; what is not done when this returns continues
    in the background: poll it.
    """
    viewer = viewer_of(request)
    ids = queries.all_ids(viewer, given.q, actions.MOST_AT_ONCE) if given.all else tuple(given.runs)
    if given.dry_run:
        found = actions.preview_bulk(viewer, given.verb, ids)
        stays = [{"why": why, "count": number} for why, number in found.stays]
        return Status(200, {"verb": found.verb, "acts": len(found.runs), "stays": stays, "runs": list(found.runs)})
    row = actions.start_bulk(
        viewer,
        given.verb,
        ids,
        text=given.q,
        add=given.add,
        remove=given.remove,
        key=key_of(request),
        command=given.model_dump(),
    )
    actions.continue_bulk(row.pk)
    return Status(202, _bulk_out(actions.find_bulk(viewer, row.pk)))


@router.get("/bulk/{bulk_id}", response=BulkOut)
def get_bulk(request: HttpRequest, bulk_id: str) -> Any:
    """Return the progress of a bulk operation of yours."""
    return _bulk_out(actions.find_bulk(viewer_of(request), bulk_id))


def _bulk_out(row: Bulk) -> dict[str, Any]:
    return {
        "id": row.pk,
        "verb": row.verb,
        "runs": len(row.runs),
        "done": row.done,
        "acted": row.acted,
        "finished": row.finished is not None,
        "stays": [{"why": why, "count": number} for why, number in row.refused.get("why", {}).items()],
        "stayed": [{"run": run, "title": title, "why": why} for run, title, why in row.refused.get("some", [])],
    }
