"""The transcript of a conversation with a model: who said what, and which tools were called. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from checkpoints.records import Json
from wfdash.contract.shown import Message as Message
from wfdash.contract.shown import Role as Role
from wfdash.contract.shown import ToolUse as ToolUse
from wfdash.contract.shown import pack_transcript as pack_transcript
from wfdash.contract.shown import unpack_transcript as unpack_transcript
from wfdash.schemas.secrets import HIDDEN, masked

__all__ = [
    "Message",
    "Role",
    "ToolUse",
    "masked_card",
    "masked_transcript",
    "pack_transcript",
    "parsed",
    "unpack_transcript",
]

SHORTEST = 4
"""Characters from which on a hidden text is also looked for in what is said: a shorter one is found by chance."""


def masked_transcript(messages: Sequence[Message], names: Collection[str]) -> tuple[Message, ...]:
    """Return the messages with these fields hidden: in arguments, in texts that are JSON, and wherever else their
    values are said.
    """
    if not names:
        return tuple(messages)
    said: set[str] = set()
    for message in messages:
        for value in (*(parsed(call.arguments) for call in message.calls), parsed(message.text)):
            said |= _secrets_in(value, names)
    values = sorted(said, key=len, reverse=True)
    return tuple(_masked_message(message, names, values) for message in messages)


def masked_card(card: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    """Return a card with these fields hidden in the conversations among its evidence."""
    pieces = card.get("evidence")
    if not names or not isinstance(pieces, list) or not any(map(_is_transcript, pieces)):
        return card
    return {**card, "evidence": [_masked_piece(piece, names) if _is_transcript(piece) else piece for piece in pieces]}


def _is_transcript(piece: Json) -> bool:
    return isinstance(piece, dict) and piece.get("kind") == "transcript"


def _masked_piece(piece: dict[str, Json], names: Collection[str]) -> dict[str, Json]:
    try:
        messages = unpack_transcript(piece.get("value"))
    except ValueError:
        return {**piece, "value": masked(piece.get("value"), names)}
    return {**piece, "value": pack_transcript(masked_transcript(messages, names))}


def _masked_message(message: Message, names: Collection[str], values: Sequence[str]) -> Message:
    calls = tuple(
        call.model_copy(update={"arguments": _masked_value(call.arguments, names, values)}) for call in message.calls
    )
    return message.model_copy(update={"text": _masked_value(message.text, names, values), "calls": calls})


def _masked_value(value: Json, names: Collection[str], values: Sequence[str]) -> Json:
    """Return a value with secrets hidden by their names, and where a text repeats one."""
    found = parsed(value)
    if found is not value:
        hidden = masked(found, names)
        value = value if hidden == found else json.dumps(hidden, ensure_ascii=False)
    return _without_values(masked(value, names), values)


def _without_values(value: Json, values: Sequence[str]) -> Json:
    if isinstance(value, str):
        for one in values:
            value = value.replace(one, HIDDEN)
        return value
    if isinstance(value, dict):
        return {name: _without_values(part, values) for name, part in value.items()}
    return [_without_values(part, values) for part in value] if isinstance(value, list) else value


def parsed(value: Json) -> Json:
    """Return the object or list that a text is in JSON, or the value itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _secrets_in(value: Json, names: Collection[str]) -> set[str]:
    """Return the texts that are secrets in a value."""
    if isinstance(value, dict):
        own = (part for name, part in value.items() if name in names)
        below = (_secrets_in(part, names) for name, part in value.items() if name not in names)
        return {text for part in own for text in _texts(part)}.union(*below)
    return set[str]().union(*(_secrets_in(part, names) for part in value)) if isinstance(value, list) else set()


def _texts(value: Json) -> set[str]:
    if isinstance(value, str):
        return {value} if len(value) >= SHORTEST and value != HIDDEN else set()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set[str]().union(*map(_texts, parts))
