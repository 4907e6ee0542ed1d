"""Runs: the list, and one run's header. Status is derived with ``records.status_of`` in database time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Now, Substr
from django.utils import timezone

from checkpoints.database.compiled import Among, Placeholder, compiled_rows
from checkpoints.database.living_workers import served_versions
from checkpoints.events import EventKind
from checkpoints.models import Checkpoint, Claim, Event, HumanRequest, Run, RunFact
from checkpoints.models.fields import KT, StoredDocument, current_encryptor
from checkpoints.models.user_model import USERNAME
from checkpoints.records import ENDED, SIGNAL, JsonObject, Phase, Status, status_of
from checkpoints.rules import TIMED, cost_of
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import NotFound
from wfdash.domain.labels import visible
from wfdash.domain.search_attributes import TAG
from wfdash.engines import catalog
from wfdash.queries import timemachine
from wfdash.queries.run_names import own_title_of, subjects_of, summary_of, worded
from wfdash.queries.runs.filter_keys import search_for
from wfdash.queries.runs.finding import FAR_REACH, MAX_SCANNED_RUNS, Cursor, Order, find
from wfdash.queries.runs.retention import removal_of
from wfdash.queries.search import KeysetOrder
from wfdash.queries.unreadable import document, flaw_of, hidden_cards, masked_for, subject_in
from wfdash.queries.workers import with_workflow
from wfdash.questions.choices import name_in
from wfdash.records.base import UNREADABLE, ScannedPage
from wfdash.records.runs import RunDetail, RunError, RunSummary, WaitingFor

MAX_ERROR = 200
SAME = (
    "id",
    "workflow",
    "created",
    "updated",
    "finished",
    "acted_by",
    "wake_at",
    "seq",
    "n",
    "version",
    "altered",
    "follows",
    "thread",
)
"""The columns that a row shows as they are stored."""
NEWEST = KeysetOrder(columns=("-created", "-id"))
DEFAULT_SORT = "-started"
RUN_SORTS = {
    DEFAULT_SORT: Order(),
    "started": Order(latest_first=False),
    "-finished": Order(column="finished"),
    "finished": Order(column="finished", latest_first=False),
}
"""Orders of the list that an index has; ``-``: later ones first. Runs that have not finished have no place in the last
two.
"""
MOST_COMPARED = 1_000
"""Durations have no index: so many of the newest runs are compared."""
LAST_ID = "\uffff"
IDS = Placeholder("ids")


def read_runs(
    viewer: Viewer, text: str = "", *, cursor: str = "", limit: int = 30, far: bool = False, sort: str = DEFAULT_SORT
) -> ScannedPage[RunRow]:
    """Return one page of the runs a filter finds, by one of ``RUN_SORTS`` (five queries, and those for names in it).

    No page scans more than ``REACH`` runs, ``FAR_REACH`` with ``far``: one that found too few by then says how far it
    came, and may be empty. ``Invalid`` for an invalid filter.
    """
    order = RUN_SORTS[sort]
    sign = "-" if order.latest_first else ""
    keys = KeysetOrder(columns=(f"{sign}{order.column}", f"{sign}id"))
    search, place = search_for(viewer, text), keys.place(cursor)
    after = (place[order.column], place["id"]) if place else None
    found = find(search, after, limit + 1, reach=max(FAR_REACH if far else MAX_SCANNED_RUNS, limit), order=order)
    shown = run_rows(viewer, found.ids[:limit])
    if found.reached is not None:
        # Before, or after, every id.
        beyond = "" if order.latest_first else LAST_ID
        return ScannedPage.trusted(
            items=shown, next=keys.cursor({order.column: found.reached, "id": beyond}), reached=found.reached
        )
    more = keys.cursor(vars(shown[-1])) if len(found.ids) > limit and shown else ""
    return ScannedPage.trusted(items=shown, next=more)


def longest(viewer: Viewer, text: str, *, shortest: bool = False, most: int = 100) -> tuple[tuple[RunRow, ...], bool]:
    """Return the runs that took longest, or shortest, among the newest ``MOST_COMPARED`` that a filter finds, and
    whether it finds more (at most six queries).
    """
    found = find(search_for(viewer, text), None, MOST_COMPARED + 1)
    times = Run.objects.filter(pk__in=found.ids[:MOST_COMPARED]).values_list("id", "created", "finished")
    now = timezone.now()
    taken = sorted((((finished or now) - created, id_) for id_, created, finished in times), reverse=not shortest)
    rows = run_rows(viewer, [id_ for _, id_ in taken[:most]])
    return rows, len(found.ids) > MOST_COMPARED or found.reached is not None


def run_rows(viewer: Viewer, ids: Iterable[str]) -> tuple[RunRow, ...]:
    """Return the rows of these runs, in their order, without those they may not see.

    Three queries, one more if any has no name, and two if any is due.
    """
    wanted = list(ids)
    if not wanted:
        return ()
    found: dict[str, Any] = {run.id: run for run in ROWS(viewer, current_encryptor().strict).all(ids=wanted)}
    for run in found.values():
        run.flaw = flaw_of(run)
    asked, tags, progress = open_requests_of(found), _tags(found), _progress(viewer, found.values())
    pending, subjects = pending_of(found.values()), _subjects(viewer, found.values(), asked)
    return tuple(
        RunRow.trusted(
            **_common(found[one], asked[one], viewer.may("inspect", found[one].workflow), progress, subjects),
            tags=tags[one],
            pending=pending.get(one, ""),
        )
        for one in wanted
        if one in found
    )


def failures_of(viewer: Viewer, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return run id -> class and start of the message of its error, of those that this person may see (one query).

    The message is empty for those who may not inspect the run.
    """
    return {
        run: (kind or "", (message or "") if viewer.may("inspect", workflow) else "")
        for run, workflow, kind, message in FAILURES(viewer, current_encryptor().strict).all(ids=list(ids))
    }


