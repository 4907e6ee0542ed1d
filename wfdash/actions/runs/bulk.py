"""One action on many runs, previewed first, then run by run, each in its own transaction; deletion, and tags.

The selection is stored as a row, so that nothing is lost when a server stops half-way: the sweep of any worker
continues it. Each run is handled once and has its own audit entry; one that refuses is unchanged and is reported.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.db import InterfaceError, OperationalError
from django.db.models import F, Min, QuerySet
from django.utils import timezone

from checkpoints import ids
from checkpoints.database import runs
from checkpoints.database.alias import alias, atomic, connection
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.errors import Conflict
from checkpoints.events import EventKind
from checkpoints.ids import RunId
from checkpoints.models import Bulk, Checkpoint, HumanRequest, Run, RunFact
from checkpoints.records import ENDED, Json, Phase, frozen
from checkpoints.rules import TIMED
from checkpoints.sql.reads import Removed
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions import audit, pacing
from wfdash.actions.common import append_event, find_checkpoint, find_run, lock_rows, lock_run, notify_inbox
from wfdash.actions.pacing import idempotent, made_before
from wfdash.actions.runs.lifecycle import cancel_run, pause_run, resume_run, retry_run
from wfdash.domain import search_attributes
from wfdash.domain.errors import Busy, Invalid, NotAllowed, NotFound, WfdashError, WrongState
from wfdash.queries.runs.retention import KEPT

log = logging.getLogger(__name__)

MOST_AT_ONCE = 10_000
KEPT_REPORTS = timedelta(days=90)
"""How long the report of a bulk action can be read."""
MOST_OPEN = 5
"""Bulk operations one person may have in progress."""
MOST_REFUSALS = 200
"""Refusals stored per run; beyond them they are only counted."""
RUNS_PER_CHUNK = 500
AT_ONCE = 2.0
"""Seconds the request that started it works on it; the rest is left to the workers' sweep."""
EVERY = frozenset(Phase)
UNFINISHED = Bulk.objects.filter(finished__isnull=True)
UNSEEN = "Not found, or you do not have access"
UNEXPECTED = "Unexpected error; see the server log"
DONE: dict[Phase, str] = {
    Phase.READY: "Queued or running",
    Phase.PAUSED: "Paused",
    Phase.COMPLETED: "Completed",
    Phase.FAILED: "Failed",
    Phase.CANCELLED: "Cancelled",
}


@frozen
class BulkVerb:
    """An action that can be applied to many runs: how, and in which phases a run accepts it."""

    do: Callable[[Viewer, str, dict[str, Any]], Any]
    phases: frozenset[Phase]


VERBS: dict[str, BulkVerb] = {
    "retry": BulkVerb(do=lambda viewer, run, facts: retry_run(viewer, run), phases=frozenset({Phase.FAILED})),
    "cancel": BulkVerb(do=lambda viewer, run, facts: cancel_run(viewer, run), phases=EVERY - ENDED),
    "pause": BulkVerb(
        do=lambda viewer, run, facts: pause_run(viewer, run), phases=frozenset({Phase.READY, *map(Phase, TIMED)})
    ),
    "resume": BulkVerb(do=lambda viewer, run, facts: resume_run(viewer, run), phases=frozenset({Phase.PAUSED})),
    "delete": BulkVerb(do=lambda viewer, run, facts: delete_run(viewer, run), phases=ENDED),
    "tag": BulkVerb(do=lambda viewer, run, facts: tag_run(viewer, run, facts["add"], facts["remove"]), phases=EVERY),
}


@frozen
class BulkPreview:
    """What an action would do: the runs that accept it, and how many would not, by reason."""

    verb: str
    runs: tuple[str, ...]
    stays: tuple[tuple[str, int], ...]

    @property
    def refused(self) -> int:
        """Return how many would be unchanged."""
        return sum(number for _, number in self.stays)


