"""The API of runs: list, start and read them, act on one or many, their events, parts and signals."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Header, Router, Status

from checkpoints.models import Bulk, Run
from wfdash.actions import checkpoints
from wfdash.actions.hooks.incoming import start_with_callback
from wfdash.actions.runs import bulk, lifecycle, migrate, signals
from wfdash.actions.runs import lifecycle as follow_ups
from wfdash.actions.runs.bulk import MOST_AT_ONCE, continue_bulk, find_bulk, preview_bulk, start_bulk, tag_runs
from wfdash.queries.history import check_cursor, events_after
from wfdash.queries.runs.before_acting import read_signals
from wfdash.queries.runs.listing import all_ids, read_run, read_runs
from wfdash.queries.runs.logs import LogFilter, find_logs
from wfdash.queries.runs.steps import read_activations
from wfdash.queries.runs.values import read_run_values
from wfdash.queries.runs.versions import graph_difference, migration_plan
from wfdash.queries.step_states import step_transitions, time_spent
from wfdash.queries.workflows import description_of
from wfdash.records.base import Created
from wfdash.records.runs import (
    BulkOrder,
    BulkProgress,
    BulkRehearsal,
    GraphChange,
    LogLevel,
    LogRecordPage,
    RunDetail,
    RunEvents,
    RunPage,
    RunPart,
    SendFollowUp,
    SendSignal,
    SentSignal,
    SetTags,
    SignalList,
    StartRun,
    StepPage,
    TagList,
    ValueRecord,
)
from wfdash.records.workflows import CheckedMessage
from wfdash.telemetry import tracing
from wfdash.web.api.long_poll import say_later
from wfdash.web.api.params import STREAM, Cursor, Limit, Seq, Wait, key_of, viewer_of
from wfdash.web.live.streams import follow_run, wants_stream

# Bulk operations on runs: previewed with ``dry_run``, started without, polled by id.

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


@router.get("/runs", response=RunPage)
def list_runs(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 30) -> Any:
    """Return runs, newest first; ``q`` is the filter language of the runs page."""
    return read_runs(viewer_of(request), q, cursor=after, limit=limit)


@router.post("/runs", response={201: Created})
def start_run(request: HttpRequest, given: StartRun) -> Any:
    """Start a run. 422 with errors per field when the message does not match."""
    viewer, key = viewer_of(request), key_of(request) or given.key
    if given.callback is None:
        run = lifecycle.start_run(viewer, given.workflow, given.message, key=key)
    else:
        run = start_with_callback(viewer, given.workflow, given.message, given.callback, key=key)
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, {"id": run.pk})


@router.post("/runs/check", response=CheckedMessage)
def check_start(request: HttpRequest, given: StartRun) -> Any:
    """Check a message as a start would, and start nothing. 422 with errors per field when it does not match."""
    return {"message": lifecycle.check_start(viewer_of(request), given.workflow, given.message)}


@router.get("/runs/{run_id}", response=RunDetail)
def get_run(request: HttpRequest, run_id: str, wait: Wait = 0) -> Any:
    """Return one run with its open requests. ``wait``: at most so many seconds until it rests (see ``rests``)."""
    found = read_run(viewer_of(request), run_id)
    if wait and not found.rests:
        say_later(request, found.id, wait)
    moves = step_transitions(found.id, driven=found.status == "running")
    # Up to its latest change, so that what has not changed is not sent again.
    return found.model_copy(update=time_spent(moves, found.created, found.finished or found.updated)._asdict())


@router.delete("/runs/{run_id}", response={204: None})
def delete_run(request: HttpRequest, run_id: str) -> Any:
    """Delete an ended run with everything it has; its audit entries stay. 409 while it has not ended."""
    bulk.delete_run(viewer_of(request), run_id, key=key_of(request))
    return Status(204, None)


# The API of a run's events: pages of JSON, and an event stream at the same address.


Resumed = Annotated[Seq | None, Header(alias="Last-Event-ID")]


@router.get("/runs/{run_id}/events", response=RunEvents, openapi_extra=STREAM)
def list_events(
    request: HttpRequest, run_id: str, after: Seq = 0, limit: Limit = 500, last_event_id: Resumed = None
) -> Any:
    """Return events with ``seq > after``, in order. With ``Accept: text/event-stream`` they are streamed: those after
    ``Last-Event-ID`` or ``after``, then what follows, until the run has ended.
    """
    viewer = viewer_of(request)
    if not wants_stream(request):
        return events_after(viewer, run_id, after=after, limit=limit)
    cursor = after if last_event_id is None else last_event_id
    check_cursor(viewer, run_id, cursor)
    return follow_run(request, viewer, run_id, after=cursor)


# The API of actions on a run: cancel, pause, resume, retry, follow up.


@router.post("/runs/{run_id}/cancel", response=Created)
def cancel_run(request: HttpRequest, run_id: str, after_step: bool = False) -> Any:
    """Cancel a run, at once; with ``after_step`` as soon as the running step has ended."""
    return run_id_of(lifecycle.cancel_run(viewer_of(request), run_id, after_step=after_step, key=key_of(request)))


@router.post("/runs/{run_id}/pause", response=Created)
def pause_run(request: HttpRequest, run_id: str, now: bool = False) -> Any:
    """Pause a run until someone resumes it: once the running steps have ended, or ``now``, which interrupts them."""
    return run_id_of(lifecycle.pause_run(viewer_of(request), run_id, now=now, key=key_of(request)))


@router.post("/runs/{run_id}/resume", response=Created)
def resume_run(request: HttpRequest, run_id: str, force: bool = False) -> Any:
    """Resume a paused run, or hand the own run of a program (``driver``) over to workers.

    It waits for functions of it that still run elsewhere, unless ``force`` is given.
    """
    return run_id_of(lifecycle.resume_run(viewer_of(request), run_id, force=force, key=key_of(request)))


@router.post("/runs/{run_id}/retry", response=Created)
def retry_run(request: HttpRequest, run_id: str) -> Any:
    """Retry a failed run from its latest checkpoint."""
    return run_id_of(lifecycle.retry_run(viewer_of(request), run_id, key=key_of(request)))


@router.post("/runs/{run_id}/answer-again", response=Created)
def answer_again(request: HttpRequest, run_id: str) -> Any:
    """Ask again what a run was answered last, if the step that asked has failed: it is restored to that question."""
    head = checkpoints.answer_again(viewer_of(request), run_id, key=key_of(request))
    return {"id": head.run_id, "n": head.n}


@router.post("/runs/{run_id}/follow-up", response={201: Created})
def follow_up(request: HttpRequest, run_id: str, given: SendFollowUp) -> Any:
    """Follow up on a completed run: start a new run that continues from its end with this message.

    422 with errors per field when the message does not match ``follow_up_schema``; 409 while the run has not completed,
    and once another run follows it.
    """
    run = follow_ups.follow_up(viewer_of(request), run_id, given.message, key=key_of(request))
    tracing.started(run.pk, run.workflow, request.headers)
    return Status(201, run_id_of(run))


def run_id_of(run: Run) -> dict[str, Any]:
    """Return the answer that names a run."""
    return {"id": run.pk, "n": run.n}


# The API of a run's parts: steps, log, values, tags.


@router.get("/runs/{run_id}/steps", response=StepPage)
def list_steps(
    request: HttpRequest, run_id: str, step: str = "", state: str = "", after: str = "", limit: Limit = 100
) -> Any:
    """Return the executions of a step, or of every one, in the order in which they started."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    described = description_of(run.workflow, run.version)
    steps = [step] if step else [one.name for one in described.steps] if described else []
    found = read_activations(viewer, run_id, steps, state=state, after=after, limit=limit)
    return {"items": found.rows, "next": found.after, "total": found.matching}


