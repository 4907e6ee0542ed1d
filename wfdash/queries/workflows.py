"""Reads of the catalogue: workflows with their filter, what workers have published of them, their code."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from threading import Event, Thread
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Count, OuterRef, Subquery, TextField
from django.db.models.functions import Cast, Length
from django.utils import timezone

from checkpoints.models import FOR_PEOPLE, HumanRequest, PublishedWorkflow, Run, WorkflowVersion
from checkpoints.records import ENDED, Phase, frozen
from wfdash.access.viewer import Viewer
from wfdash.contract import Description
from wfdash.domain import graph_diff
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.engines.catalog import Entry, Failure
from wfdash.engines.published import LARGEST, UNSERVED, Published, ShowsCode, read_document
from wfdash.installation.workflow_sources import SourceFile
from wfdash.queries.schedules import next_times
from wfdash.queries.search import ListFilter, Qualifier, Suggestion
from wfdash.queries.statistics.durations import runs_by_hour
from wfdash.queries.timemachine import find_description
from wfdash.queries.workers import WorkerConsult
from wfdash.records.workflows import VersionRecord

MAX_COUNTED_RUNS = 2_000
"""Runs are counted up to here, so that a page is as fast with a million of them."""

MAX_SHOWN_VERSIONS = 20
"""Versions of a workflow that are shown, the newest."""
LOOKED_AT = [phase.value for phase in Phase if phase not in ENDED or phase is Phase.FAILED]
SETTLED = [Phase.COMPLETED.value, Phase.CANCELLED.value]


@frozen
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
    hours: dict[str, list[int]] = field(default_factory=dict)
    """``started`` and ``failed``: how many runs did in each of the last 24 hours (UTC), the oldest first."""
    last_run: datetime | None = None
    next_run: datetime | None = None
    """When a schedule starts the next one."""

    @property
    def active(self) -> int:
        """Return the runs that have not ended."""
        return sum(count for phase, count in self.phases.items() if Phase.stored(phase) not in ENDED)

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
    """Return every loaded workflow this person may see, by title (eleven queries, however many runs there are)."""
    (phases, more), last, waiting, coming = _phases(viewer), _newest(viewer), _waiting(viewer), next_times(viewer)
    hours = runs_by_hour(viewer.scope("see"), timezone.now())
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
            hours=hours[entry.name],
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
        hours=runs_by_hour(viewer.scope("see"), timezone.now())[name],
        last_run=last.get(name),
    )


def read_failures(viewer: Viewer) -> list[Failure]:
    """Return what failed to load, for people who operate something; no one else gets tracebacks."""
    return catalog.failures() if viewer.may_anywhere("operate") else []


def read_versions(viewer: Viewer, name: str) -> list[VersionRow]:
    """Return the newest ``MAX_SHOWN_VERSIONS`` versions that runs were started under, with the changes of each.

    Three queries; one for each version where there are too many runs to count at once.
    """
    newest = WorkflowVersion.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    rows = list(newest[: MAX_SHOWN_VERSIONS + 1])
    described = [Description.model_validate(row.description, extra="ignore") for row in rows]
    loaded = catalog.find(name)
    current = loaded.description.version if loaded and viewer.may("see", name) else ""
    counts = _runs_of(viewer, name, [row.version for row in rows[:MAX_SHOWN_VERSIONS]])
    found = [
        VersionRow.trusted(
            version=row.version,
            created=row.created,
            runs=min(counts[row.version], MAX_COUNTED_RUNS),
            more=counts[row.version] > MAX_COUNTED_RUNS,
            current=row.version == current,
            changes=_changes(described[n + 1 : n + 2], described[n]),
        )
        for n, row in enumerate(rows[:MAX_SHOWN_VERSIONS])
    ]
    if loaded is None or not current or any(row.version == current for row in rows):
        return found
    fresh = VersionRow.trusted(
        version=current, created=None, runs=0, current=True, changes=_changes(described[:1], loaded.description)
    )
    return [fresh, *found]


def count_finished(viewer: Viewer, name: str) -> dict[str, int]:
    """Return how many of a workflow's newest ``MAX_COUNTED_RUNS`` are completed, and how many cancelled (one query)."""
    newest = Run.objects.filter(viewer.scope("see"), workflow=name).order_by("-created", "-id")
    counts = Counter(newest.values_list("phase", flat=True)[:MAX_COUNTED_RUNS])
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
    """Return how many runs a workflow has, counted up to ``MAX_COUNTED_RUNS`` (one query)."""
    return Run.objects.filter(viewer.scope("see"), workflow=name).order_by()[: MAX_COUNTED_RUNS + 1].count()