def preview_bulk(viewer: Viewer, verb: str, run_ids: Sequence[str]) -> BulkPreview:
    """Return what an action would do to these runs, without doing it. ``Invalid`` for an unknown action, no or too many
    runs.
    """
    wanted = _checked_runs(verb, run_ids)
    acts: list[str] = []
    stays: Counter[str] = Counter()
    for at in range(0, len(wanted), RUNS_PER_CHUNK):
        some = wanted[at : at + RUNS_PER_CHUNK]
        rows = Run.objects.filter(viewer.scope("see"), pk__in=some).values_list("id", "workflow", "phase")
        found = {run: (workflow, Phase.stored(phase)) for run, workflow, phase in rows}
        for run in some:
            why = _refusal(viewer, verb, found.get(run))
            if why:
                stays[why] += 1
            else:
                acts.append(run)
    return BulkPreview(verb=verb, runs=tuple(acts), stays=tuple(stays.most_common()))


def start_bulk(
    viewer: Viewer,
    verb: str,
    run_ids: Sequence[str],
    *,
    text: str = "",
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    key: str | None = None,
    command: Json = None,
) -> Bulk:
    """Store a bulk operation on these runs and return it, for ``continue_bulk`` and the sweep to carry out.
    ``Invalid``.

    Runs that this person may not see are counted as refused at once, and not stored. ``NotAllowed`` for people who
    operate no workflow, ``Busy`` where they have too many in progress. ``text``: the filter by which the runs were
    selected, for the audit. The same ``key`` starts it once; ``command``: what must then be the same again, for runs
    selected by a filter, which may match others by then.
    """
    facts: dict[str, Any] = {"filter": text[:500], "add": list(read_tags(add)), "remove": list(read_tags(remove))}
    if verb == "tag" and not facts["add"] and not facts["remove"]:
        raise Invalid.at("add", "Enter a tag to add or remove")
    with write(), idempotent(viewer, key, "bulk", command or [verb, list(run_ids), facts]) as call:
        if call.previous_result is not None:
            return made_before(Bulk, call.previous_result["bulk"])
        wanted = _checked_runs(verb, run_ids)
        _refuse_too_many(viewer)
        seen = _visible_runs(viewer, wanted)
        if not seen:
            raise Invalid.at("runs", "Runs not found, or you do not have access")
        unseen = len(wanted) - len(seen)
        bulk = Bulk.objects.create(
            id=ids.new_request_id(),
            verb=verb,
            facts=facts,
            runs=seen,
            refused={"why": {UNSEEN: unseen}, "some": []} if unseen else {},
            by=viewer.user,
            at=timezone.now(),
        )
        given = {name: value for name, value in facts.items() if value}
        audit.record(
            viewer, "bulk", right="operate", facts={"what": verb, "runs": len(wanted), "bulk": bulk.pk, **given}
        )
        call.record(bulk=bulk.pk)
    return bulk


def continue_bulk(bulk_id: str, *, seconds: float = AT_ONCE, most: int = MOST_AT_ONCE) -> int:
    """Apply a bulk operation to its next runs, for so long and so many at most. Returns how many runs were handled."""
    bulk = Bulk.objects.select_related("by").get(pk=bulk_id)
    until, handled = time.monotonic() + seconds, 0
    while bulk.finished is None and handled < most and (handled == 0 or time.monotonic() < until):
        if not _apply_next(bulk):
            break
        handled += 1
    return handled