def count_found(viewer: Viewer, text: str, most: int = 1000) -> tuple[int, bool]:
    """Return how many runs a filter finds, at most ``most``, and whether there may be more."""
    found = find(search_for(viewer, text), None, most + 1)
    return min(len(found.ids), most), len(found.ids) > most or found.reached is not None


def count_runs_since(viewer: Viewer, text: str, since: datetime, most: int = 100) -> int:
    """Return how many of the runs a filter finds were created after a time, at most ``most``."""
    search = search_for(viewer, text)
    newer = max(since, search.since) if search.since else since
    found = find(replace(search, since=newer + timedelta(microseconds=1)), None, most)
    return len(found.ids)


def all_ids(viewer: Viewer, text: str, most: int) -> tuple[str, ...]:
    """Return the ids of all runs a filter finds, newest first, at most ``most + 1``: one more says there are more."""
    search = search_for(viewer, text)
    found: list[str] = []
    after: Cursor | None = None
    while len(found) <= most:
        part = find(search, after, most + 1 - len(found), reach=FAR_REACH)
        found += part.ids
        if part.reached is None:
            break
        after = part.reached, ""
    return tuple(found)


def every_page(viewer: Viewer, text: str, *, size: int = 500, most: int) -> Iterator[tuple[RunRow, ...]]:
    """Yield all runs a filter finds in pages, newest first, at most ``most`` of them."""
    cursor = ""
    while most > 0:
        page = read_runs(viewer, text, cursor=cursor, limit=min(size, most), far=True)
        yield page.items
        most -= len(page.items)
        cursor = page.next
        if not cursor:
            return


def read_run(viewer: Viewer, run_id: str) -> RunView:
    """Return one run's header (three queries, two more if it is due, one if it will be removed or has no name).
    ``NotFound``.
    """
    found: Any = HEADERS(viewer, current_encryptor().strict).first(ids=[run_id])
    if found is None:
        raise NotFound("Run not found, or you do not have access")
    found.flaw = flaw_of(found)
    inspect, operate = viewer.may("inspect", found.workflow), viewer.may("operate", found.workflow)
    asked = open_requests_of([found.id])
    return RunView.trusted(
        **_common(found, asked[found.id], inspect, _progress(viewer, [found]), _subjects(viewer, [found], asked)),
        tags=_tags([found.id])[found.id],
        pending=pending_of([found]).get(found.id, ""),
        engine=found.engine,
        input=masked_for(found.workflow, document(found, "input")) if inspect else None,
        output=masked_for(found.workflow, document(found, "output")) if inspect else None,
        error=_error({UNREADABLE: found.flaw} if found.flaw else document(found, "error"), inspect, operate),
        retry=found.retry,
        origin_checkpoint=found.forked_from,
        origin_run=found.origin,
        worker=found.worker or "",
        lingers=found.lingers,
        ending=found.ending_as if found.ending else "",
        attempts=found.attempts,
        inspect=inspect,
        operate=operate,
        edits=operate and catalog.takes_edits(found.workflow),
        follows_gone=found.follows is not None and not found.earlier,
        takes_follow_up=timemachine.is_open(viewer, found),
        removal=removal_of(found),
    )


