"""What is shown of a checkpoint: by its engine, secrets hidden. Nothing of a body is read in another way."""

from __future__ import annotations

from checkpoints.records import Checkpoint, Json
from wfdash import catalog
from wfdash.contract import Edited, Shown, Shows
from wfdash.domain.json_patch import Operation, make
from wfdash.questions.transcript import masked_transcript, pack_transcript
from wfdash.schemas.secrets import masked
from wfdash.timemachine.restore_point import secrets_of


class NotShown(Exception):
    """A checkpoint is intact, but its content cannot be shown here. The message says why, as a sentence."""


def shown_of(record: Checkpoint) -> Shown:
    """Return a checkpoint as its engine shows it, with its workflow's secrets hidden. ``NotShown``."""
    shown, names = unmasked_of(record), secrets_of(record)
    return Shown(
        state=masked(shown.state, names),
        transcript=masked_transcript(shown.transcript, names, [shown.state, *shown.inputs.values()]),
        inputs={activation: masked(one, names) for activation, one in shown.inputs.items()},
    )


def unmasked_of(record: Checkpoint) -> Shown:
    """Return a checkpoint as its engine shows it, secrets included. ``NotShown``."""
    engine = catalog.find_engine(record.engine)
    if engine is None:
        raise NotShown(f"It is of the engine {record.engine!r}, which is not loaded here, so its values are not shown.")
    if not isinstance(engine, Shows):
        raise NotShown(f"The engine {record.engine!r} does not say what is in its checkpoints, so no values are shown.")
    try:
        return engine.show(record)
    except ValueError as error:
        raise NotShown(f"The engine {record.engine!r} cannot show it: {error}") from error


def shown_json(shown: Shown) -> dict[str, Json]:
    """Return what is shown of a checkpoint as JSON: ``state``, ``transcript``, ``inputs``."""
    transcript = pack_transcript(shown.transcript)
    return {"state": shown.state, "transcript": transcript, "inputs": dict(shown.inputs)}


def patch_of(record: Checkpoint, edited: Edited) -> list[Operation]:
    """Return the RFC 6902 patch that leads from what is shown of a checkpoint to what is of the edited one."""
    after = record.model_copy(update={"body": edited.body, "requests": edited.requests})
    return make(shown_json(shown_of(record)), shown_json(shown_of(after)))
