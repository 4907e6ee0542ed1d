"""Runs: the list, and one run's header. Status is derived with ``records.status_of`` in database time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.db.models.functions import Now, Substr
from django.utils import timezone

from checkpoints.fields import Held, current_sealer, opened
from checkpoints.models import Checkpoint, Claim, Event, HumanRequest, Run, RunFact
from checkpoints.records import ENDED, Json, Phase, Status, status_of
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.facts import TAG
from wfdash.queries.paging import Page, decode_cursor, encode_cursor
from wfdash.queries.runmatch import searching
from wfdash.queries.runwalk import FAR, REACH, Place, find
from wfdash.queries.secrets import masked_for

MOST_ERROR = 200
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
    version: str = ""
    altered: str = ""
    """How people changed its course: restored, edited, overridden; several with commas."""
    forked: bool = False
    failure: str = ""
    """Class and beginning of the message of its error, as far as its reader may see."""
    tags: tuple[str, ...] = ()

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


def runs(viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 30, far: bool = False) -> Page[RunRow]:
    """Return one page of the runs a filter finds, newest first (at most five queries, and those for names in it).

    No page looks at more than ``REACH`` runs (``FAR`` if asked to): one that found too few by then says how far it
    came, and may be empty. ``Invalid`` for a filter that cannot be understood.
    """
    search, after = searching(viewer, text), decode_cursor(cursor)
    found = find(search, after, limit + 1, reach=max(FAR if far else REACH, limit))
    shown = rows_of(viewer, found.ids[:limit])
    if found.reached is not None:
        return Page(items=shown, next=encode_cursor(found.reached, ""), reached=found.reached)
    more = encode_cursor(shown[-1].created, shown[-1].id) if len(found.ids) > limit and shown else ""
    return Page(items=shown, next=more)


def rows_of(viewer: Viewer, ids: Iterable[str]) -> tuple[RunRow, ...]:
    """Return the rows of these runs, in their order (three queries); what is not theirs to see is left out."""
    wanted = list(ids)
    if not wanted:
        return ()
    found = {run.id: run for run in _annotated(viewer).filter(pk__in=wanted).defer("input", "output", "error")}
    asked, tags = _asked(found), _tags(found)
    return tuple(
        RunRow(**_common(found[one], asked[one], viewer.may("inspect", found[one].workflow)), tags=tags[one])
        for one in wanted
        if one in found
    )


def count_found(viewer: Viewer, text: str, most: int = 1000) -> tuple[int, bool]:
    """Return how many runs a filter finds, at most ``most``, and whether there may be more."""
    found = find(searching(viewer, text), None, most + 1)
    return min(len(found.ids), most), len(found.ids) > most or found.reached is not None


def count_since(viewer: Viewer, text: str, since: datetime, most: int = 100) -> int:
    """Return how many runs that a filter finds began after a moment, at most ``most``."""
    search = searching(viewer, text)
    newer = max(since, search.since) if search.since else since
    found = find(replace(search, since=newer + timedelta(microseconds=1)), None, most)
    return len(found.ids)


def all_ids(viewer: Viewer, text: str, most: int) -> tuple[str, ...]:
    """Return the ids of all runs a filter finds, newest first, at most ``most + 1``: one more says there are more."""
    search = searching(viewer, text)
    found: list[str] = []
    after: Place | None = None
    while len(found) <= most:
        part = find(search, after, most + 1 - len(found), reach=FAR)
        found += part.ids
        if part.reached is None:
            break
        after = part.reached, ""
    return tuple(found)


def every_page(viewer: Viewer, text: str, *, size: int = 500, most: int) -> Iterator[tuple[RunRow, ...]]:
    """Give all runs a filter finds in pages, newest first, at most ``most`` of them."""
    cursor = ""
    while most > 0:
        page = runs(viewer, text, cursor=cursor, limit=min(size, most), far=True)
        yield page.items
        most -= len(page.items)
        cursor = page.next
        if not cursor:
            return


def run(viewer: Viewer, run_id: str) -> RunView:
    """Return one run's header (three queries), or raise ``NotFound``."""
    origin = Checkpoint.objects.filter(pk=OuterRef("forked_from")).values("run_id")
    found: Any = _annotated(viewer).annotate(origin=Subquery(origin)).filter(pk=run_id).first()
    if found is None:
        raise NotFound("There is no such run, or it is not yours to see")
    inspect, operate = viewer.may("inspect", found.workflow), viewer.may("operate", found.workflow)
    return RunView(
        **_common(found, _asked([found.id])[found.id], inspect),
        tags=_tags([found.id])[found.id],
        engine=found.engine,
        input=masked_for(found.workflow, found.input) if inspect else None,
        output=masked_for(found.workflow, found.output) if inspect else None,
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
        failed_as=KT("error__type"),
        failed_with=Substr(KT("error__message"), 1, MOST_ERROR),
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
        "version": run.version,
        "altered": run.altered,
        "forked": run.forked_from is not None,
        "failure": ": ".join(filter(None, (run.failed_as, run.failed_with if inspect else ""))),
        "progress": _progress(run.said.clear if isinstance(run.said, Held) else run.said or {}, inspect),
    }


def _status(run: Any) -> Status:
    return status_of(Phase(run.phase), claimed=run.claimed, claim_live=run.claim_live, acted_by=run.acted_by)


def _tags(run_ids: Iterable[str]) -> defaultdict[str, tuple[str, ...]]:
    """Return run id -> its tags (one query)."""
    tags: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    rows = RunFact.objects.filter(run_id__in=list(run_ids), name=TAG)
    for run_id, text in rows.values_list("run_id", "text"):
        tags[run_id] = tuple(sorted((*tags[run_id], text)))
    return tags


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