def _annotated(viewer: Viewer, strict: bool) -> QuerySet[Run]:
    claim = Claim.objects.filter(run=OuterRef("pk"), epoch__gte=F("run__epoch"))
    lately = Event.objects.filter(run=OuterRef("pk"), seq__gt=OuterRef("seq") - LAST_EVENTS).order_by("-seq")
    return Run.objects.filter(viewer.scope("see"), Among("pk", IDS)).annotate(
        claimed=Exists(claim),
        claim_live=Exists(claim.filter(expires__gt=Now())),
        worker=F("claim__worker"),
        lingers=Exists(Claim.objects.filter(run=OuterRef("pk"), epoch__lt=F("run__epoch"), expires__gt=Now())),
        starter=F(f"created_by__{USERNAME}"),
        reported=latest_progress("data"),
        reported_by=latest_progress("step"),
        step=Subquery(lately.filter(step__isnull=False).values("step")[:1]),
        **_failures(strict),
    )


def _failures(strict: bool) -> dict[str, Any]:
    """Return the expressions for the class and message of a failure, none where they have to be encrypted."""
    if strict:
        return {"failed_as": Value(""), "failed_with": Value("")}
    return {"failed_as": KT("error__type"), "failed_with": Substr(KT("error__message"), 1, MAX_ERROR)}


ROWS = compiled_rows(lambda *given: _annotated(*given).defer("input", "output", "error"))
HEADERS = compiled_rows(
    lambda *given: _annotated(*given).annotate(
        origin=Subquery(Checkpoint.objects.filter(pk=OuterRef("forked_from")).values("run_id")),
        earlier=Exists(Run.objects.filter(pk=OuterRef("follows"))),
    )
)
FAILURES = compiled_rows(
    lambda viewer, strict: Run.objects.filter(viewer.scope("see"), Among("pk", IDS)).values_list(
        "id", "workflow", *_failures(strict).values()
    )
)
TAGS = compiled_rows(lambda: RunFact.objects.filter(Among("run_id", IDS), name=TAG).values_list("run_id", "text"))


def _common(
    run: Any,
    asked: list[AwaitedReply],
    inspect: bool,
    progress: Mapping[str, JsonObject],
    subjects: Mapping[str, str],
) -> dict[str, Any]:
    status = status_of(Phase.stored(run.phase), claimed=run.claimed, claim_live=run.claim_live, acted_by=run.acted_by)
    driver = "workers" if run.for_workers else "program"
    own_title, summary = own_title_of(run), (summary_of(run) if inspect else "") or subjects.get(run.id, "")
    return {name: getattr(run, name) for name in SAME} | {
        "workflow_title": run.title or run.workflow,
        "title": worded(run.title or run.workflow, own_title, summary),
        "own_title": own_title,
        "summary": summary,
        "status": status,
        "driver": driver,
        "rests": rests(status, driver, asked),
        "waiting_for": tuple(one.subject for one in asked),
        "created_by": run.starter or "",
        "requests": tuple(asked),
        "signal": asked[0].signal if asked else "",
        "waits_on": tuple(dict.fromkeys(name for one in asked for name in one.by)),
        "step": run.step or "",
        "forked": run.forked_from is not None,
        "failure": run.flaw or ": ".join(filter(None, (run.failed_as, run.failed_with if inspect else ""))),
        "progress": progress.get(run.id, {}),
        "input_tokens": run.input_tokens or 0,
        "output_tokens": run.output_tokens or 0,
        "cost": cost_of(run.cost or 0, run.unpriced or 0),
        "unpriced": run.unpriced or 0,
    }


def _subjects(viewer: Viewer, found: Iterable[Any], asked: Mapping[str, list[AwaitedReply]]) -> dict[str, str]:
    """Return run id -> the subject of its newest open request to people, else of the newest that those have had which
    have no name (one query, if there are any). Where content is encrypted each is looked up: it may be unreadable.
    """
    open_ = {} if current_encryptor().active else asked
    known = {run: one.subject for run, requests in open_.items() for one in requests if one.kind != SIGNAL}
    return subjects_of(viewer, [run for run in found if run.id not in known]) | known


def _tags(run_ids: Iterable[str]) -> defaultdict[str, tuple[str, ...]]:
    """Return run id -> its tags (one query)."""
    tags: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for run_id, text in TAGS().all(ids=list(run_ids)):
        tags[run_id] = tuple(sorted((*tags[run_id], text)))
    return tags