@router.get("/runs/{run_id}/logs", response=LogRecordPage)
def list_logs(
    request: HttpRequest,
    run_id: str,
    q: str = "",
    step: str = "",
    activation: str = "",
    level: Literal["", LogLevel] = "",
    after: Cursor = "",
    limit: Limit = 300,
) -> Any:
    """Return log records with ``seq > after``, oldest first. ``level``: of this level and above."""
    wanted = LogFilter(step=step, activation=activation, level=level, text=q)
    found = find_logs(viewer_of(request), run_id, wanted, after=int(after or 0), limit=limit)
    last = found.records[-1].seq if found.records else after
    return {"items": found.records, "next": str(last)}


@router.get("/runs/{run_id}/values/{part}", response=ValueRecord)
def get_values(request: HttpRequest, run_id: str, part: RunPart) -> Any:
    """Return a part of a run's present values. 403 for people who may not inspect them."""
    found = read_run_values(viewer_of(request), run_id, part)
    return {**vars(found), "checkpoint": found.info.id if found.info else None}


@router.post("/runs/{run_id}/tags", response=TagList)
def tag_run(request: HttpRequest, run_id: str, given: SetTags) -> Any:
    """Add tags and remove others. 422 names a tag that is not valid."""
    viewer = viewer_of(request)
    tag_runs(viewer, [run_id], given.add, given.remove, key=key_of(request))
    return {"tags": read_run(viewer, run_id).tags}


@router.get("/runs/{run_id}/signals", response=SignalList)
def list_signals(request: HttpRequest, run_id: str) -> Any:
    """Return the signals the run waits for, with the schema of each, and those it has stored."""
    return read_signals(viewer_of(request), run_id)


@router.post("/runs/{run_id}/signals", response={201: SentSignal})
def send_signal(request: HttpRequest, run_id: str, given: SendSignal) -> Any:
    """Send a signal. 422 with errors per field when it does not match the step that waits for it."""
    sent = signals.send_signal(viewer_of(request), run_id, given.name, given.value, key=key_of(request))
    return Status(201, {"id": sent.pk, "name": sent.name, "request": sent.taken})


# The API of a run under a changed graph: what changed, and how to continue.


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
