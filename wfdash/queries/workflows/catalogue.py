"""The catalogue for one person: definitions, versions, counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db.models import Count, OuterRef, Subquery

from checkpoints.models import FOR_PEOPLE, HumanRequest, Run, WorkflowVersion
from checkpoints.records import ENDED, Phase
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.catalog import Failure
from wfdash.contract import Description
from wfdash.domain import graph_diff
from wfdash.errors import NotFound
from wfdash.queries.schedules.listing import next_times
from wfdash.records.workflows import VersionRecord
from wfdash.timemachine.versions import find_description

COUNTED = 2_000
"""Runs are counted up to here, so that a page is as fast with a million of them."""

VERSIONS = 20
"""Versions of a workflow that are shown, the newest."""
LOOKED_AT = [phase.value for phase in Phase if phase not in ENDED or phase is Phase.FAILED]
SETTLED = [Phase.COMPLETED.value, Phase.CANCELLED.value]


@dataclass(frozen=True, kw_only=True)
class WorkflowRow:
    """A workflow with its counts. ``loaded`` is False when only its runs are left."""

    name: str
    description: Description
    source: str = ""
    """The app or file it is loaded from; for operators the file's path."""
    loaded: bool = True
    published: bool = False
    """Whether this server knows it by what a worker has published alone, and has not loaded its code."""
    may_start: bool = False
    phases: dict[str, int] = field(default_factory=dict)
    """How many runs are in the phases that may need attention: those not ended, and failed."""
    more: frozenset[str] = frozenset()
    """The phases that have more runs than were counted."""
    waiting_requests: int = 0
    last_run: datetime | None = None
    next_run: datetime | None = None
    """When a schedule starts the next one."""

    @property
    def active(self) -> int:
        """Return the runs that have not ended."""
        return sum(count for phase, count in self.phases.items() if Phase(phase) not in ENDED)

    @property
    def failed(self) -> int:
        """Return the runs that failed and were not retried."""
        return self.phases.get(Phase.FAILED.value, 0)

    @property
    def title(self) -> str:
        """Return its title."""
        return self.description.title or self.name


class VersionRow(VersionRecord):
    """A graph that runs were started under. ``runs`` is None where there are too many runs to count."""

    more: bool = False
    """Whether there are more runs than were counted."""


def read_workflows(viewer: Viewer) -> list[WorkflowRow]:
    """Return every loaded workflow this person may see, by title (ten queries, however many runs there are)."""
    (phases, more), last, waiting, coming = _phases(viewer), _newest(viewer), _waiting(viewer), next_times(viewer)
    return [
        WorkflowRow(
            name=entry.name,
            description=entry.description,
            source=_source(entry, viewer),
            published=entry.published,
            may_start=viewer.may("start", entry.name),
            phases=phases[entry.name],
            more=more,
            waiting_requests=waiting.get(entry.name, 0),
            last_run=last.get(entry.name),
            next_run=coming.get(entry.name),
        )
        for entry in catalog.entries()
        if viewer.may("see", entry.name)
    ]


def read_workflow(viewer: Viewer, name: str) -> WorkflowRow:
    """Return one of them, also one that is no longer loaded but has runs. ``NotFound``."""
    row = next((row for row in read_workflows(viewer) if row.name == name), None)
    if row is not None:
        return row
    version = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created").first()
    if version is None:
        raise NotFound("Workflow not found, or you do not have access")
    (phases, more), last = _phases(viewer), _newest(viewer)
    return WorkflowRow(
        name=name,
        description=Description.model_validate(version.description),
        loaded=False,
        phases=phases[name],
        more=more,
        last_run=last.get(name),
    )


def read_failures(viewer: Viewer) -> list[Failure]:
    """Return what failed to load, for people who operate something; no one else gets tracebacks."""
    return catalog.failures() if viewer.may_anywhere("operate") else []


def read_versions(viewer: Viewer, name: str) -> list[VersionRow]:
    """Return the versions runs were started under, newest first, at most ``VERSIONS``, with the changes of each.

    Three queries; one for each version where there are too many runs to count at once.
    """
    newest = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    rows = list(newest[: VERSIONS + 1])
    described = [Description.model_validate(row.description, extra="ignore") for row in rows]
    loaded = catalog.find(name)
    current = loaded.description.version if loaded and viewer.may("see", name) else ""
    counts = _runs_of(viewer, name, [row.version for row in rows[:VERSIONS]])
    found = [
        VersionRow.trusted(
            version=row.version,
            created=row.created,
            runs=min(counts[row.version], COUNTED),
            more=counts[row.version] > COUNTED,
            current=row.version == current,
            changes=_changes(described[n + 1 : n + 2], described[n]),
        )
        for n, row in enumerate(rows[:VERSIONS])
    ]
    if loaded is None or not current or any(row.version == current for row in rows):
        return found
    fresh = VersionRow.trusted(
        version=current, created=None, runs=0, current=True, changes=_changes(described[:1], loaded.description)
    )
    return [fresh, *found]


