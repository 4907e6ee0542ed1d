"""Runs: the list, and one run's header. Status is derived with ``records.status_of`` in database time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils import timezone

from checkpoints.fields import Held, current_sealer, opened
from checkpoints.models import Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.records import ENDED, Json, Phase, Status, status_of
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.queries.paging import Filter, Page, decode_cursor, encode_cursor, parse_filter

KEYS = frozenset({"status", "workflow", "by", "id"})
LOOKBACK = 200
"""Progress is looked for among a run's last events only, so that a list stays fast whatever a run did."""


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run in a list: metadata only."""

    id: str
    workflow: str
    title: str
    status: Status
    created: datetime
    updated: datetime
    finished: datetime | None
    created_by: str
    acted_by: str
    wake_at: datetime | None
    seq: int
    n: int
    waiting_for: tuple[str, ...] = ()
    """Subjects of its open requests."""
    waits_on: tuple[str, ...] = ()
    """The people and groups they are for; none where anybody may answer."""
    step: str = ""
    """The step something was last heard of; empty when none was, or not lately."""
    progress: dict[str, Json] = field(default_factory=dict)
    """``{"fraction": 0..1, "text": str}`` as the run last said; empty when it said nothing."""

    @property
    def ended(self) -> bool:
        """Say whether nothing more will happen by itself."""
        return self.status.value in {phase.value for phase in ENDED}

    @property
    def lasted(self) -> timedelta:
        """How long it took, or has taken until now."""
        return (self.finished or timezone.now()) - self.created


@dataclass(frozen=True, kw_only=True)
class RunView(RunRow):
    """A run's header. Values are None for those who may not inspect, the traceback for all but operators."""

    version: str
    engine: str
    input: Json = None
    output: Json = None
    error: dict[str, Json] | None = None
    retry: dict[str, Json] | None = None
    origin_checkpoint: str | None = None
    origin_run: str | None = None
    """The checkpoint this run was forked from, and whose it is."""
    worker: str = ""
    attempts: int = 0
    """Times it was recovered in a row without progress."""
    inspect: bool = False
    operate: bool = False


def runs(viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 30) -> Page[RunRow]:
    """Return one page of runs, newest first (two queries)."""
    rows = _match(_annotated(viewer), parse_filter(text, KEYS))
    after = decode_cursor(cursor)
    if after:
        rows = rows.filter(Q(created__lt=after[0]) | Q(created=after[0], id__lt=after[1]))
    found = list(rows.order_by("-created", "-id").defer("input", "output", "error")[: limit + 1])
    shown = found[:limit]
    asked = _asked(run.id for run in shown)
    more = encode_cursor(shown[-1].created, shown[-1].id) if len(found) > limit else ""
    return Page(
        items=tuple(RunRow(**_common(run, asked[run.id], viewer.may("inspect", run.workflow))) for run in shown),
        next=more,
    )


def run(viewer: Viewer, run_id: str) -> RunView:
    """Return one run's header (two queries), or raise ``NotFound``."""
    origin = Checkpoint.objects.filter(pk=OuterRef("forked_from")).values("run_id")
    found: Any = _annotated(viewer).annotate(origin=Subquery(origin)).filter(pk=run_id).first()
    if found is None:
        raise NotFound("There is no such run, or it is not yours to see")
    inspect, operate = viewer.may("inspect", found.workflow), viewer.may("operate", found.workflow)
    return RunView(
        **_common(found, _asked([found.id])[found.id], inspect),
        version=found.version,
        engine=found.engine,
        input=found.input if inspect else None,
        output=found.output if inspect else None,
        error=_error(found.error, inspect, operate),
        retry=found.retry,
        origin_checkpoint=found.forked_from,
        origin_run=found.origin,
        worker=found.worker or "",
        attempts=found.attempts,
        inspect=inspect,
        operate=operate,
    )


def _annotated(viewer: Viewer) -> QuerySet[Run]:
    claim = Claim.objects.filter(run=OuterRef("pk"))
    lately = Event.objects.filter(run=OuterRef("pk"), seq__gt=OuterRef("seq") - LOOKBACK).order_by("-seq")
    return Run.objects.filter(viewer.scope("see")).annotate(
        claimed=Exists(claim),
        claim_live=Exists(claim.filter(expires__gt=Now())),
        worker=F("claim__worker"),
        starter=F("created_by__username"),
        said=Subquery(lately.filter(kind="progress").values("data")[:1]),
        step=Subquery(lately.filter(step__isnull=False).values("step")[:1]),
    )


