"""Runs whose workflow has changed since they started: the changes, the possible actions, and the list of such runs."""

from __future__ import annotations

from django.db.models import Count, Min, Q, Value
from django.db.models.functions import Coalesce

from checkpoints.errors import Damaged, Incompatible
from checkpoints.models import Run
from checkpoints.records import ENDED, Checkpoint, Json, Phase, Status, frozen
from checkpoints.rules import card_subject
from wfdash.access.viewer import Viewer
from wfdash.contract import Carried
from wfdash.domain.graph_diff import GraphDiff
from wfdash.domain.labels import visible
from wfdash.engines import catalog
from wfdash.queries import timemachine
from wfdash.queries.checkpoints.checkpoint import outlook_of
from wfdash.queries.runs.before_acting import operated_run
from wfdash.queries.runs.listing import RunView
from wfdash.queries.step_states import step_transitions
from wfdash.queries.timemachine import NotShown, shown_of

FINISHED = [Phase.COMPLETED.value, Phase.CANCELLED.value]
OPEN = [phase.value for phase in Phase if phase not in ENDED]
NOTHING = "Nothing to migrate: the run has ended or is already on the current version"
MAX_RUNS = 5
"""Runs of an old version that a list names."""


@frozen
class GraphDifference:
    """How a run's graph differs from the loaded one. ``difference`` is None where one of the two is unknown."""

    old: str
    new: str
    """The loaded version, empty if the workflow is not loaded."""
    held: bool
    difference: GraphDiff | None

    @property
    def words(self) -> tuple[str, ...]:
        """Return one sentence per change."""
        return self.difference.words if self.difference else ()


@frozen
class MigrationPreview:
    """What a migration or an override would do. ``refusal``: why it is not possible."""

    override: bool
    how: str = ""
    words: tuple[str, ...] = ()
    refusal: str = ""
    before: Json = None
    after: Json = None
    """The state."""
    steps_before: tuple[str, ...] = ()
    steps_after: tuple[str, ...] = ()
    """The steps in progress."""
    closes: tuple[str, ...] = ()
    """Subjects of questions that would be withdrawn."""


@frozen
class OldRuns:
    """Open runs of one old version."""

    version: str
    count: int
    held: int
    words: tuple[str, ...]
    oldest: str
    runs: tuple[str, ...]
    """The ids of the oldest ones."""


def graph_difference(run: RunView) -> GraphDifference | None:
    """Return how an open run's graph differs from the loaded one; None if it does not (then no query, else one)."""
    entry = catalog.find(run.workflow)
    new = entry.description.version if entry else ""
    if run.status.value in FINISHED or not run.version or run.version == new:
        return None
    held = run.status is Status.HELD
    return GraphDifference(
        old=run.version, new=new, held=held, difference=timemachine.diff_since(run.workflow, run.version)
    )


def migration_plan(viewer: Viewer, run_id: str, *, override: bool) -> MigrationPreview:
    """Return what migrating a run would do, for operators: a dry run. ``NotFound``, ``NotAllowed``."""
    run = operated_run(viewer, run_id)
    if run.phase in FINISHED or not timemachine.is_behind(run):
        return MigrationPreview(override=override, refusal=NOTHING)
    try:
        head, carried = timemachine.carry_head(run, override=override)
    except (Incompatible, Damaged) as error:
        return MigrationPreview(override=override, refusal=str(error))
    before, after = _forms(head, carried)
    subjects = (
        {request.key: visible(card_subject(request.card, request.step)) for request in head.requests} if head else {}
    )
    return MigrationPreview(
        override=override,
        how=carried.how,
        words=carried.words,
        before=before,
        after=after,
        steps_before=_active_steps(run_id, Carried(how="", body={})),
        steps_after=_planned_steps(head, carried) or _active_steps(run_id, carried),
        closes=tuple(subjects[key] for key in carried.closed),
    )


def read_old_runs(viewer: Viewer, workflow: str) -> list[OldRuns]:
    """Return the open runs that belong to another graph than the loaded one, by version, oldest first."""
    entry = catalog.find(workflow)
    if entry is None:
        return []
    # Without the index of workflows: open runs are few, however many runs the workflow has.
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
            words=_change_sentences(workflow, row["version"]),
            oldest=str(row["first"]),
            runs=tuple(rows.filter(version=row["version"]).order_by("created").values_list("pk", flat=True)[:MAX_RUNS]),
        )
        for row in counted.order_by("first")
    ]


def _change_sentences(workflow: str, version: str) -> tuple[str, ...]:
    difference = timemachine.diff_since(workflow, version)
    return difference.words if difference else ()


def _forms(head: Checkpoint | None, carried: Carried) -> tuple[Json, Json]:
    """Return the state before and after, as its engine shows it; None where it does not."""
    if head is None:
        return {}, {}
    try:
        return shown_of(head).state, shown_of(_migrated(head, carried)).state
    except NotShown:
        return None, None


def _migrated(head: Checkpoint, carried: Carried) -> Checkpoint:
    entry = catalog.get(head.workflow)
    version = entry.description.version
    return head.model_copy(update={"body": carried.body, "requests": carried.requests, "version": version})


def _planned_steps(head: Checkpoint | None, carried: Carried) -> tuple[str, ...]:
    """Return the steps in progress after a migration, as its engine predicts; nothing where it does not."""
    try:
        doing = outlook_of(_migrated(head, carried)).doing if head is not None else ()
    except Incompatible:
        return ()
    return tuple(one.step for one in doing if one.shown)


def _active_steps(run_id: str, carried: Carried) -> tuple[str, ...]:
    """Return the steps in progress by the run's events, under their names after a migration."""
    last = {move.activation: move for move in step_transitions(run_id)}
    active = [move for move in last.values() if move.state != "done" and move.activation not in carried.ended]
    return tuple(carried.names.get(move.step, move.step) for move in active)