def count_finished(viewer: Viewer, name: str) -> dict[str, int]:
    """Return how many of a workflow's newest ``COUNTED`` runs are completed, and how many cancelled (one query)."""
    newest = Run.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    counts = Counter(newest.values_list("phase", flat=True)[:COUNTED])
    return {phase: counts[phase] for phase in SETTLED if counts[phase]}


def description_of(workflow: str, version: str) -> Description | None:
    """Return the graph a run is pinned to; the loaded one where that is not stored, None where neither is."""
    loaded = (entry.description for entry in catalog.entries() if entry.name == workflow)
    return find_description(workflow, version) or next(loaded, None)


def last_of(viewer: Viewer, name: str) -> str:
    """Return the id of this person's newest run of a workflow whose input they may see, or an empty string (one
    query).
    """
    mine = Run.objects.filter(viewer.scope("inspect"), workflow=name, created_by_id=viewer.user.pk, follows=None)
    return mine.order_by("-created", "-id").values_list("pk", flat=True).first() or ""


def count_runs(viewer: Viewer, name: str) -> int:
    """Return how many runs a workflow has, counted up to ``COUNTED`` (one query)."""
    return Run.objects.filter(viewer.scope("see"), workflow=name).order_by()[: COUNTED + 1].count()


def _phases(viewer: Viewer) -> tuple[defaultdict[str, dict[str, int]], frozenset[str]]:
    """Return workflow -> phase -> runs, and the phases of which only the newest ``COUNTED`` were counted.

    One query for each phase, along its index.
    """
    phases: defaultdict[str, dict[str, int]] = defaultdict(dict)
    more = set()
    for phase in LOOKED_AT:
        newest = Run.objects.filter(viewer.scope("see"), phase=phase).order_by("-created", "-id")
        names = list(newest.values_list("workflow", flat=True)[: COUNTED + 1])
        if len(names) > COUNTED:
            more.add(phase)
        for name, count in Counter(names[:COUNTED]).items():
            phases[name][phase] = count
    return phases, frozenset(more)


def _runs_of(viewer: Viewer, name: str, among: Sequence[str]) -> Counter[str]:
    """Return version -> runs, each counted up to ``COUNTED``."""
    mine = Run.objects.filter(viewer.scope("see"), workflow=name)
    if count_runs(viewer, name) <= COUNTED:
        return Counter(dict(mine.values_list("version").annotate(Count("pk")).order_by()))
    newest = mine.order_by("-created", "-id")
    return Counter({version: newest.filter(version=version)[: COUNTED + 1].count() for version in among})


def _changes(before: Sequence[Description], after: Description) -> tuple[str, ...]:
    return graph_diff.compare(before[0], after).words if before else ()


def _newest(viewer: Viewer) -> dict[str, datetime]:
    """Return workflow -> when its newest run was created: one index look-up for each."""
    newest = Run.objects.filter(workflow=OuterRef("workflow")).order_by("-created", "-id").values("created")[:1]
    rows = WorkflowVersion.objects.filter(viewer.scope("see")).values("workflow").distinct().order_by()
    found = rows.annotate(newest=Subquery(newest)).values_list("workflow", "newest")
    return {name: at for name, at in found if at is not None}


def _waiting(viewer: Viewer) -> dict[str, int]:
    rows = HumanRequest.objects.filter(viewer.scope("see"), closed__isnull=True, answered__isnull=True)
    rows = rows.filter(FOR_PEOPLE)
    return dict(rows.values_list("workflow").annotate(Count("pk")).order_by())


def _source(entry: catalog.Entry, viewer: Viewer) -> str:
    """Return the file of a workflow: its path for operators, below the installation from there on; its name else."""
    if not viewer.may("operate", entry.name):
        return entry.source.rpartition("/")[2]
    return catalog.location(entry).removeprefix(f"{getattr(settings, 'BASE_DIR', '')}/")
