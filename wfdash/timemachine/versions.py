"""A run and the graph it belongs to: what has changed since, and what it would become under the current one.

Read-only; used by actions and queries. A run is *held* when the graph it belongs to is not the one that is loaded and
no declared migration leads there: it is paused automatically, with an error of type ``Incompatible``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from checkpoints.database.runs import read_row
from checkpoints.errors import CheckpointsError, Incompatible
from checkpoints.models import Checkpoint as Row
from checkpoints.models import Run, WorkflowVersion
from checkpoints.records import Checkpoint, Phase
from wfdash import catalog
from wfdash.catalog import Entry
from wfdash.contract import Carried, Description, InvalidInput, Migrates
from wfdash.domain.graph_diff import GraphDiff, compare
from wfdash.time_limit import TimeLimit

T = TypeVar("T")

HELD = "Incompatible"
"""The type of the error of a held run."""
CARRY_SECONDS = 10.0
"""For an author's migration of one run: one that hangs must keep neither a worker's jobs nor a web's thread."""
BEGINS = "nothing had run yet: it starts on the new version"
_calls = TimeLimit(CARRY_SECONDS)


def is_held(run: Run) -> bool:
    """Return whether the run waits for its old code or for an operator's choice."""
    return run.phase == Phase.PAUSED and not run.acted_by


def is_behind(run: Run) -> bool:
    """Return whether the run belongs to another graph than the loaded one, or to none that is loaded."""
    return not is_loaded(run.workflow, run.version)


def is_loaded(workflow: str, version: str) -> bool:
    """Return whether this graph of a workflow is loaded; an empty version fits any."""
    entry = catalog.find(workflow)
    return entry is not None and (not version or version == entry.description.version)


def find_description(workflow: str, version: str) -> Description | None:
    """Return the stored graph of a version, None if there is none."""
    row = WorkflowVersion.objects.filter(workflow=workflow, version=version).first()
    return Description.model_validate(row.description, extra="ignore") if row is not None else None


def diff_since(workflow: str, version: str) -> GraphDiff | None:
    """Return what changed since a version; None where one of the two graphs is unknown."""
    entry, old = catalog.find(workflow), find_description(workflow, version)
    return compare(old, entry.description) if entry is not None and old is not None else None


def has_way(run: Run) -> bool:
    """Return whether the run's own graph is loaded, or a declared migration leads from its head to the loaded one."""
    entry = catalog.find(run.workflow)
    if entry is None:
        return False
    if entry.description.version == run.version:
        return True
    try:
        carry_head(run, override=False)
    except CheckpointsError:
        return False
    return True


def carry_head(run: Run, *, override: bool) -> tuple[Checkpoint | None, Carried]:
    """Return the run's head (None before the first) and its migrated form. ``Incompatible`` with the reason."""
    entry = catalog.find(run.workflow)
    if entry is None:
        raise Incompatible(f"Workflow {run.workflow!r} is not loaded. The run resumes once it is")
    head = Row.objects.filter(run=run).order_by("-n").first()
    if head is None:
        return None, _start_over(run, entry)
    if not isinstance(entry.engine, Migrates):
        raise Incompatible(_changed(run, entry) + f". The engine {entry.engine.name!r} cannot migrate runs")
    record = read_row(head)
    old = find_description(run.workflow, record.version)
    return record, _in_time(run, entry, partial(entry.engine.carry, entry.definition, record, old, override=override))


def _in_time(run: Run, entry: Entry, call: Callable[[], T]) -> T:
    """Return what the author's code returns. ``Incompatible`` if it takes longer than ``CARRY_SECONDS``."""
    try:
        return _calls.call(run.workflow, run.pk, call)
    except TimeoutError as error:
        raise Incompatible(f"{_changed(run, entry)}. {error}") from error


def _start_over(run: Run, entry: Entry) -> Carried:
    try:
        _in_time(run, entry, partial(entry.engine.check_input, entry.definition, run.input))
    except InvalidInput as error:
        raise Incompatible(_changed(run, entry) + f". Its input is no longer valid: {error}") from error
    return Carried(how="start", body={}, words=(BEGINS,))


def _changed(run: Run, entry: Entry) -> str:
    difference = diff_since(run.workflow, run.version)
    now = entry.description.version
    return f"Workflow {run.workflow!r} changed since this run started ({run.version[:8]} then, {now[:8]} now)" + (
        f": {difference.summary}" if difference else ""
    )
