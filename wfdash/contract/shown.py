"""What pages show of a checkpoint, whatever engine wrote it: plain JSON with nothing left to decode. No Django."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from pydantic import AwareDatetime, Field, TypeAdapter

from checkpoints.records import Json, Record

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class ToolUse(Record):
    """A model's call of a tool. ``id``: what its result is found by. ``arguments``: an object, or text that is none."""

    id: str = ""
    name: str
    arguments: Json = None


class Message(Record):
    """A message of a conversation with a model.

    ``text`` is Markdown where an assistant wrote it. ``name``: who said it, or which tool answered. ``calls``: the
    tools that an assistant's message calls. ``call``: the id of the call that a tool's message answers; ``failed`` if
    the tool did. Tokens as the model's provider counts them, None where unknown.
    """

    role: Role
    text: str = ""
    name: str = ""
    calls: tuple[ToolUse, ...] = ()
    call: str = ""
    failed: bool = False
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    at: AwareDatetime | None = None


class Shown(Record):
    """A checkpoint as pages show it. ``inputs``: activation -> the input of a step that is in progress there."""

    state: dict[str, Json] = Field(default_factory=dict)
    transcript: tuple[Message, ...] = ()
    inputs: Mapping[str, Json] = Field(default_factory=dict)


_TRANSCRIPT: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


def pack_transcript(messages: tuple[Message, ...]) -> list[Json]:
    """Return a transcript as JSON, for a checkpoint's body or a card; what a message does not have is left out."""
    packed: list[Json] = _TRANSCRIPT.dump_python(messages, mode="json", exclude_defaults=True)
    return packed


def unpack_transcript(packed: Json) -> tuple[Message, ...]:
    """Return a transcript that was packed. ``ValueError`` where it is none."""
    return _TRANSCRIPT.validate_python(packed, strict=False)
