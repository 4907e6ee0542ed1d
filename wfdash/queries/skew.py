"""Runs whose workflow has changed since they began: what changed, what could be done, and which runs those are."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Min, Q, Value
from django.db.models.functions import Coalesce

from checkpoints.errors import Damaged, Incompatible
from checkpoints.models import Run
from checkpoints.records import ENDED, Json, Phase, Status
from wfdash import catalog, versions
from wfdash.access import Viewer
from wfdash.errors import NotAllowed, NotFound
from wfdash.queries.runs import RunView
from wfdash.skew import Skew

OVER = [Phase.COMPLETED.value, Phase.CANCELLED.value]
OPEN = [phase.value for phase in Phase if phase not in ENDED]
NOTHING = "There is nothing to migrate: the run has ended, or its graph is the loaded one"
SAMPLE = 5
"""Runs of an old version that a list names."""


@dataclass(frozen=True, kw_only=True)
class Behind:
    """How a run's graph differs from the loaded one. ``skew`` is None where one of the two is not known."""

    old: str
    new: str
    """The loaded version, empty if the workflow is not loaded."""
    held: bool
    skew: Skew | None

    @property
    def words(self) -> tuple[str, ...]:
        """One sentence per change."""
        return self.skew.words if self.skew else ()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a migration or an override would do; nothing of it has happened. ``refusal``: why it cannot be done."""

    override: bool
    how: str = ""
    words: tuple[str, ...] = ()
    refusal: str = ""
    before: Json = None
    after: Json = None
    """The state."""
    steps_before: tuple[str, ...] = ()
    steps_after: tuple[str, ...] = ()
    """The steps under way."""
    closes: tuple[str, ...] = ()
    """Subjects of questions that are withdrawn."""


@dataclass(frozen=True, kw_only=True)
class OldRuns:
    """Open runs of one old version."""

    version: str
    count: int
    held: int
    words: tuple[str, ...]
    oldest: str
    runs: tuple[str, ...]
    """The ids of the oldest ones."""


def behind(run: RunView) -> Behind | None:
    """Return how an open run's graph differs from the loaded one; None if it does not (then no query, else one)."""
    entry = catalog.find(run.workflow)
    new = entry.description.version if entry else ""
    if run.status.value in OVER or not run.version or run.version == new:
        return None
    held = run.status is Status.HELD
    return Behind(old=run.version, new=new, held=held, skew=versions.find_skew(run.workflow, run.version))


def choice(viewer: Viewer, run_id: str, *, override: bool) -> Choice:
    """Return what carrying a run over would do, for operators: a dry run. ``NotFound``, ``NotAllowed``."""
    run = Run.objects.filter(viewer.scope("see"), pk=run_id).first()
    if run is None:
        raise NotFound("There is no such run, or it is not yours to see")
    if not viewer.may("operate", run.workflow):
        raise NotAllowed()
    if run.phase in OVER or not versions.is_behind(run):
        return Choice(override=override, refusal=NOTHING)
    try:
        head, carried = versions.carry_head(run, override=override)
    except (Incompatible, Damaged) as error:
        return Choice(override=override, refusal=str(error))
    before = head.body if head else {}
    subjects = (
        {request.key: str(request.card.get("subject") or request.step) for request in head.requests} if head else {}
    )
    return Choice(
        override=override,
        how=carried.how,
        words=carried.words,
        before=before.get("state", {}),
        after=carried.body.get("state", {}),
        steps_before=_under_way(before),
        steps_after=_under_way(carried.body),
        closes=tuple(subjects[key] for key in carried.closed),
    )


def old_runs(viewer: Viewer, workflow: str) -> list[OldRuns]:
    """Return the open runs that belong to another graph than the loaded one, by version, oldest first."""
    entry = catalog.find(workflow)
    if entry is None:
        return []
    # Without the index of workflows: those that are open are few, whatever number of runs the workflow has.
    named = Run.objects.annotate(named=Coalesce("workflow", Value("")))
    rows = named.filter(viewer.scope("see"), named=workflow, phase__in=OPEN)
    rows = rows.exclude(version__in=["", entry.description.version])
    is_held = Q(phase=Phase.PAUSED.value, acted_by="")
    counted = rows.values("version").annotate(n=Count("pk"), held=Count("pk", filter=is_held), first=Min("created"))
    return [
        OldRuns(
            version=row["version"],
            count=row["n"],
            held=row["held"],
            words=_words(workflow, row["version"]),
            oldest=str(row["first"]),
            runs=tuple(rows.filter(version=row["version"]).order_by("created").values_list("pk", flat=True)[:SAMPLE]),
        )
        for row in counted.order_by("first")
    ]


def _words(workflow: str, version: str) -> tuple[str, ...]:
    skew = versions.find_skew(workflow, version)
    return skew.words if skew else ()


def _under_way(body: dict[str, Json]) -> tuple[str, ...]:
    """Return the steps under way, as the native engine keeps them; nothing for an engine that keeps them otherwise."""
    live = (body.get("position") or {}).get("live") if isinstance(body.get("position"), dict) else None
    records = live.values() if isinstance(live, dict) else ()
    return tuple(record["step"] for record in records if not record["step"].endswith(">"))