def _common(run: Any, asked: list[_Asked], inspect: bool) -> dict[str, Any]:
    return {
        "id": run.id,
        "workflow": run.workflow,
        "title": run.title,
        "status": _status(run),
        "created": run.created,
        "updated": run.updated,
        "finished": run.finished,
        "created_by": run.starter or "",
        "acted_by": run.acted_by,
        "wake_at": run.wake_at,
        "seq": run.seq,
        "n": run.n,
        "waiting_for": tuple(one.subject for one in asked),
        "waits_on": tuple(dict.fromkeys(name for one in asked for name in one.by)),
        "step": run.step or "",
        "progress": _progress(run.said.clear if isinstance(run.said, Held) else run.said or {}, inspect),
    }


def _status(run: Any) -> Status:
    return status_of(Phase(run.phase), claimed=run.claimed, claim_live=run.claim_live, acted_by=run.acted_by)


class _Asked(NamedTuple):
    """An open request, as a run's row tells of it."""

    subject: str
    by: tuple[str, ...]


def _asked(run_ids: Iterable[str]) -> defaultdict[str, list[_Asked]]:
    """Return run id -> its open requests, oldest first (one query)."""
    asked: defaultdict[str, list[_Asked]] = defaultdict(list)
    rows = HumanRequest.objects.filter(run_id__in=list(run_ids), closed__isnull=True, answered__isnull=True)
    rows = rows.order_by("created")
    hidden = ("card",) if current_sealer().active else ()
    for id_, run_id, subject, step, by, *card in rows.values_list("id", "run_id", "subject", "step", "by", *hidden):
        for document in card:
            subject = opened(HumanRequest, "card", document, id_).get("subject")
        asked[run_id].append(_Asked(str(subject or step), tuple(by)))
    return asked


def _progress(said: dict[str, Json], inspect: bool) -> dict[str, Json]:
    """Return how far the run is; in words for those who may inspect values."""
    return said if inspect else {name: value for name, value in said.items() if name == "fraction"}


def _error(error: dict[str, Json] | None, inspect: bool, operate: bool) -> dict[str, Json] | None:
    if error is None:
        return None
    hidden = {"traceback": ""} if inspect or operate else {"traceback": "", "message": ""}
    return error if operate else {**error, **hidden}


def _match(rows: QuerySet[Run], wanted: Filter) -> QuerySet[Run]:
    for word in wanted.words:
        rows = rows.filter(Q(title__icontains=word) | Q(workflow__icontains=word) | Q(id=word))
    if "status" in wanted.terms:
        rows = rows.filter(_any(_status_filter(name) for name in wanted.terms["status"]))
    if "workflow" in wanted.terms:
        rows = rows.filter(workflow__in=wanted.terms["workflow"])
    if "by" in wanted.terms:
        rows = rows.filter(created_by__username__in=wanted.terms["by"])
    if "id" in wanted.terms:
        rows = rows.filter(_any(Q(id__startswith=prefix) for prefix in wanted.terms["id"]))
    return rows


def _any(filters: Iterable[Q]) -> Q:
    either = Q(pk__in=[])
    for one in filters:
        either |= one
    return either


def _status_filter(name: str) -> Q:
    """Return the filter for a status name; the twin of ``status_of``. ``open`` means not ended."""
    if name == "open":
        return ~Q(phase__in=[phase.value for phase in ENDED])
    ready = Q(phase=Phase.READY.value)
    paused = Q(phase=Phase.PAUSED.value)
    parts = {
        Status.PAUSED.value: paused & ~Q(acted_by=""),
        Status.HELD.value: paused & Q(acted_by=""),
        Status.QUEUED.value: ready & Q(claimed=False),
        Status.RUNNING.value: ready & Q(claim_live=True),
        Status.INTERRUPTED.value: ready & Q(claimed=True, claim_live=False),
    }
    return parts.get(name, Q(phase=name))


def unknown_keys(text: str) -> tuple[str, ...]:
    """Return the keys in a filter text that the list of runs does not know."""
    return parse_filter(text, KEYS).unknown
