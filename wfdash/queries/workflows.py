"""The catalogue as a person may see it: definitions, versions, counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, OuterRef, Subquery

from checkpoints.models import HumanRequest, Run, WorkflowVersion
from checkpoints.records import ENDED, Phase
from wfdash import catalog
from wfdash.access import Viewer
from wfdash.catalog import Failure
from wfdash.contract import Description
from wfdash.errors import NotFound

COUNTED = 5_000
"""Runs are counted up to here, so that a page is as fast with a million of them."""

LOOKED_AT = [phase.value for phase in Phase if phase not in ENDED or phase is Phase.FAILED]


@dataclass(frozen=True, kw_only=True)
class WorkflowRow:
    """A workflow with its counts. ``loaded`` is False when only its runs are left."""

    name: str
    description: Description
    source: str = ""
    loaded: bool = True
    may_start: bool = False
    phases: dict[str, int] = field(default_factory=dict)
    """How many runs are in the phases that somebody may have to look at: those not ended, and failed."""
    waiting_requests: int = 0
    last_run: datetime | None = None

    @property
    def active(self) -> int:
        """Runs that have not ended."""
        return sum(count for phase, count in self.phases.items() if Phase(phase) not in ENDED)

    @property
    def failed(self) -> int:
        """Runs that failed and were not retried."""
        return self.phases.get(Phase.FAILED.value, 0)


@dataclass(frozen=True, kw_only=True)
class VersionRow:
    """A graph that runs were started under. ``runs`` is None where there are too many runs to count."""

    version: str
    created: datetime
    runs: int | None
    current: bool


def workflows(viewer: Viewer) -> list[WorkflowRow]:
    """Return every loaded workflow this person may see, by title (three queries, whatever number of runs ended)."""
    phases, last, waiting = _phases(viewer), _newest(viewer), _waiting(viewer)
    return [
        WorkflowRow(
            name=entry.name,
            description=entry.description,
            source=entry.source,
            may_start=viewer.may("start", entry.name),
            phases=phases[entry.name],
            waiting_requests=waiting.get(entry.name, 0),
            last_run=last.get(entry.name),
        )
        for entry in catalog.entries()
        if viewer.may("see", entry.name)
    ]


def workflow(viewer: Viewer, name: str) -> WorkflowRow:
    """Return one of them, or raise ``NotFound``; also one that is not loaded any more but has runs."""
    row = next((row for row in workflows(viewer) if row.name == name), None)
    if row is not None:
        return row
    version = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created").first()
    if version is None:
        raise NotFound("There is no such workflow, or it is not yours to see")
    phases, last = _phases(viewer), _newest(viewer)
    described = Description.model_validate(version.description)
    return WorkflowRow(name=name, description=described, loaded=False, phases=phases[name], last_run=last.get(name))


def failures(viewer: Viewer) -> list[Failure]:
    """Return what failed to load, for those who operate something; nobody else gets tracebacks."""
    return catalog.failures() if viewer.may_anywhere("operate") else []


def versions(viewer: Viewer, name: str) -> list[VersionRow]:
    """Return the versions runs were started under, newest first (three queries)."""
    mine = Run.objects.filter(viewer.scope("see"), workflow=name)
    few = count_runs(viewer, name) <= COUNTED
    counts = dict(mine.values_list("version").annotate(Count("pk")).order_by()) if few else {}
    current = next((entry.description.version for entry in catalog.entries() if entry.name == name), "")
    rows = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    return [
        VersionRow(
            version=row.version,
            created=row.created,
            runs=counts.get(row.version, 0) if few else None,
            current=row.version == current,
        )
        for row in rows
    ]


def description_of(workflow: str, version: str) -> Description | None:
    """Return the graph a run is pinned to; the loaded one where that is not stored, None where neither is."""
    row = WorkflowVersion.objects.filter(workflow=workflow, version=version).first()
    if row is not None:
        return Description.model_validate(row.description)
    return next((entry.description for entry in catalog.entries() if entry.name == workflow), None)


def titles() -> dict[str, str]:
    """Return workflow name -> title of what is loaded."""
    return {entry.name: entry.description.title or entry.name for entry in catalog.entries()}


def count_runs(viewer: Viewer, name: str) -> int:
    """Return how many runs a workflow has; more than ``COUNTED`` are not counted further (one query)."""
    return Run.objects.filter(viewer.scope("see"), workflow=name).order_by()[: COUNTED + 1].count()


def _phases(viewer: Viewer) -> defaultdict[str, dict[str, int]]:
    phases: defaultdict[str, dict[str, int]] = defaultdict(dict)
    rows = Run.objects.filter(viewer.scope("see"), phase__in=LOOKED_AT).values_list("workflow", "phase").order_by()
    for name, phase, count in rows.annotate(Count("pk")):
        phases[name][phase] = count
    return phases


def _newest(viewer: Viewer) -> dict[str, datetime]:
    """Return workflow -> when its newest run was created: one look into an index for each."""
    newest = Run.objects.filter(workflow=OuterRef("workflow")).order_by("-created", "-id").values("created")[:1]
    rows = WorkflowVersion.objects.filter(viewer.scope("see")).values("workflow").distinct().order_by()
    found = rows.annotate(newest=Subquery(newest)).values_list("workflow", "newest")
    return {name: at for name, at in found if at is not None}


def _waiting(viewer: Viewer) -> dict[str, int]:
    rows = HumanRequest.objects.filter(viewer.scope("see"), closed__isnull=True, answered__isnull=True)
    return dict(rows.values_list("workflow").annotate(Count("pk")).order_by())
