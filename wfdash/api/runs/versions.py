"""The API of a run under a changed graph: what changed, and how to continue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash.actions.runs import migrate
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.runs.lifecycle import run_id_of
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.versions import graph_difference, migration_plan
from wfdash.records.base import Created
from wfdash.records.runs import GraphChange

router = Router()


@router.get("/runs/{run_id}/skew", response=GraphChange)
def get_skew(request: HttpRequest, run_id: str, override: bool = False) -> Any:
    """Return what changed since the run started, and what migrating (or, with ``override``, continuing unchanged) would
    do.
    """
    viewer = viewer_of(request)
    found = graph_difference(read_run(viewer, run_id))
    changed = {"old": found.old, "new": found.new, "held": found.held, "changes": list(found.words)} if found else {}
    return {**changed, **asdict(migration_plan(viewer, run_id, override=override))}


@router.post("/runs/{run_id}/migrate", response=Created)
def migrate_run(request: HttpRequest, run_id: str) -> Any:
    """Migrate a run to the loaded graph as its author declared. 409 with the reason if that is not possible."""
    return run_id_of(migrate.migrate_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/override", response=Created)
def override_run(request: HttpRequest, run_id: str) -> Any:
    """Resume a run under the loaded graph without a declared migration. 409 with the reason if it is not valid
    there.
    """
    return run_id_of(migrate.override_run(viewer_of(request), run_id, key=key_of(request)))
