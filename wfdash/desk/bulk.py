"""One verb for many runs: tried first without doing it, then done run by run, each in a transaction of its own.

What is chosen is kept as a row, so that nothing is lost when a server stops half-way: the sweep of any worker goes on
where it was. Each run is told once, has its own audit entry, and stays as it is if it refuses; that is told.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Bulk, Run
from checkpoints.orm import write
from checkpoints.records import ENDED, Json, Phase
from checkpoints.rules import TIMED
from wfdash.access import Viewer, viewer_for
from wfdash.desk import audit
from wfdash.desk.ending import cancel_run
from wfdash.desk.keys import once
from wfdash.desk.runs import pause_run, resume_run, retry_run
from wfdash.desk.tags import read_tags, tag_run
from wfdash.errors import Invalid, NotFound, WfdashError

MOST = 10_000
MOST_TOLD = 200
"""Refusals that are kept by run; beyond them they are only counted."""
CHUNK = 500
AT_ONCE = 2.0
"""Seconds that the one who asked waits for; what is left then is done by the workers' sweep."""
EVERY = frozenset(Phase)
DONE: dict[Phase, str] = {
    Phase.READY: "It is queued or running",
    Phase.PAUSED: "It is paused",
    Phase.COMPLETED: "It is completed",
    Phase.FAILED: "It has failed",
    Phase.CANCELLED: "It is cancelled",
}


@dataclass(frozen=True, kw_only=True)
class BulkVerb:
    """A verb that many runs can be told: how, and in which phases a run obeys."""

    do: Callable[[Viewer, str, dict[str, Any]], Any]
    phases: frozenset[Phase]


