"""Bulk operations on runs: previewed with ``dry_run``, started without, polled by id."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from checkpoints.models import Bulk
from wfdash.actions.runs.bulk import MOST_AT_ONCE, continue_bulk, find_bulk, preview_bulk, start_bulk
from wfdash.api.auth import key_of, viewer_of
from wfdash.queries.runs.listing import all_ids
from wfdash.records.bulk import BulkOrder, BulkProgress, BulkRehearsal

router = Router()


@router.post("/runs/bulk", response={200: BulkRehearsal, 202: BulkProgress})
def bulk_runs(request: HttpRequest, given: BulkOrder) -> Any:
    """Apply an action to many runs, at most 10,000; with ``dry_run`` only preview it. Honours ``Idempotency-Key``.

    422 for an invalid filter or action. Each run has its own transaction; what is not done when this returns continues
    in the background: poll it.
    """
    viewer = viewer_of(request)
    ids = all_ids(viewer, given.q, MOST_AT_ONCE) if given.all else tuple(given.runs)
    if given.dry_run:
        found = preview_bulk(viewer, given.verb, ids)
        stays = [{"why": why, "count": number} for why, number in found.stays]
        return Status(200, {"verb": found.verb, "acts": len(found.runs), "stays": stays, "runs": list(found.runs)})
    row = start_bulk(
        viewer,
        given.verb,
        ids,
        text=given.q,
        add=given.add,
        remove=given.remove,
        key=key_of(request),
        command=given.model_dump(),
    )
    continue_bulk(row.pk)
    return Status(202, _bulk_out(find_bulk(viewer, row.pk)))


@router.get("/bulk/{bulk_id}", response=BulkProgress)
def get_bulk(request: HttpRequest, bulk_id: str) -> Any:
    """Return the progress of a bulk operation of yours."""
    return _bulk_out(find_bulk(viewer_of(request), bulk_id))


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
