"""The catalogue as a person may see it: definitions, versions, counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max

from checkpoints.models import HumanRequest, Run, WorkflowVersion
from checkpoints.records import ENDED, Phase
from wfdash import catalog
from wfdash.access import Viewer
from wfdash.catalog import Failure
from wfdash.contract import Description
from wfdash.errors import NotFound


@dataclass(frozen=True, kw_only=True)
class WorkflowRow:
    """A workflow with its counts. ``loaded`` is False when only its runs are left."""

    name: str
    description: Description
    source: str = ""
    loaded: bool = True
    may_start: bool = False
    phases: dict[str, int] = field(default_factory=dict)
    waiting_requests: int = 0
    last_run: datetime | None = None

    @property
    def total(self) -> int:
        """All its runs."""
        return sum(self.phases.values())

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
    """A graph that runs were started under."""

    version: str
    created: datetime
    runs: int
    current: bool


def workflows(viewer: Viewer) -> list[WorkflowRow]:
    """Return every loaded workflow this person may see, by title (two queries)."""
    phases, last = _phases(viewer)
    waiting = _waiting(viewer)
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
    phases, last = _phases(viewer)
    described = Description.model_validate(version.description)
    return WorkflowRow(name=name, description=described, loaded=False, phases=phases[name], last_run=last.get(name))


def failures(viewer: Viewer) -> list[Failure]:
    """Return what failed to load, for those who operate something; nobody else gets tracebacks."""
    return catalog.failures() if viewer.may_anywhere("operate") else []


def versions(viewer: Viewer, name: str) -> list[VersionRow]:
    """Return the versions runs were started under, newest first (two queries)."""
    counts = dict(
        Run.objects.filter(viewer.scope("see"), workflow=name).values_list("version").annotate(Count("pk")).order_by()
    )
    current = next((entry.description.version for entry in catalog.entries() if entry.name == name), "")
    rows = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    return [
        VersionRow(
            version=row.version, created=row.created, runs=counts.get(row.version, 0), current=row.version == current
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


def _phases(viewer: Viewer) -> tuple[defaultdict[str, dict[str, int]], dict[str, datetime]]:
    phases: defaultdict[str, dict[str, int]] = defaultdict(dict)
    last: dict[str, datetime] = {}
    rows = Run.objects.filter(viewer.scope("see")).values_list("workflow", "phase").order_by()
    for name, phase, count, newest in rows.annotate(Count("pk"), Max("created")):
        phases[name][phase] = count
        last[name] = max(newest, last.get(name, newest))
    return phases, last


def _waiting(viewer: Viewer) -> dict[str, int]:
    rows = HumanRequest.objects.filter(viewer.scope("see"), closed__isnull=True, answered__isnull=True)
    return dict(rows.values_list("workflow").annotate(Count("pk")).order_by())