VERBS: dict[str, BulkVerb] = {
    "retry": BulkVerb(do=lambda viewer, run, facts: retry_run(viewer, run), phases=frozenset({Phase.FAILED})),
    "cancel": BulkVerb(do=lambda viewer, run, facts: cancel_run(viewer, run), phases=EVERY - ENDED),
    "pause": BulkVerb(
        do=lambda viewer, run, facts: pause_run(viewer, run), phases=frozenset({Phase.READY, *map(Phase, TIMED)})
    ),
    "resume": BulkVerb(do=lambda viewer, run, facts: resume_run(viewer, run), phases=frozenset({Phase.PAUSED})),
    "tag": BulkVerb(do=lambda viewer, run, facts: tag_run(viewer, run, facts["add"], facts["remove"]), phases=EVERY),
}


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a verb would do: the runs that would obey, and how many would not, by the reason."""

    verb: str
    runs: tuple[str, ...]
    stays: tuple[tuple[str, int], ...]

    @property
    def refused(self) -> int:
        """How many would stay as they are."""
        return sum(number for _, number in self.stays)


def rehearse(viewer: Viewer, verb: str, run_ids: Sequence[str]) -> Rehearsal:
    """Say what a verb would do to these runs, and do nothing. ``Invalid`` for no such verb, no run, or too many."""
    wanted = _checked(verb, run_ids)
    acts: list[str] = []
    stays: Counter[str] = Counter()
    for at in range(0, len(wanted), CHUNK):
        some = wanted[at : at + CHUNK]
        rows = Run.objects.filter(viewer.scope("see"), pk__in=some).values_list("id", "workflow", "phase")
        found = {run: (workflow, Phase(phase)) for run, workflow, phase in rows}
        for run in some:
            why = _refusal(viewer, verb, found.get(run))
            if why:
                stays[why] += 1
            else:
                acts.append(run)
    return Rehearsal(verb=verb, runs=tuple(acts), stays=tuple(stays.most_common()))


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
    """Have a verb told to these runs; returns what ``go_on`` and the sweep work through. ``Invalid``.

    ``text``: the filter they were chosen by, for the record. The same ``key`` begins it once; ``command``: what must
    then be the same again, where the runs were chosen by a filter and are not.
    """
    facts: dict[str, Any] = {"filter": text[:500], "add": list(read_tags(add)), "remove": list(read_tags(remove))}
    if verb == "tag" and not facts["add"] and not facts["remove"]:
        raise Invalid([{"loc": ["add"], "msg": "Name a tag to put on or to take off"}])
    with write(), once(viewer, key, "bulk", command or [verb, list(run_ids), facts]) as deed:
        if deed.before is not None:
            return Bulk.objects.get(pk=deed.before["bulk"])
        wanted = _checked(verb, run_ids)
        bulk = Bulk.objects.create(
            id=ids.new_request_id(), verb=verb, facts=facts, runs=wanted, by=viewer.user, at=timezone.now()
        )
        told = {name: value for name, value in facts.items() if value}
        audit.record(
            viewer, "bulk", right="operate", facts={"what": verb, "runs": len(wanted), "bulk": bulk.pk, **told}
        )
        deed.keep(bulk=bulk.pk)
    return bulk


def go_on(bulk_id: str, *, seconds: float = AT_ONCE, most: int = MOST) -> int:
    """Tell the next runs, for so long and so many at most; returns how many were told. Whoever does, each once."""
    bulk = Bulk.objects.select_related("by").get(pk=bulk_id)
    until, told = time.monotonic() + seconds, 0
    while bulk.finished is None and told < most and (told == 0 or time.monotonic() < until):
        if not _tell_next(bulk):
            break
        told += 1
    return told


def finish_bulks(limit: int = 100) -> int:
    """Go on with what nobody waits for any more, the oldest first; returns how many runs were told."""
    waiting = Bulk.objects.filter(finished__isnull=True).order_by("at").values_list("pk", flat=True).first()
    return 0 if waiting is None else go_on(waiting, most=limit)


def record_export(viewer: Viewer, what: str, *, text: str, kind: str) -> None:
    """Keep in the audit that somebody took a list away, and by which filter."""
    with write():
        audit.record(viewer, "export", right="see", facts={"what": what, "filter": text[:500], "kind": kind})


def find_bulk(viewer: Viewer, bulk_id: str) -> Bulk:
    """Return what this person had told to many runs, or ``NotFound``."""
    bulk = Bulk.objects.filter(by_id=viewer.user.pk, pk=bulk_id).first()
    if bulk is None:
        raise NotFound("There is no such act of yours on many runs")
    return bulk


def _tell_next(bulk: Bulk) -> bool:
    """Tell one run, and move on; False if somebody else did in the meantime."""
    run, at = bulk.runs[bulk.done], bulk.done
    with write():
        last = at + 1 == len(bulk.runs)
        moved = Bulk.objects.filter(pk=bulk.pk, done=at, finished__isnull=True)
        if not moved.update(done=at + 1, finished=timezone.now() if last else None):
            return False
        problem = _tell(viewer_for(bulk.by), bulk, run)
        if problem:
            Bulk.objects.filter(pk=bulk.pk).update(refused=_refused(bulk, run, problem))
        else:
            Bulk.objects.filter(pk=bulk.pk).update(acted=F("acted") + 1)
    bulk.refresh_from_db(fields=["done", "acted", "refused", "finished"])
    return True


def _tell(viewer: Viewer, bulk: Bulk, run: str) -> str:
    """Tell one run; returns why it stays as it is, empty if it obeyed."""
    try:
        with transaction.atomic():
            VERBS[bulk.verb].do(viewer, run, bulk.facts)
    except Invalid as error:
        return "; ".join(str(one["msg"]) for one in error.errors)
    except WfdashError as error:
        return str(error)
    return ""


def _refused(bulk: Bulk, run: str, problem: str) -> dict[str, Any]:
    kept = Bulk.objects.values_list("refused", flat=True).get(pk=bulk.pk)
    why, some = dict(kept.get("why") or {}), list(kept.get("some") or [])
    why[problem] = why.get(problem, 0) + 1
    title = Run.objects.filter(pk=run).values_list("title", flat=True).first() or ""
    return {"why": why, "some": [*some, [run, title, problem]][:MOST_TOLD]}


def _refusal(viewer: Viewer, verb: str, found: tuple[str, Phase] | None) -> str:
    if found is None:
        return "It is not there any more, or not yours to see"
    workflow, phase = found
    if not viewer.may("operate", workflow):
        return "You may see it, but not act on it"
    return "" if phase in VERBS[verb].phases else DONE.get(phase, f"It is {phase.value}")


def _checked(verb: str, run_ids: Sequence[str]) -> list[str]:
    if verb not in VERBS:
        raise Invalid([{"loc": ["verb"], "msg": f"There is no such verb: write one of {', '.join(VERBS)}"}])
    wanted = list(dict.fromkeys(run_ids))
    if not wanted:
        raise Invalid([{"loc": ["runs"], "msg": "Choose at least one run"}])
    if len(wanted) > MOST:
        raise Invalid([{"loc": ["runs"], "msg": f"At most {MOST:,} runs at once: narrow the filter"}])
    return wanted
