"""Where a run is, as a checkpoint holds it: the framework's checkpoint in encoded form, and what only wfdash knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint, Json
from wfdash.contract import Message, Shown, pack_transcript, unpack_transcript

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Who asked a pending question: the activation that waits for its answer, its step, the framework's request id."""

    activation: str
    step: str
    request: str


@dataclass(frozen=True, kw_only=True)
class FrameworkPosition:
    """What a checkpoint holds besides the framework's own.

    ``idle``: nothing is left to do without an answer. ``number``: of the last activation. ``asking``: by question key.
    ``given``: the answers that a function is given again each time it runs, by request id. ``outputs``: what the
    workflow has given so far, as JSON. ``inputs``: of activations that wait.
    """

    idle: bool = False
    number: int = 0
    asking: Mapping[str, Asker] = field(default_factory=dict)
    given: Mapping[str, Json] = field(default_factory=dict)
    outputs: tuple[Json, ...] = ()
    inputs: Mapping[str, Json] = field(default_factory=dict)
    interrupted: Mapping[str, str] = field(default_factory=dict)
    """Activation -> step of what a function had begun when it asked; it continues with the answer."""
    transcript: tuple[Message, ...] = ()
    next: tuple[str, ...] = ()
    """The steps that messages were on their way to: they run when the run continues."""

    def packed(self, framework: Json, state: dict[str, Json]) -> dict[str, Json]:
        """Return a checkpoint's body. ``framework``: its own checkpoint, encoded; ``state``: as pages show it."""
        position = {
            "format": FORMAT,
            "idle": self.idle,
            "number": self.number,
            "asking": {key: vars(one) for key, one in self.asking.items()},
            "given": dict(self.given),
            "outputs": list(self.outputs),
            "inputs": dict(self.inputs),
            "interrupted": dict(self.interrupted),
            "transcript": pack_transcript(self.transcript),
            "next": list(self.next),
        }
        return {"state": state, "position": position, "framework": framework}

    def started(self) -> FrameworkPosition:
        """Return it at the beginning of a run that follows this one: its conversation, and nothing that was given."""
        return replace(self, idle=False, asking={}, given={}, outputs=(), inputs={}, interrupted={})


def position_in(checkpoint: Checkpoint) -> FrameworkPosition:
    """Return the position of a checkpoint. ``Incompatible`` if it is none of this engine's."""
    found = checkpoint.body.get("position")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Incompatible("This checkpoint was not written by the engine of Agent Framework, or by a later version")
    try:
        asking = {key: Asker(**one) for key, one in found["asking"].items()}
        transcript = unpack_transcript(found["transcript"])
        given, inputs = dict(found["given"]), dict(found["inputs"])
        return FrameworkPosition(
            idle=bool(found["idle"]),
            number=int(found["number"]),
            asking=asking,
            given=given,
            outputs=tuple(found["outputs"]),
            inputs=inputs,
            interrupted=dict(found["interrupted"]),
            transcript=transcript,
            next=tuple(found.get("next", ())),
        )
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise Incompatible(f"This checkpoint cannot be read: {error}") from error


def framework_part(checkpoint: Checkpoint) -> Json:
    """Return the framework's own checkpoint, encoded."""
    return checkpoint.body.get("framework")


def shown(checkpoint: Checkpoint) -> Shown:
    """Return what pages show of a checkpoint. ``Incompatible``: it is none of this engine's."""
    position = position_in(checkpoint)
    state: Any = checkpoint.body.get("state")
    return Shown(state=state if isinstance(state, dict) else {}, transcript=position.transcript, inputs=position.inputs)
