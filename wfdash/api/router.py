"""The HTTP API: the same queries and actions as the pages, as JSON. Signed-in sessions only, with Django's CSRF
token.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import NinjaAPI, Query, Status
from ninja.security import django_auth
from pydantic import Field

from checkpoints.records import CheckpointFilter
from wfdash import actions, queries
from wfdash.access.voters import vote_progress
from wfdash.api import checkpoints, requests, schedules
from wfdash.api.auth import key_of, viewer_of
from wfdash.api.bodies import add_error_handlers
from wfdash.api.runs import bulk, lifecycle
from wfdash.api.schemas import (
    AnswerIn,
    AnswerOut,
    CheckpointDetail,
    CheckpointPage,
    Created,
    EventOut,
    RequestDetail,
    RequestPage,
    RunDetail,
    RunPage,
    SkewOut,
    StartIn,
)
from wfdash.schemas.secrets import masked
from wfdash.telemetry import tracing
from wfdash.timemachine.restore_point import secrets_in

Limit = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0, lt=2**63)]

api = NinjaAPI(title="wfdash", version="1", auth=django_auth, docs_url=None, urls_namespace="api")
add_error_handlers(api)
api.add_router("", requests.router)
api.add_router("", lifecycle.router)
api.add_router("", bulk.router)
api.add_router("", schedules.router)
api.add_router("", checkpoints.router)


@api.get("/runs", response=RunPage)
def list_runs(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 30) -> Any:
    """Return runs, newest first; ``q`` is the filter language of the runs page."""
    return queries.runs(viewer_of(request), q, cursor=after, limit=limit)


@api.post("/runs", response={201: Created})
def start_run(request: HttpRequest, given: StartIn) -> Any:
    """Start a run. 422 with errors per field when the message does not match."""
    run = actions.start_run(viewer_of(request), given.workflow, given.message, key=key_of(request) or given.key)
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, {"id": run.pk})


# Before the address of one run, which would take "bulk" for an id.
api.post("/runs/bulk", response={200: bulk.RehearsalOut, 202: bulk.BulkOut})(bulk.bulk_runs)


@api.get("/runs/{run_id}", response=RunDetail)
def get_run(request: HttpRequest, run_id: str) -> Any:
    """Return one run."""
    return queries.run(viewer_of(request), run_id)


@api.get("/runs/{run_id}/events", response=list[EventOut])
def list_events(request: HttpRequest, run_id: str, after: Seq = 0, limit: Limit = 500) -> Any:
    """Return events with ``seq > after``, in order."""
    return queries.events(viewer_of(request), run_id, after=after, limit=limit)


@api.get("/runs/{run_id}/checkpoints", response=CheckpointPage)
def list_checkpoints(
    request: HttpRequest, run_id: str, where: Query[CheckpointFilter], before: Seq = 0, limit: Limit = 50
) -> Any:
    """Return the run's checkpoints, newest first, without content; ``total`` is the number that matches the filters."""
    rail = queries.checkpoints(viewer_of(request), run_id, before=before, limit=limit, where=where)
    items = [{**row.info.model_dump(), "lane": row.lane, "head": row.head, "by": row.by} for row in rail.rows]
    return {"items": items, "total": rail.total, "before": rail.before}


@api.get("/runs/{run_id}/checkpoints/{checkpoint_id}", response=CheckpointDetail)
def get_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Return one checkpoint with its content."""
    view = queries.checkpoint(viewer_of(request), run_id, checkpoint_id)
    requests = [request.model_dump(mode="json") for request in view.requests]
    return {**view.info.model_dump(), "body": view.body, "requests": requests, "problem": view.problem}


@api.get("/runs/{run_id}/skew", response=SkewOut)
def get_skew(request: HttpRequest, run_id: str, override: bool = False) -> Any:
    """Return what changed since the run started, and what migrating (or, with ``override``, continuing unchanged) would
    do.
    """
    viewer = viewer_of(request)
    found = queries.graph_difference(queries.run(viewer, run_id))
    changed = {"old": found.old, "new": found.new, "held": found.held, "changes": list(found.words)} if found else {}
    return {**changed, **asdict(queries.migration_plan(viewer, run_id, override=override))}


@api.get("/requests", response=RequestPage)
def list_requests(request: HttpRequest, tab: str = "mine", q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return a tab of the inbox: mine, groups, unassigned, asked, all, answered. 422 names the invalid part of the
    filter.
    """
    return queries.inbox(viewer_of(request), tab if tab in queries.TABS else "mine", q, cursor=after, limit=limit)


@api.get("/requests/{request_id}", response=RequestDetail)
def get_request(request: HttpRequest, request_id: str) -> Any:
    """Return one request with its card and schema."""
    return queries.request(viewer_of(request), request_id)


@api.post("/requests/{request_id}/answer", response=AnswerOut)
def answer_request(request: HttpRequest, request_id: str, given: AnswerIn) -> Any:
    """Answer. 422 with errors per field, 409 with the earlier answer, or with what changed since ``seen``."""
    reply = actions.answer_request(
        viewer_of(request), request_id, given.value, **given.model_dump(exclude={"value"}), key=key_of(request)
    )
    value = masked(reply.value, secrets_in(reply.request))
    facts = {"request": reply.request_id, "verdict": reply.verdict, "value": value, "at": reply.at}
    votes, need, decided = vote_progress(reply)
    counted = {"votes": votes, "need": need, "decided": decided}
    return {**facts, "settles": reply.settles, "stands": reply.stands, **counted}


@api.delete("/runs/{run_id}", response={204: None})
def delete_run(request: HttpRequest, run_id: str) -> Any:
    """Delete an ended run with everything it has; its audit entries stay. 409 while it has not ended."""
    actions.delete_run(viewer_of(request), run_id, key=key_of(request))
    return Status(204, None)


@api.delete("/runs/{run_id}/checkpoints/{checkpoint_id}", response={204: None})
def delete_checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> Any:
    """Delete a checkpoint that is not needed. 409 for what the run would continue from, and for one with a label."""
    actions.delete_checkpoint(viewer_of(request), run_id, checkpoint_id, key=key_of(request))
    return Status(204, None)
