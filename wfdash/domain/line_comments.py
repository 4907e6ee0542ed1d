"""Comments on lines of a difference, as an answer carries them: ``{file, line, start_line, side, text}``. Pure.

They say why, not what: votes count together whatever their comments, and a question stays the same with or without the
field. ``side`` is ``new`` for lines of the new version, ``old`` for removed ones; ``start_line`` begins a range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from checkpoints.records import Json

FIELD = "line_comments"
SIDES = ("new", "old")
MOST = 200
"""Comments of one answer."""
MAX_TEXT = 10_000
MAX_FILE = 1000
MAX_LINE = 999_999_999
MOST_LISTED = 20
MAX_LISTED = 200
"""Comments that an event lists, and characters of each."""


def schema() -> dict[str, Json]:
    """Return the schema of an answer's line comments."""
    line: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": MAX_LINE}
    fields: dict[str, Json] = {
        "file": {"title": "File", "type": "string", "maxLength": MAX_FILE},
        "line": {"title": "Line", **line},
        "start_line": {"title": "First line", "anyOf": [line, {"type": "null"}], "default": None},
        "side": {"title": "Side", "type": "string", "enum": list(SIDES), "default": "new"},
        "text": {"title": "Comment", "type": "string", "minLength": 1, "maxLength": MAX_TEXT, "format": "textarea"},
    }
    required: list[Json] = ["file", "line", "text"]
    item: Json = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    return {"title": "Line comments", "type": "array", "items": item, "maxItems": MOST}


def field_for(card: Mapping[str, Any]) -> dict[str, Json]:
    """Return the field of an answer to this card, by its name: none where the card shows no difference of texts."""
    return {FIELD: schema()} if shows_lines(card) else {}


def shows_lines(card: Mapping[str, Any]) -> bool:
    """Return whether a card shows a patch or a difference of two texts, in its proposal or as evidence."""
    proposal, current, evidence = card.get("proposal"), card.get("current"), card.get("evidence")
    if isinstance(proposal, str) and (isinstance(current, str) or (current is None and is_patch(proposal))):
        return True
    return isinstance(evidence, list) and any(_is_text_diff(piece) for piece in evidence)


def is_patch(text: str) -> bool:
    """Return whether a text seems to be a unified diff."""
    return "@@ -" in text or text.startswith("diff --git ")


def comments_in(value: Any) -> tuple[dict[str, Any], ...]:
    """Return the line comments of an answer, those that are well formed."""
    found = value.get(FIELD) if isinstance(value, Mapping) else None
    return tuple(dict(one) for one in found if _is_comment(one)) if isinstance(found, list) else ()


def place_of(comment: Mapping[str, Any]) -> str:
    """Return where a comment is: ``cart.py:10-12``, with a minus before lines of the old version."""
    sign = "−" if comment.get("side") == "old" else ""
    start, line = comment.get("start_line"), comment["line"]
    lines = f"{sign}{start}-{sign}{line}" if isinstance(start, int) and start < line else f"{sign}{line}"
    return f"{comment['file']}:{lines}"


def listed(value: Any) -> list[Json]:
    """Return an answer's line comments as short texts, the first ones."""
    texts = [f"{place_of(one)} {' '.join(one['text'].split())}" for one in comments_in(value)[:MOST_LISTED]]
    return [text if len(text) <= MAX_LISTED else f"{text[: MAX_LISTED - 1]}…" for text in texts]


def with_those_of(value: Json, others: Iterable[Json]) -> Json:
    """Return an answer with the line comments of other votes after its own."""
    own = comments_in(value)
    more = [one for other in others for one in comments_in(other)]
    fresh = [one for place, one in enumerate(more) if one not in own and one not in more[:place]]
    return {**value, FIELD: [*own, *fresh][:MOST]} if fresh and isinstance(value, dict) else value


def _is_comment(one: Any) -> bool:
    if not isinstance(one, Mapping):
        return False
    line = one.get("line")
    return isinstance(one.get("file"), str) and isinstance(one.get("text"), str) and type(line) is int


def _is_text_diff(piece: Any) -> bool:
    value = piece.get("value") if isinstance(piece, Mapping) and piece.get("kind") == "diff" else None
    if isinstance(value, Mapping):
        return isinstance(value.get("before"), str) and isinstance(value.get("after"), str)
    return isinstance(value, str) and is_patch(value)