def finish_bulks(limit: int = 100) -> int:
    """Continue bulk operations that no request works on any more. Returns how many runs were handled.

    Each person's oldest operation gets its turn, so that no one waits behind the thousands of another person. An
    operation that itself fails is set aside with the reason, and the others continue.
    """
    people = list(UNFINISHED.values("by").annotate(first=Min("at")).order_by("first").values_list("by", flat=True))
    return sum(_take_turn(UNFINISHED.filter(by=person), max(1, limit // len(people))) for person in people[:limit])


def _take_turn(acts: QuerySet[Bulk], limit: int) -> int:
    bulk_id = acts.order_by("at", "pk").values_list("pk", flat=True).first()
    if bulk_id is None:
        return 0
    try:
        return continue_bulk(bulk_id, most=limit)
    except (OperationalError, InterfaceError):
        raise  # The database is unavailable: that says nothing about this operation.
    except Exception:
        log.exception("Bulk operation %s was set aside", bulk_id)
        # End an operation that cannot continue; its remaining runs count as refused.
        with write():
            rows = Bulk.objects.filter(pk=bulk_id)
            bulk = rows.get()
            why = dict(bulk.refused.get("why") or {})
            why[UNEXPECTED] = why.get(UNEXPECTED, 0) + max(len(bulk.runs) - bulk.done, 1)
            rows.update(finished=timezone.now(), refused={**bulk.refused, "why": why})
        return 1


def record_export(viewer: Viewer, what: str, *, text: str, kind: str) -> None:
    """Record in the audit that someone exported a list, and with which filter."""
    with write():
        pacing.charge(viewer, "export")
        audit.record(viewer, "export", right="see", facts={"what": what, "filter": text[:500], "kind": kind})


def find_bulk(viewer: Viewer, bulk_id: str) -> Bulk:
    """Return a bulk operation of this person, or ``NotFound``, also for a token that reaches not all of its runs."""
    bulk = Bulk.objects.filter(by_id=viewer.user.pk, pk=bulk_id).first()
    if bulk is None or not (viewer.whole or set(bulk.runs) <= set(_visible_runs(viewer, bulk.runs))):
        raise NotFound("Bulk operation not found")
    return bulk


def _apply_next(bulk: Bulk) -> bool:
    """Handle the next run and advance. False if another process did in the meantime."""
    run, at = bulk.runs[bulk.done], bulk.done
    with write():
        last = at + 1 == len(bulk.runs)
        moved = Bulk.objects.filter(pk=bulk.pk, done=at, finished__isnull=True)
        if not moved.update(done=at + 1, finished=timezone.now() if last else None):
            return False
        problem = _apply(viewer_for(bulk.by), bulk, run)
        if problem:
            Bulk.objects.filter(pk=bulk.pk).update(refused=_refused(bulk, run, problem))
        else:
            Bulk.objects.filter(pk=bulk.pk).update(acted=F("acted") + 1)
    bulk.refresh_from_db(fields=["done", "acted", "refused", "finished"])
    return True


def _apply(viewer: Viewer, bulk: Bulk, run: str) -> str:
    """Apply the operation to one run. Returns why it is unchanged, empty if it accepted."""
    try:
        with atomic():
            VERBS[bulk.verb].do(viewer, run, bulk.facts)
    except Invalid as error:
        return error.summary
    except WfdashError as error:
        return str(error)
    except (OperationalError, InterfaceError):
        raise  # The database is unavailable: the run is handled later.
    except Exception:
        log.exception("Bulk operation %s failed at run %r", bulk.pk, run)
        return UNEXPECTED
    return ""


def _visible_runs(viewer: Viewer, run_ids: Sequence[str]) -> list[str]:
    """Return the runs that this person may see, in their order."""
    seen: set[str] = set()
    for at in range(0, len(run_ids), RUNS_PER_CHUNK):
        rows = Run.objects.filter(viewer.scope("see"), pk__in=run_ids[at : at + RUNS_PER_CHUNK])
        seen.update(rows.values_list("pk", flat=True))
    return [run for run in run_ids if run in seen]


def _refuse_too_many(viewer: Viewer) -> None:
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("Only operators can run bulk operations")
    if Bulk.objects.filter(by_id=viewer.user.pk, finished__isnull=True).count() >= MOST_OPEN:
        raise Busy(f"You have {MOST_OPEN} bulk operations in progress. Wait until one has finished", retry_after=5)


def _refused(bulk: Bulk, run: str, problem: str) -> dict[str, Any]:
    kept = Bulk.objects.values_list("refused", flat=True).get(pk=bulk.pk)
    why, some = dict(kept.get("why") or {}), list(kept.get("some") or [])
    why[problem] = why.get(problem, 0) + 1
    seen = Run.objects.filter(viewer_for(bulk.by).scope("see"), pk=run)
    title = seen.values_list("title", flat=True).first() or ""
    return {"why": why, "some": [*some, [run, title, problem]][:MOST_REFUSALS]}


def _refusal(viewer: Viewer, verb: str, found: tuple[str, Phase] | None) -> str:
    if found is None:
        return UNSEEN
    workflow, phase = found
    if not viewer.may("operate", workflow):
        return "View only: your role cannot change it"
    return "" if phase in VERBS[verb].phases else DONE.get(phase, f"It is {phase.value}")


def _checked_runs(verb: str, run_ids: Sequence[str]) -> list[str]:
    if verb not in VERBS:
        raise Invalid.at("verb", f"Unknown action. Available: {', '.join(VERBS)}")
    wanted = list(dict.fromkeys(run_ids))
    if not wanted:
        raise Invalid.at("runs", "Select at least one run")
    if len(wanted) > MOST_AT_ONCE:
        raise Invalid.at("runs", f"At most {MOST_AT_ONCE:,} runs at once: narrow the filter")
    return wanted


def forget_bulks(limit: int) -> int:
    """Remove bulk actions that ended ``KEPT_REPORTS`` ago: each has the ids of many runs. Returns how many."""
    old = Bulk.objects.filter(finished__lt=timezone.now() - KEPT_REPORTS).order_by("at").values_list("pk", flat=True)
    with write():
        return Bulk.objects.filter(pk__in=list(old[:limit])).delete()[0]


# Deletion by people: a run with everything it has, a checkpoint that is not needed.


def delete_run(viewer: Viewer, run_id: str, *, key: str | None = None) -> None:
    """Delete an ended run with its checkpoints, events, requests, answers and comments. Its audit entries stay.

    ``WrongState`` while it has not ended, a worker has it, or it has the tag ``keep``. Content shared with its forks
    stays. Of a run with very many events most rows are left to a worker; no look-up finds it from now on.
    """
    with write(), idempotent(viewer, key, "delete", [run_id]) as call:
        if call.previous_result is not None:
            return
        run = lock_run(find_run(viewer, run_id, right="operate"))
        if run.phase not in ENDED:
            raise WrongState(f"A run that is {run.phase} cannot be deleted: cancel it first")
        if is_kept(run):
            raise WrongState(f"This run is kept by its tag {KEEP}. Remove the tag first")
        audit.record_run(
            viewer,
            "delete",
            run,
            title=run.title,
            phase=run.phase,
            checkpoints=Checkpoint.objects.filter(run=run).count(),
            requests=HumanRequest.objects.filter(run=run).count(),
            events=run.seq,
        )
        removed = _remove(run.pk)
        notify_inbox(run.workflow)
        call.record(run=run_id)
    drop_content([removed.relative])


def delete_checkpoint(viewer: Viewer, run_id: str, checkpoint_id: str, *, key: str | None = None) -> None:
    """Delete a checkpoint that is not needed; its number is not reused. The audit records who deleted which.

    ``WrongState`` for checkpoints the run would continue from (its newest, and its newest valid one), and for one with
    a label: remove that first.
    """
    with write(), idempotent(viewer, key, "delete-checkpoint", [run_id, checkpoint_id]) as call:
        if call.previous_result is not None:
            return
        run = lock_run(find_run(viewer, run_id, right="operate"))
        chosen = find_checkpoint(run, checkpoint_id)
        if chosen.pk in runs.needed_of(run.pk):
            raise WrongState("This is the current checkpoint and cannot be deleted")
        if chosen.label is not None:
            raise WrongState("Labelled checkpoints are kept. Remove the label first")
        facts: dict[str, Any] = {"checkpoint": chosen.pk, "n": chosen.n, "step": chosen.step or "", "size": chosen.size}
        audit.record_run(viewer, "delete-checkpoint", run, **facts)
        Checkpoint.objects.filter(pk=chosen.pk).delete()
        call.record(checkpoint=checkpoint_id)
    drop_content([RunId(run_id)])


def _remove(run: str) -> Removed:
    try:
        removed = runs.remove_run(alias(), run, in_parts=True)
    except Conflict as error:
        raise WrongState(str(error).split(",")[0].capitalize()) from error
    return removed or Removed(relative=None)


# Tags: short labels people add to runs, to find and handle them together.

KEEP = search_attributes.KEEP
MAX_TAGS_PER_RUN = 20
"""Tags per run."""
MOST_RUNS = 500


def tag_runs(
    viewer: Viewer,
    run_ids: Sequence[str],
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    *,
    key: str | None = None,
) -> list[Run]:
    """Add tags to runs and remove others, all in one transaction. ``Invalid``, ``NotFound``, ``NotAllowed``.

    For many runs see ``wfdash.actions.runs.bulk``.
    """
    more, less = read_tags(add), read_tags(remove)
    if len(run_ids) > MOST_RUNS:
        raise Invalid.at("runs", f"Tag at most {MOST_RUNS} runs at once")
    with write(), idempotent(viewer, key, "tag", [list(run_ids), list(more), list(less)]) as call:
        lock_rows(Run.objects.filter(viewer.scope("see"), pk__in=run_ids))
        return [
            tag_run(viewer, run_id, more, less)
            if call.previous_result is None
            else find_run(viewer, run_id, right="operate")
            for run_id in run_ids
        ]


def tag_run(viewer: Viewer, run_id: str, add: Sequence[str], remove: Sequence[str]) -> Run:
    """Tag one run inside the caller's transaction. Adding a present tag, or removing an absent one, records nothing."""
    run = find_run(viewer, run_id, right="operate")
    lock_run(run)
    tags = RunFact.objects.filter(run=run, name=search_attributes.TAG)
    had = set(tags.values_list("text", flat=True))
    more, less = sorted(set(add) - had), sorted(set(remove) & had)
    if len(had) + len(more) - len(less) > MAX_TAGS_PER_RUN:
        raise Invalid.at("add", f"A run has at most {MAX_TAGS_PER_RUN} tags. Remove some first")
    if more or less:
        tags.filter(text__in=less).delete()
        RunFact.objects.bulk_create(
            RunFact(run=run, name=search_attributes.TAG, text=tag, created=run.created) for tag in more
        )
        append_event(run, EventKind.RUN_TAGGED.draft(by=viewer.name, add=more, remove=less))
        audit.record_run(viewer, "tag", run, add=more, remove=less)
    return run


def is_kept(run: Run) -> bool:
    """Return whether people keep the run by its tag: neither its age nor anyone's deletion removes it."""
    return KEPT.filter(run=run).exists()


def read_tags(given: Iterable[str]) -> tuple[str, ...]:
    """Return tags in the form they are stored. ``Invalid`` names the one that is not valid."""
    found: dict[str, None] = {}
    for text in given:
        tag = search_attributes.tag_of(text)
        if tag is None:
            words = f"{text[:60]!r} is not a valid tag. Use up to 40 letters, digits and . _ - : / @ +"
            raise Invalid.at("tags", words)
        found[tag] = None
    return tuple(found)


# Content of runs that were removed: pieces that no checkpoint needs any more go, too.


def drop_content(relatives: Iterable[RunId | None]) -> None:
    """Remove content that nothing refers to any more, outside of the transaction: a prune follows the remaining
    references. ``relatives``: one run of each family that has lost something.

    Within a caller's transaction this is left to the next prune of a related run: the storage could not write until
    then.
    """
    runs = sorted({run for run in relatives if run is not None})
    if runs and not connection().in_atomic_block:
        async_to_sync(_prune)(runs)


async def _prune(runs: list[RunId]) -> None:
    async with DatabaseStorage() as storage:
        for run in runs:
            await storage.prune(run, [])