def _progress(viewer: Viewer, found: Iterable[Any]) -> dict[str, JsonObject]:
    """Return run id -> its progress (one query, if a map is among them)."""
    reports = [
        (run, run.reported.clear if isinstance(run.reported, StoredDocument) else run.reported or {}) for run in found
    ]
    return progress_of((run.id, run.reported_by, data, viewer.may("inspect", run.workflow)) for run, data in reports)


def _error(error: JsonObject | None, inspect: bool, operate: bool) -> RunError | None:
    if error is None:
        return None
    hidden = () if operate else ("traceback",) if inspect else ("traceback", "message")
    return RunError.model_validate({name: value for name, value in error.items() if name not in hidden})


# The progress of a run: what its running steps report, and how many items of a map are done.

LAST_EVENTS = 200
"""Progress is searched among a run's last events only, so that a list stays fast however long a run is."""
OF_STEPS = (
    *(EventKind.STEP_FINISHED, EventKind.STEP_FAILED, EventKind.STEP_RETRYING),
    *(EventKind.STEP_WAITING, EventKind.STEP_SLEEPING),
)
OF_RUNS = (
    *(EventKind.RUN_PAUSED, EventKind.RUN_RESUMED, EventKind.RUN_RETRIED),
    *(EventKind.RUN_RESTORED, EventKind.RUN_RECOVERED, EventKind.RUN_CANCELLED),
)


def latest_progress(column: str) -> Case:
    """Return a column with the last progress report of a step that still runs, for a query of runs; else null.

    It ends with its step, and with everything that makes the run restart its steps.
    """
    same = Event.objects.filter(run=OuterRef("run_id"), seq__gt=OuterRef("seq")).annotate(act=KT("data__activation"))
    over = same.filter(Q(kind__in=OF_STEPS, act=OuterRef("act")) | Q(kind__in=OF_RUNS))
    lately = Event.objects.filter(run=OuterRef("pk"), seq__gt=OuterRef("seq") - LAST_EVENTS, kind=EventKind.PROGRESS)
    going = lately.annotate(act=KT("data__activation")).filter(~Exists(over)).order_by("-seq")
    return Case(When(phase=Phase.READY, then=Subquery(going.values(column)[:1])))


def progress_of(found: Iterable[tuple[str, str | None, Mapping[str, Any], bool]]) -> dict[str, JsonObject]:
    """Return run id -> its progress, of (id, step, what the step reported, whether the viewer may inspect values).

    ``{"fraction", "text"}``; without the text for people who may not inspect. Reports of a map's items are not used:
    the items done are counted (one query, if there are any).
    """
    latest: dict[str, JsonObject] = {}
    maps: dict[str, str] = {}
    for run, step, data, inspect in found:
        if data and "item" in data:
            maps[run] = step or ""
        elif data:
            shown = ("fraction", "text") if inspect else ("fraction",)
            latest[run] = {name: data[name] for name in shown if name in data}
    if not maps:
        return latest
    ends = Event.objects.filter(run_id__in=list(maps), step__in=set(maps.values()), kind=EventKind.STEP_FINISHED)
    items = ends.annotate(item=KT("data__item")).filter(item__isnull=False)
    counted = items.order_by().values_list("run_id", "step").annotate(n=Count("item", distinct=True))
    done = {(run, step): n for run, step, n in counted}
    for place in maps.items():
        number = done.get(place, 0)
        latest[place[0]] = {"fraction": None, "text": f"{number} item{'' if number == 1 else 's'} done"}
    return latest


# Why a run that is due is not taken: no running worker has its code, or its workflow has no free place.

Pending: TypeAlias = Literal["", "unserved", "version", "limit"]
""""unserved": no running worker serves the run's workflow; "version": those that do have another version of it, and it
is migrated or held soon; "limit": as many of its runs execute as may at once.
"""


def pending_of(runs: Iterable[Any]) -> dict[str, Pending]:
    """Return run id -> why it is not taken, of those of these annotated runs that are due and are not.

    Two queries if any is due, and one if a workflow of theirs has a limit.
    """
    now = timezone.now()
    due = [
        run
        for run in runs
        if run.for_workers
        and not run.claim_live
        and (run.phase == Phase.READY or (run.phase in TIMED and run.wake_at is not None and run.wake_at <= now))
    ]
    full, served = _full({run.workflow for run in due}), served_versions() if due else None
    found = {run.id: _why(run, full, served) for run in due}
    return {run: why for run, why in found.items() if why}


def _why(run: Any, full: Collection[str], served: Collection[tuple[str, str]] | None) -> Pending:
    if served is not None and all(workflow != run.workflow for workflow, _ in served):
        return "unserved"
    if run.workflow in full:
        return "limit"
    return "version" if served is not None and run.version and (run.workflow, run.version) not in served else ""