def _phases(viewer: Viewer) -> tuple[defaultdict[str, dict[str, int]], frozenset[str]]:
    """Return workflow -> phase -> runs, and the phases of which only the newest ``MAX_COUNTED_RUNS`` were counted.

    One query for each phase, along its index.
    """
    phases: defaultdict[str, dict[str, int]] = defaultdict(dict)
    more = set()
    for phase in LOOKED_AT:
        newest = Run.objects.filter(viewer.scope("see"), phase=phase).order_by("-created", "-id")
        names = list(newest.values_list("workflow", flat=True)[: MAX_COUNTED_RUNS + 1])
        if len(names) > MAX_COUNTED_RUNS:
            more.add(phase)
        for name, count in Counter(names[:MAX_COUNTED_RUNS]).items():
            phases[name][phase] = count
    return phases, frozenset(more)


def _runs_of(viewer: Viewer, name: str, among: Sequence[str]) -> Counter[str]:
    """Return version -> runs, each counted up to ``MAX_COUNTED_RUNS``."""
    mine = Run.objects.filter(viewer.scope("see"), workflow=name)
    if count_runs(viewer, name) <= MAX_COUNTED_RUNS:
        return Counter(dict(mine.values_list("version").annotate(Count("pk")).order_by()))
    newest = mine.order_by("-created", "-id")
    return Counter({version: newest.filter(version=version)[: MAX_COUNTED_RUNS + 1].count() for version in among})


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


# What the catalogue can be filtered by: one row for each key, with its condition and what is suggested for it.

Holds = Callable[[WorkflowRow, str], bool]
"""Returns whether a value of a term holds for a workflow."""
SHOWS: dict[str, Callable[[WorkflowRow], bool]] = {
    "open": lambda row: row.active > 0,
    "waiting": lambda row: row.waiting_requests > 0,
    "failed": lambda row: row.failed > 0,
    "scheduled": lambda row: row.next_run is not None,
}


def _names(entries: list[Entry]) -> Iterable[Suggestion]:
    return [Suggestion(entry.name, entry.description.title or "") for entry in entries]


def _steps(entries: list[Entry]) -> Iterable[str]:
    return sorted({step.name for entry in entries for step in entry.description.steps})


def _same(name: str, value: str) -> bool:
    return name.startswith(value[:-1]) if value.endswith("*") else name == value


QUALIFIERS: tuple[Qualifier[Holds, list[Entry]], ...] = (
    Qualifier(
        "show",
        "show:failed",
        "has open or failed runs, waiting requests, or a schedule: open, waiting, failed, scheduled",
        only=tuple(SHOWS),
        condition=lambda row, value: SHOWS[value.lower()](row),
    ),
    Qualifier(
        "workflow",
        "workflow:refund",
        "this workflow; ref* for prefix",
        single=True,
        suggest=_names,
        condition=lambda row, value: _same(row.name, value),
    ),
    Qualifier(
        "step",
        "step:review",
        "has this step; rev* for prefix",
        suggest=_steps,
        condition=lambda row, value: any(_same(step.name, value) for step in row.description.steps),
    ),
)
FILTER = ListFilter(qualifiers=QUALIFIERS, words="words in title, name, description or steps")


def matching(rows: Iterable[WorkflowRow], text: str) -> list[WorkflowRow]:
    """Return the rows a filter finds; ``Invalid`` names each part that cannot be understood, and its remedy."""
    wanted = FILTER.parse(text)
    words = [(word.lower(), True) for word in wanted.words] + [(word.lower(), False) for word in wanted.unwanted]

    def holds(row: WorkflowRow) -> bool:
        steps = (f"{step.name} {step.title}" for step in row.description.steps)
        said = " ".join([row.name, row.title, row.description.doc, *steps]).lower()
        terms = (
            any(FILTER[term.key].condition(row, value) for value in term.values) != term.negated
            for term in wanted.terms
        )
        return all(terms) and all((word in said) == occurs for word, occurs in words)

    return [row for row in rows if holds(row)]


def workflow_suggestions(viewer: Viewer) -> dict[str, Any]:
    """Return what the filter of the catalogue suggests (no query)."""
    return FILTER.suggestions([entry for entry in catalog.entries() if viewer.may("see", entry.name)])


# What workers have published of their workflows, for a server that has not loaded them.

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
MAX_READ_WORKFLOWS = 1_000
"""Workflows that are read; more are no installation's."""


