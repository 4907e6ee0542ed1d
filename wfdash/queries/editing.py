"""What of a checkpoint a person may edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Json
from checkpoints.rows import read_row
from wfdash import catalog, rewind
from wfdash.access import Viewer
from wfdash.edits import Doing, TakesEdits
from wfdash.hidden import masked, secret_names
from wfdash.queries.preview import outlook_of
from wfdash.queries.states import CheckpointView, checkpoint, find_row


@dataclass(frozen=True, kw_only=True)
class Editing:
    """A checkpoint with what may be changed in it, secrets hidden. ``refusal`` says in words why nothing may.

    ``doing``: what is under way and takes a message. ``suggested``: the last answers to what is pending.
    """

    chosen: CheckpointView
    refusal: str = ""
    state_schema: Mapping[str, Json] = field(default_factory=dict)
    state: Json = None
    doing: tuple[Doing, ...] = ()
    suggested: Mapping[RequestKey, Json] = field(default_factory=dict)


def editing(viewer: Viewer, run_id: str, checkpoint_id: str) -> Editing:
    """Return it for operators; ``NotFound``, or ``NotAllowed`` for those who may not operate."""
    row = find_row(viewer, run_id, checkpoint_id, right="operate")
    chosen = checkpoint(viewer, run_id, checkpoint_id)
    if chosen.problem:
        return Editing(chosen=chosen, refusal=chosen.problem)
    entry = catalog.find(row.workflow)
    if entry is not None and not isinstance(entry.engine, TakesEdits):
        text = f"The engine {entry.engine.name!r} cannot edit checkpoints: restore or fork it as it is"
        return Editing(chosen=chosen, refusal=text)
    try:
        outlook = outlook_of(read_row(row))
    except Incompatible as error:
        return Editing(chosen=chosen, refusal=str(error))
    keys = [request.key for request in chosen.requests]
    return Editing(
        chosen=chosen,
        state_schema=outlook.state_schema,
        state=masked(chosen.state, secret_names(outlook.state_schema)),
        doing=tuple(
            one.model_copy(update={"message": masked(one.message, secret_names(one.takes))})
            for one in outlook.doing
            if one.takes is not None
        ),
        suggested={RequestKey(key): one.value for key, one in rewind.earlier_answers(run_id, keys).items()},
    )
