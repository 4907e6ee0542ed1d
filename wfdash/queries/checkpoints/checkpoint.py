"""A checkpoint with its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from django.utils import timezone

from checkpoints import models, records
from checkpoints.database.runs import info_of, read_row
from checkpoints.errors import Damaged, Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import CheckpointInfo, Json, JsonObject, Request, frozen
from wfdash.access.viewer import Viewer
from wfdash.contract import ActivationInfo, LookAhead, LooksAhead, Message, Shown, TakesEdits
from wfdash.domain.errors import CodeElsewhere, NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.queries import timemachine
from wfdash.queries.history import ranges_to, workflow_of
from wfdash.queries.step_states import transitions_within
from wfdash.queries.timemachine import NotShown, shown_of
from wfdash.records.checkpoints import CallInProgress, EditableParts, EditableStep
from wfdash.values.schemas.secrets import masked, secret_names, without


@frozen
class CheckpointView:
    """A checkpoint as its engine shows it, secrets hidden.

    ``problem`` says why its content cannot be read: then it is empty. ``note`` says why an intact one is not shown.
    """

    info: CheckpointInfo
    shown: Shown = field(default_factory=Shown)
    requests: tuple[Request, ...] = ()
    parent_n: int | None = None
    parent_run: str | None = None
    children: tuple[CheckpointInfo, ...] = ()
    problem: str = ""
    note: str = ""

    @property
    def number(self) -> str:
        """Return its number in the run."""
        return str(self.info.n)

    @property
    def state(self) -> JsonObject:
        """Return the workflow's own state."""
        return self.shown.state

    @property
    def inputs(self) -> Mapping[str, Json]:
        """Return activation -> the input of a step that is in progress there."""
        return self.shown.inputs

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Return the conversation up to there."""
        return self.shown.transcript


@frozen
class StepAtWork:
    """An execution in progress at a checkpoint. ``number``: which execution of its step it is, from 1.

    ``value``: its input, where the engine says one (``known``).
    """

    step: str
    activation: str
    number: int
    known: bool
    value: Json = None


def steps_at_work(view: CheckpointView) -> tuple[StepAtWork, ...]:
    """Return what is in progress at a checkpoint and is shown to people (two queries, none where nothing is).

    Steps that wait for an answer are among it, also those of an engine whose steps have no input of their own.
    """
    if not view.inputs and not view.requests:
        return ()
    begun: dict[str, list[str]] = {}
    steps: dict[str, str] = {}
    states: dict[str, str] = {}
    for move in transitions_within(ranges_to(view.info.run, view.info.id)):
        if move.activation not in steps:
            steps[move.activation] = move.step
            begun.setdefault(move.step, []).append(move.activation)
        states[move.activation] = move.state
    waiting = (activation for activation, state in states.items() if state == "waiting")
    return tuple(
        StepAtWork(
            step=steps[activation],
            activation=activation,
            number=1 + begun[steps[activation]].index(activation),
            known=activation in view.inputs,
            value=view.inputs.get(activation),
        )
        for activation in dict.fromkeys((*view.inputs, *waiting))
        if activation in steps
    )


def read_checkpoint(viewer: Viewer, run_id: str, checkpoint_id: str) -> CheckpointView:
    """Return one checkpoint with its content. ``NotFound``; ``NotAllowed`` for those who may not inspect values."""
    row = find_row(viewer, run_id, checkpoint_id)
    content = _content_of(row)
    parent = models.Checkpoint.objects.filter(pk=row.parent).values_list("n", "run_id").first() if row.parent else None
    children = models.Checkpoint.objects.filter(run_id=run_id, parent=row.id).defer("body").order_by("n")
    return CheckpointView(
        info=info_of(row),
        parent_n=parent[0] if parent else None,
        parent_run=parent[1] if parent else None,
        children=tuple(info_of(child) for child in children),
        **content,
    )


def find_row(viewer: Viewer, run_id: str, checkpoint_id: str, *, right: str = "inspect") -> models.Checkpoint:
    """Return the row through its viewer (two queries); another run's checkpoint is not found either.

    ``right``: what they need besides ``inspect``, for whatever is shown of it has values.
    """
    workflow = workflow_of(viewer, run_id)
    if not (viewer.may("inspect", workflow) and viewer.may(right, workflow)):
        raise NotAllowed("Your role cannot view values. Ask an operator")
    row = models.Checkpoint.objects.filter(run_id=run_id, pk=checkpoint_id).first()
    if row is None:
        raise NotFound("Checkpoint not found in this run. It may have been pruned")
    return row


def _content_of(row: models.Checkpoint) -> dict[str, Any]:
    try:
        record = read_row(row)
    except (Damaged, Incompatible) as error:
        return {"problem": str(error)}
    try:
        return {"shown": shown_of(record), "requests": record.requests}
    except NotShown as error:
        return {"note": str(error), "requests": record.requests}


class Editing(EditableParts):
    """A checkpoint with its editable parts, secrets masked. ``refusal`` says why nothing may be edited;
    ``elsewhere``: because no worker with its code answers, as one may in a moment.
    """

    chosen: CheckpointView
    elsewhere: bool = False


def read_editing(viewer: Viewer, run_id: str, checkpoint_id: str) -> Editing:
    """Return the editable parts, for operators. ``NotFound``, or ``NotAllowed`` for others."""
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    chosen = read_checkpoint(viewer, run_id, checkpoint_id)
    if hidden := chosen.problem or chosen.note:
        return Editing.trusted(chosen=chosen, refusal=hidden.removesuffix("."))
    entry = catalog.find(row.workflow)
    if entry is not None and not isinstance(entry.engine, TakesEdits):
        text = f"The engine {entry.engine.name!r} cannot edit checkpoints. Restore or fork it without edits"
        return Editing.trusted(chosen=chosen, refusal=text)
    try:
        outlook = outlook_of(read_row(row))
    except Incompatible as error:
        return Editing.trusted(chosen=chosen, refusal=str(error), elsewhere=isinstance(error, CodeElsewhere))
    keys = [request.key for request in chosen.requests]
    return Editing.trusted(
        chosen=chosen,
        state_schema=outlook.state_schema,
        state=masked(chosen.state, secret_names(outlook.state_schema)),
        doing=tuple(
            _step(one, masked(one.message, secret_names(one.takes))) for one in outlook.doing if one.takes is not None
        ),
        suggested={
            RequestKey(key): without(one.value, timemachine.secrets_in(one.request))
            for key, one in timemachine.earlier_answers(run_id, keys).items()
        },
    )


def _step(doing: ActivationInfo, message: Json) -> EditableStep:
    calls = tuple(CallInProgress.of(call) for call in doing.calls)
    return EditableStep.of(doing).model_copy(update={"message": message, "calls": calls})


NO_OUTLOOK = "The engine cannot predict the next steps; this is based on the events"


def outlook_of(record: records.Checkpoint) -> LookAhead:
    """Return what a checkpoint does next, as its engine says; ``Incompatible`` with the reason if it cannot."""
    entry = catalog.find(record.workflow)
    if entry is None:
        raise Incompatible(f"Workflow {record.workflow!r} is not loaded")
    if not isinstance(entry.engine, LooksAhead):
        raise Incompatible(NO_OUTLOOK)
    return entry.engine.look_ahead(entry.definition, record, timezone.now())