class PublishedReader:
    """Keeps the catalogue of this process as workers describe their workflows, read every few seconds."""

    def __init__(self) -> None:
        self._rows: Mapping[str, tuple[str, bool]] = {}
        """Workflow -> the hash of its document, and whether a worker had it within ``UNSERVED``."""
        self._known: Mapping[str, Published] = {}
        """Workflow -> what its document says, if that can be used."""
        self._consult = WorkerConsult()
        self._closing = Event()
        self._thread = Thread(target=self._follow, name="wfdash-published", daemon=True)

    def start(self) -> None:
        """Read once, and from then on in a thread of its own."""
        self._try()
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join()

    def read(self) -> None:
        """Read what has changed since the last time (one small query, and one if anything has), and serve it."""
        found = PublishedWorkflow.objects.order_by("-seen").values_list("workflow", "hash", "seen")[:MAX_READ_WORKFLOWS]
        since = timezone.now() - UNSERVED
        rows = {name: (digest, seen >= since) for name, digest, seen in found}
        if rows == self._rows:
            return
        changed = {name for name, (digest, _) in rows.items() if self._rows.get(name, ("",))[0] != digest}
        kept = {name: one for name, one in self._known.items() if name in rows and name not in changed}
        self._known, self._rows = kept | _documents(changed), rows
        served = [self._known[name] for name, (_, alive) in rows.items() if alive and name in self._known]
        secrets = {name: frozenset(one.secrets) for name, one in self._known.items()}
        catalog.use_published(served, secrets, self._consult)

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self._try()
        connections.close_all()

    def _try(self) -> None:
        try:
            self.read()
        except Exception:
            log.exception("Could not read what workers have published; retrying")
            connections.close_all()


def published_secrets(workflow: str) -> frozenset[str]:
    """Return the names of a workflow's secret fields as a worker has published them, none where none has (one query):
    for a process without a reader that has not loaded it.
    """
    found = _documents([workflow]).get(workflow)
    return frozenset(found.secrets if found else ())


def _documents(names: Iterable[str]) -> dict[str, Published]:
    """Return workflow -> what is published of it; without what is too large or no worker's (one query)."""
    sized = PublishedWorkflow.objects.annotate(size=Length(Cast("document", TextField())))
    found = {}
    # PostgreSQL returns JSON with spaces in it.
    for row in sized.filter(workflow__in=names, size__lte=2 * LARGEST):
        try:
            said = read_document(row.document)
        except ValueError as error:
            log.error("What is published of workflow %s is left out: %s", row.workflow, error)
            continue
        if said.description is None or said.description.workflow == row.workflow:
            found[row.workflow] = said
    return found


# The code of a workflow, for those who operate it: they see tracebacks, too, which quote it.

FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,7}), in .*$', re.MULTILINE)


@frozen
class CodePlace:
    """A line of a workflow's code. ``start``, ``end``: where the text that names it stands in its traceback."""

    file: int
    line: int
    start: int = 0
    end: int = 0


def code_of(viewer: Viewer, workflow: str) -> tuple[SourceFile, ...]:
    """Return the files with a workflow's steps, as they were loaded; none for people without the right ``code``.

    Of a workflow that only workers have loaded one of them is asked, once a minute.
    """
    entry = _shown(viewer, workflow)
    if entry is None:
        return ()
    return entry.engine.source_files() if isinstance(entry.engine, ShowsCode) else entry.code


def is_code_elsewhere(viewer: Viewer, workflow: str) -> bool:
    """Return whether a person may read a workflow's code and only workers have it."""
    entry = _shown(viewer, workflow)
    return entry is not None and isinstance(entry.engine, ShowsCode)


def _shown(viewer: Viewer, workflow: str) -> catalog.Entry | None:
    shown = settings.WFDASH_SHOW_CODE and viewer.may("code", workflow)
    return catalog.find(workflow) if shown else None


def read_code(viewer: Viewer, workflow: str) -> tuple[SourceFile, ...]:
    """Return the same files, none where the installation shows no code. ``NotFound``; ``NotAllowed`` without the right
    ``code``.
    """
    name = read_workflow(viewer, workflow).name
    if not viewer.may("code", name):
        raise NotAllowed("Your role cannot read the code of this workflow. Ask one of its admins")
    return code_of(viewer, name)


def frames_in(trace: str, files: Sequence[SourceFile]) -> tuple[CodePlace, ...]:
    """Return the lines of a traceback that are in these files, and still say what the traceback quotes."""
    index = {str(file.path): number for number, file in enumerate(files)}
    found = []
    for frame in FRAME.finditer(trace):
        number, line = index.get(frame["file"], -1), int(frame["line"])
        quoted = trace[frame.end() + 1 :].partition("\n")[0].strip()
        if number >= 0 and _line(files[number], line) == quoted:
            found.append(CodePlace(file=number, line=line, start=frame.start() + 2, end=frame.end()))
    return tuple(found)


def _line(file: SourceFile, line: int) -> str | None:
    lines = file.lines
    return lines[line - 1].strip() if 0 < line <= len(lines) else None