def _full(workflows: Iterable[str]) -> set[str]:
    """Return those of these workflows of which as many runs execute as may at once."""
    limits = {name: limit for name in workflows if (limit := catalog.limit_of(name)) is not None}
    if not limits:
        return set()
    live = with_workflow(Claim.objects.filter(expires__gt=Now()))
    counts = dict(live.values_list("workflow").annotate(Count("pk")))
    return {name for name, limit in limits.items() if counts.get(name, 0) >= limit}


class AwaitedReply(WaitingFor):
    """An open request, as a run's row shows it. ``by``: whom it is addressed to."""

    by: tuple[str, ...]


def open_requests_of(run_ids: Iterable[str]) -> defaultdict[str, list[AwaitedReply]]:
    """Return run id -> its open requests, oldest first (one query)."""
    asked: defaultdict[str, list[AwaitedReply]] = defaultdict(list)
    for id_, run_id, subject, step, by, kind, key, *card in ASKED(bool(hidden_cards())).all(ids=list(run_ids)):
        for hidden_card in card:
            subject = subject_in(hidden_card, id_, step)
        one = AwaitedReply.trusted(
            id=id_,
            key=key,
            step=step,
            kind=kind,
            subject=visible(str(subject or step)),
            by=tuple(by),
            signal=name_in(key) if kind == SIGNAL else "",
        )
        asked[run_id].append(one)
    return asked


ASKED = compiled_rows(
    lambda hidden: (
        HumanRequest.objects.filter(Among("run_id", IDS), closed__isnull=True, answered__isnull=True)
        .annotate(**hidden_cards())
        .order_by("created", "id")
        .values_list("id", "run_id", "subject", "step", "by", "kind", "key", *hidden_cards())
    )
)


# Runs as lists and pages show them: metadata, and for one run its values.

ENDED_STATUSES = frozenset(Status(phase.value) for phase in ENDED)


class RunRow(RunSummary):
    """A run in a list, as pages show it: metadata only."""

    status: Status
    requests: tuple[AwaitedReply, ...] = ()
    acted_by: str
    wake_at: datetime | None
    signal: str = ""
    """The name of the signal that the oldest of its requests waits for; empty where that one is for people."""
    waits_on: tuple[str, ...] = ()
    """The people and groups that its requests are addressed to; none where anyone may answer."""
    step: str = ""
    """The step of the latest event; empty if there is none, or not recently."""
    version: str = ""
    forked: bool = False
    own_title: str = ""
    """What its author calls it; empty where they say nothing."""
    summary: str = ""
    """The first values of its input, for those who may inspect them; else the subject of its newest request."""

    @property
    def awaits_program(self) -> bool:
        """Return whether its program could continue it, and does not execute it now."""
        return awaits_program(self.status, self.driver)

    @property
    def label(self) -> str:
        """Return what it is called among runs of its workflow; empty where only its id tells them apart."""
        return self.own_title or self.summary

    @property
    def ended(self) -> bool:
        """Return whether it has ended."""
        return self.status in ENDED_STATUSES

    @property
    def lasted(self) -> timedelta:
        """Return its duration so far, or in all."""
        return (self.finished or timezone.now()) - self.created


def awaits_program(status: Status, driver: str) -> bool:
    """Return whether a run's program could continue it, and does not execute it now."""
    return driver == "program" and status in {Status.QUEUED, Status.INTERRUPTED}


def rests(status: Status, driver: str, requests: Iterable[WaitingFor]) -> bool:
    """Return whether a run has ended, or cannot continue before a person or its program acts."""
    if status in ENDED_STATUSES or awaits_program(status, driver) or status in {Status.PAUSED, Status.HELD}:
        return True
    return status is Status.WAITING and any(not one.signal for one in requests)


class RunView(RunRow, RunDetail):
    """A run's header. Values are None for those who may not inspect, the traceback for all but operators."""

    version: str
    retry: JsonObject | None = None
    worker: str = ""
    lingers: bool = False
    """Whether that worker lost the run, but has not stopped everything that runs there."""
    ending: str = ""
    """What it becomes once the running steps have ended: ``paused``, ``cancelled`` or empty."""
    attempts: int = 0
    """Times it was recovered in a row without progress."""
    inspect: bool = False
    operate: bool = False
    follows_gone: bool = False
    edits: bool = False
    """Whether they may also edit its checkpoints: its engine can, as far as its workflow is loaded."""
