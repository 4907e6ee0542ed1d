"""Many runs at once, through the API: rehearsed with ``dry_run``, begun without, asked after by id."""

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
    """The verb (retry, cancel, pause, resume, tag), and the runs: their ids, or with ``all`` what ``q`` finds."""

    verb: str
    runs: list[str] = []
    q: str = ""
    all: bool = False
    add: list[str] = []
    remove: list[str] = []
    dry_run: bool = False


class Stays(Schema):
    """Why runs stay as they are, and how many."""

    why: str
    count: int


class RehearsalOut(Schema):
    """What would happen: to how many runs, and how many would stay as they are."""

    verb: str
    acts: int
    stays: list[Stays]
    runs: list[str]


class BulkOut(Schema):
    """How far it is. ``acted`` of ``done`` runs obeyed; ``stayed`` names at most 200 that did not."""

    id: str
    verb: str
    runs: int
    done: int
    acted: int
    finished: bool
    stays: list[Stays]
    stayed: list[dict[str, str]]


def bulk_runs(request: HttpRequest, given: BulkIn) -> Any:
    """Tell a verb to many runs, at most 10,000; with ``dry_run`` say what it would do. Honours ``Idempotency-Key``.

    422 for a filter or verb that is none. Each run is told in its own transaction; what is not done when this answers
    goes on by itself: ask after it.
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
    """How far an act of yours on many runs is."""
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
