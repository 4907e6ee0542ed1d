"""The editable parts of a checkpoint."""

from __future__ import annotations

from checkpoints.database.runs import read_row
from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Json
from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.contract import ActivationInfo, TakesEdits
from wfdash.errors import CodeElsewhere
from wfdash.queries.checkpoints.checkpoint import CheckpointView, find_row, read_checkpoint
from wfdash.queries.checkpoints.outlook import outlook_of
from wfdash.records.time_machine import CallInProgress, EditableParts, EditableStep
from wfdash.schemas.secrets import masked, secret_names, without
from wfdash.timemachine import restore_point


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
            RequestKey(key): without(one.value, restore_point.secrets_in(one.request))
            for key, one in restore_point.earlier_answers(run_id, keys).items()
        },
    )


def _step(doing: ActivationInfo, message: Json) -> EditableStep:
    calls = tuple(CallInProgress.of(call) for call in doing.calls)
    return EditableStep.of(doing).model_copy(update={"message": message, "calls": calls})
