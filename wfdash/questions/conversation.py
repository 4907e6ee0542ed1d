"""What led to a question: the end of a conversation with a model, as evidence on its card. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from checkpoints.records import Json
from wfdash.questions.evidence import Evidence, Transcript
from wfdash.questions.transcript import Message, is_too_deep, parsed
from wfdash.values.display import truncate

LONGEST = 10_000
"""Characters of a message, or of the arguments of a call, up to which a card has all of it; the run's page always."""
LEFT_OUT = "Too long for this card: it is on the run's page."


def conversation(messages: Sequence[Message], *, most: int) -> list[Evidence]:
    """Return the last ``most`` messages of a conversation as evidence, long ones cut; nothing where there are none.

    A card has a largest size, and a question that is larger could not be asked.
    """
    if not messages:
        return []
    kept = tuple(_shortened(message) for message in messages[-most:])
    return [Transcript(title="Conversation", messages=kept, earlier=len(messages) - len(kept))]


def _shortened(message: Message) -> Message:
    calls = tuple(call.model_copy(update={"arguments": _short(call.arguments)}) for call in message.calls)
    text = _short(message.text)
    return message.model_copy(update={"text": text if isinstance(text, str) else _as_text(text), "calls": calls})


def _short(value: Json) -> Json:
    """Return a value cut to what a card shows. JSON stays JSON, also as a text: its secrets are found by name."""
    if not _is_long(value):
        return value
    held = parsed(value)
    if isinstance(held, str):
        return LEFT_OUT if is_too_deep(held) else f"{held[:LONGEST]}…"
    short = truncate(held)
    return LEFT_OUT if _is_long(short) else short


def _is_long(value: Json) -> bool:
    return len(value if isinstance(value, str) else _as_text(value)) > LONGEST


def _as_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
