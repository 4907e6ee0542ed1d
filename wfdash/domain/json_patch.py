"""JSON Patch (RFC 6902): make, apply and copy the difference of two JSON values. Pure.

``apply(make(before, after), before) == after`` for any two JSON values; a value that hardly changes has a short patch.
Pointers are those of RFC 6901: ``~`` is written ``~0`` and ``/`` is written ``~1``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, TypeAlias

from checkpoints.records import Json

# Comments on lines of a difference, as an answer carries them: ``{file, line, start_line, side, text}``. Pure.

FIELD = "line_comments"
SIDES = ("new", "old")
MAX_COMMENTS = 200
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
    return {"title": "Line comments", "type": "array", "items": item, "maxItems": MAX_COMMENTS}


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
    return {**value, FIELD: [*own, *fresh][:MAX_COMMENTS]} if fresh and isinstance(value, dict) else value


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


Operation: TypeAlias = dict[str, Any]
"""``op``, ``path`` and, by the kind, ``value`` or ``from``."""

MAX_ALIGNED_ITEMS = 300
"""Lists whose differing stretch is longer are compared index by index."""
MAX_PATCH_DEPTH = 100
"""Anything nested deeper is replaced as a whole."""


class PatchFailed(ValueError):
    """The patch does not apply to the value: a path is missing, or a ``test`` failed. The value is unchanged."""


def make(before: Json, after: Json) -> list[Operation]:
    """Return the operations that turn ``before`` into ``after``: empty if they are equal; true is not 1."""
    return _compare(before, after, "", 0)


def apply(patch: Sequence[Operation], value: Json) -> Json:
    """Return the value after all operations; ``PatchFailed`` if one does not apply. ``value`` is not changed."""
    result = json.loads(json.dumps(value))
    for operation in patch:
        try:
            result = APPLY[operation["op"]](result, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PatchFailed(f"{operation.get('op')} {operation.get('path')!r}: {error}") from error
    return result


def pointer(path: Sequence[str | int]) -> str:
    """Return a path as an RFC 6901 pointer."""
    return "".join(f"/{escape(str(part))}" for part in path)


def escape(part: str) -> str:
    """Return one part of a pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def parts_of(text: str) -> list[str]:
    """Return the parts of a pointer; ``ValueError`` if it is not valid."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is not a JSON pointer: it must be empty or start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _compare(before: Json, after: Json, path: str, depth: int) -> list[Operation]:
    if same(before, after):
        return []
    whole: Operation = {"op": "replace", "path": path, "value": after}
    if depth >= MAX_PATCH_DEPTH or type(before) is not type(after) or not isinstance(before, (dict, list)):
        return [whole]
    parts: Callable[[Any, Any, str, int], Iterator[Operation]] = _objects if isinstance(before, dict) else _lists
    found = list(parts(before, after, path, depth))
    return found if _size(found) <= _size([whole]) else [whole]


def _objects(before: dict[str, Json], after: dict[str, Json], path: str, depth: int) -> Iterator[Operation]:
    for key in before:
        here = f"{path}/{escape(key)}"
        if key in after:
            yield from _compare(before[key], after[key], here, depth + 1)
        else:
            yield {"op": "remove", "path": here}
    for key in after:
        if key not in before:
            yield {"op": "add", "path": f"{path}/{escape(key)}", "value": after[key]}


def _lists(before: list[Json], after: list[Json], path: str, depth: int) -> Iterator[Operation]:
    """Yield the operations of a list from left to right: all items before a position are final."""
    for left, right, start in _stretches(before, after):
        both = min(len(left), len(right))
        for index in range(both):
            yield from _compare(left[index], right[index], f"{path}/{start + index}", depth + 1)
        for _ in left[both:]:
            yield {"op": "remove", "path": f"{path}/{start + both}"}
        for index in range(both, len(right)):
            yield {"op": "add", "path": f"{path}/{start + index}", "value": right[index]}


def _stretches(before: list[Json], after: list[Json]) -> Iterator[tuple[list[Json], list[Json], int]]:
    """Yield the stretches that differ, and where each starts in ``after``."""
    head = next((i for i, pair in enumerate(zip(before, after, strict=False)) if not same(*pair)), None)
    head = min(len(before), len(after)) if head is None else head
    most = min(len(before), len(after)) - head
    tail = next((i for i in range(most) if not same(before[-1 - i], after[-1 - i])), most)
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(left), len(right)) > MAX_ALIGNED_ITEMS:
        yield left, right, head
        return
    old, new = [_sorted_json(item) for item in left], [_sorted_json(item) for item in right]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield left[i1:i2], right[j1:j2], head + j1


def same(before: Json, after: Json) -> bool:
    """Say whether two JSON values are equal; true is not 1, and 1 is not 1.0."""
    if before is after:
        return True
    if type(before) is not type(after):
        return False
    return _sorted_json(before) == _sorted_json(after) if isinstance(before, (dict, list)) else bool(before == after)


def _sorted_json(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _size(operations: list[Operation]) -> int:
    return len(json.dumps(operations))


def _apply_add(value: Json, operation: Operation) -> Json:
    return _set_at(value, parts_of(operation["path"]), operation["value"])


def _set_at(value: Json, path: list[str], new: Json) -> Json:
    if not path:
        return new
    place, key = _reach(value, path[:-1]), path[-1]
    if isinstance(place, list):
        place.insert(len(place) if key == "-" else _index(key, len(place)), new)
    else:
        place[key] = new
    return value


def _remove(value: Json, operation: Operation) -> Json:
    return _remove_at(value, parts_of(operation["path"]))


def _remove_at(value: Json, path: list[str]) -> Json:
    if not path:
        return None
    place, key = _reach(value, path[:-1]), path[-1]
    del place[_index(key, len(place) - 1) if isinstance(place, list) else key]
    return value


def _replace(value: Json, operation: Operation) -> Json:
    path = parts_of(operation["path"])
    if not path:
        return operation["value"]
    place, key = _reach(value, path[:-1]), path[-1]
    if isinstance(place, list):
        place[_index(key, len(place) - 1)] = operation["value"]
    else:
        place[key], _ = operation["value"], place[key]
    return value


def _move(value: Json, operation: Operation) -> Json:
    moved, source = _reach(value, parts_of(operation["from"])), operation["from"]
    if operation["path"].startswith(f"{source}/"):
        raise ValueError("cannot move a value into itself")
    return _set_at(_remove_at(value, parts_of(source)), parts_of(operation["path"]), moved)


def _copy(value: Json, operation: Operation) -> Json:
    copied = json.loads(json.dumps(_reach(value, parts_of(operation["from"]))))
    return _set_at(value, parts_of(operation["path"]), copied)


def _test(value: Json, operation: Operation) -> Json:
    if not same(_reach(value, parts_of(operation["path"])), operation["value"]):
        raise ValueError("the value there is different")
    return value


def _reach(value: Json, path: list[str]) -> Json:
    for part in path:
        value = value[_index(part, len(value) - 1)] if isinstance(value, list) else value[part]
    return value


def _index(part: str, last: int) -> int:
    if not (part.isascii() and part.isdigit()) or (part != "0" and part.startswith("0")):
        raise ValueError(f"{part!r} is not a list index")
    if int(part) > last:
        raise IndexError(f"there is no {part}")
    return int(part)


APPLY: dict[str, Callable[[Json, Operation], Json]] = {
    "add": _apply_add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
