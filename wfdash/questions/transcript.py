"""The transcript of a conversation with a model: who said what, and which tools were called. Pure."""

from __future__ import annotations

import json
import re
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

DEEPEST = 60
"""Levels of a text in JSON that is read as a value, as many as pages show of any other."""
BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""A string, which ends with the text if it has no other end, or a bracket."""
OPENING, CLOSING = ("{", "["), ("}", "]")
SHORTEST = 4
"""Characters from which on a hidden text is also looked for in what is said: a shorter one is found by chance."""


def masked_transcript(messages: Sequence[Message], names: Collection[str], beside: Json = None) -> tuple[Message, ...]:
    """Return the messages with these fields hidden: in arguments, in texts that are JSON, and wherever else their
    values are said.

    ``beside``: what is shown with the conversation; the secrets in it are hidden there, too.
    """
    if not names:
        return tuple(messages)
    found = Spoken()
    found.look(beside, names)
    for message in messages:
        for value in (*(call.arguments for call in message.calls), message.text):
            found.look(parsed(value), names)
    return tuple(_masked_message(message, names, found) for message in messages)


class Spoken:
    """The secrets that are said somewhere, found again in any text in time that does not depend on their number."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._lengths: dict[str, list[int]] = {}
        """The first characters -> the lengths of the values that begin so, longest first."""

    def look(self, value: Json, names: Collection[str]) -> None:
        """Add the secrets in a value: what fields of these names hold."""
        pending = [(value, False)]
        while pending:
            one, secret = pending.pop()
            if isinstance(one, dict):
                pending += [(part, secret or name in names) for name, part in one.items()]
            elif isinstance(one, list):
                pending += [(part, secret) for part in one]
            elif secret and isinstance(one, (str, int, float)):
                self._add(str(one))

    def _add(self, text: str) -> None:
        for one in {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}:
            if len(one) >= SHORTEST and text != HIDDEN and one not in self._values:
                self._values.add(one)
                lengths = self._lengths.setdefault(one[:SHORTEST], [])
                if len(one) not in lengths:
                    lengths.append(len(one))
                    lengths.sort(reverse=True)

    def hide(self, text: str) -> str:
        """Return a text without them."""
        if not self._values:
            return text
        parts, done, place = list[str](), 0, 0
        while place <= len(text) - SHORTEST:
            lengths = self._lengths.get(text[place : place + SHORTEST], ())
            length = next((one for one in lengths if text[place : place + one] in self._values), 0)
            if length:
                parts += [text[done:place], HIDDEN]
                done = place + length
            place += length or 1
        return "".join([*parts, text[done:]])


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


def _masked_message(message: Message, names: Collection[str], found: Spoken) -> Message:
    calls = tuple(
        call.model_copy(update={"arguments": _masked_value(call.arguments, names, found)}) for call in message.calls
    )
    return message.model_copy(update={"text": _masked_value(message.text, names, found), "calls": calls})


def _masked_value(value: Json, names: Collection[str], found: Spoken) -> Json:
    """Return a value with secrets hidden by their names, and where a text repeats one."""
    held = parsed(value)
    if held is not value:
        hidden = masked(held, names)
        value = value if hidden == held else json.dumps(hidden, ensure_ascii=False)
    elif isinstance(value, str) and is_too_deep(value):
        # No one can say which of its values are secrets.
        return HIDDEN
    return _without_values(masked(value, names), found)


def _without_values(value: Json, found: Spoken) -> Json:
    if isinstance(value, str):
        return found.hide(value)
    if isinstance(value, dict):
        return {name: _without_values(part, found) for name, part in value.items()}
    return [_without_values(part, found) for part in value] if isinstance(value, list) else value


def parsed(value: Json) -> Json:
    """Return the object or list that a text is in JSON, or the value itself; the text of one that is too deep."""
    if not isinstance(value, str) or value.lstrip()[:1] not in OPENING or is_too_deep(value):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def is_too_deep(text: str) -> bool:
    """Return whether a text that may be JSON is nested too deep to be read. Brackets in its strings do not count."""
    if text.lstrip()[:1] not in OPENING or text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = 0
    for one in BRACKETS.finditer(text):
        depth += (one[0] in OPENING) - (one[0] in CLOSING)
        if depth > DEEPEST:
            return True
    return False
