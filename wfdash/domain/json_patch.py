"""JSON Patch (RFC 6902): the difference of two JSON values. Pure.

The patch of any two values leads from one to the other; of a value that hardly changes it is short.
Pointers are those of RFC 6901: ``~`` is written ``~0`` and ``/`` is written ``~1``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Any, TypeAlias

from checkpoints.records import Json, JsonObject

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


def schema() -> JsonObject:
    """Return the schema of an answer's line comments."""
    line: JsonObject = {"type": "integer", "minimum": 1, "maximum": MAX_LINE}
    fields: JsonObject = {
        "file": {"title": "File", "type": "string", "maxLength": MAX_FILE},
        "line": {"title": "Line", **line},
        "start_line": {"title": "First line", "anyOf": [line, {"type": "null"}], "default": None},
        "side": {"title": "Side", "type": "string", "enum": list(SIDES), "default": "new"},
        "text": {"title": "Comment", "type": "string", "minLength": 1, "maxLength": MAX_TEXT, "format": "textarea"},
    }
    required: list[Json] = ["file", "line", "text"]
    item: Json = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    return {"title": "Line comments", "type": "array", "items": item, "maxItems": MAX_COMMENTS}


def field_for(card: Mapping[str, Any]) -> JsonObject:
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


def comments_in(value: Any) -> tuple[JsonObject, ...]:
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


Operation: TypeAlias = JsonObject
"""``op``, ``path`` and, by the kind, ``value`` or ``from``."""

OPERATION_CHARACTERS = 40
"""About how many an operation has besides path and value."""
MAX_PATCH_DEPTH = 100
"""Anything nested deeper is replaced as a whole."""
MAX_STEPS = 1_000_000
"""Steps that a ``Differ`` takes to align lists; also the most that the lengths of two lists multiply to."""
UNLIKE = frozenset({str, int, type(None)})
"""Types of values that equal no value of another type."""

Step: TypeAlias = tuple[str, int, int, int, int]
"""One of difflib's opcodes."""


def make(before: Json, after: Json, path: str = "", differ: Differ | None = None) -> list[Operation]:
    """Return the operations that turn ``before``, at ``path``, into ``after``; none if they are equal.

    ``differ``: what compares other values, or these, as well.
    """
    found, _ = _compare(differ or Differ(), before, after, path, 0)
    if not found or found[0]["path"] == path:
        return found
    whole: list[Operation] = [{"op": "replace", "path": path, "value": after}]
    return found if len(json.dumps(found)) <= len(json.dumps(whole)) else whole


def escape(part: str) -> str:
    """Return one part of a pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def parts_of(text: str) -> list[str]:
    """Return the parts of a pointer; ``ValueError`` if it is not valid."""
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is not a JSON pointer: it must be empty or start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


class BoundedMatcher(SequenceMatcher[Any]):
    """Compares two lists in at most about ``most`` steps: what is not looked at then counts as changed.

    Equal items make difflib's time grow with the third power of their number.
    """

    def __init__(self, old: Sequence[Any], new: Sequence[Any], most: int) -> None:
        self.left, self.old, self.counts = most, old, Counter(new)
        super().__init__(None, old, new, autojunk=False)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest match, an empty one where too many steps were taken."""
        self.left -= sum(self.counts[one] for one in self.old[alo:ahi])
        return super().find_longest_match(alo, ahi, blo, bhi) if self.left >= 0 else Match(alo, blo, 0)


@dataclass(eq=False, slots=True)
class Compound:
    """What equal values with parts share: the keys of the parts, and about how many characters it has as JSON."""

    parts: Any
    size: int


class Differ:
    """Compares values, each of which it looks at once. ``left``: steps that it may still take to align lists."""

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self._known: dict[Any, Compound] = {}
        self._seen: dict[int, Compound] = {}
        self._kept: list[Any] = []

    def key(self, value: Any, depth: int = 0) -> Any:
        """Return what equal values alone share; true is not 1, and 1 is not 1.0."""
        kind = type(value)
        if kind in UNLIKE:
            return value
        if kind in (bool, float):
            return kind, value
        if seen := self._seen.get(id(value)):
            return seen
        size = 2
        if kind in (dict, list) and depth <= MAX_PATCH_DEPTH:
            keys = []
            for part in value.values() if kind is dict else value:
                key = part if type(part) in UNLIKE else self.key(part, depth + 1)
                keys.append(key)
                size += len(key) + 4 if type(key) is str else key.size if type(key) is Compound else 8
            parts: Any = frozenset(zip(value, keys, strict=True)) if kind is dict else tuple(keys)
            size += 10 * len(keys) if kind is dict else 0
        else:
            parts = kind, canonical(value)
            size = len(parts[1])
        self._kept.append(value)  # No other value gets its id.
        found = self._seen[id(value)] = self._known.setdefault(parts, Compound(parts, size))
        return found

    def size(self, value: Any) -> int:
        """Return about how many characters a value has as JSON."""
        key = self.key(value)
        return key.size if isinstance(key, Compound) else len(key) + 4 if isinstance(key, str) else 8

    def align(self, old: Sequence[Any], new: Sequence[Any]) -> tuple[list[Step], bool]:
        """Return difflib's opcodes, and False where only equal items at both ends were recognised."""
        start = shared(old, new)
        end = shared(old[start:][::-1], new[start:][::-1])
        i2, j2 = len(old) - end, len(new) - end
        steps: list[Step] = [("equal", 0, start, 0, start)] if start else []
        cells = (i2 - start) * (j2 - start)
        if 1 < cells <= MAX_STEPS:
            matcher = BoundedMatcher(old[start:i2], new[start:j2], self.left)
            steps += [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in matcher.get_opcodes()]
            self.left = matcher.left
        elif max(i2, j2) > start:
            steps.append(("replace", start, i2, start, j2))
        steps += [("equal", i2, len(old), j2, len(new))] if end else []
        return steps, cells <= 1 or (cells <= MAX_STEPS and self.left >= 0)

    def changed(self, before: list[Any], after: list[Any]) -> list[Step]:
        """Return the stretches of two lists that differ."""
        steps, _ = self.align(*(self.key(one).parts for one in (before, after)))
        return [step for step in steps if step[0] != "equal"]


def shared(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return with how many items both lists begin."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))


def same(before: Json, after: Json) -> bool:
    """Say whether two JSON values are equal; true is not 1, and 1 is not 1.0."""
    differ = Differ()
    return bool(differ.key(before) == differ.key(after))


def canonical(value: Any) -> str:
    """Return a text that equal values share; what cannot be compared is only equal to itself."""
    try:
        return json.dumps(value, sort_keys=True, default=repr, ensure_ascii=False)
    except Exception:
        return f"{type(value).__name__} {id(value)}"


Found: TypeAlias = tuple[list[Operation], int]
"""Operations, and about how many characters they have."""


def _compare(differ: Differ, before: Json, after: Json, path: str, depth: int) -> Found:
    if differ.key(before) == differ.key(after):
        return [], 0
    whole = _change(differ, "replace", path, after)
    if depth >= MAX_PATCH_DEPTH or type(before) is not type(after) or not isinstance(before, (dict, list)):
        return whole
    parts: Callable[[Differ, Any, Any, str, int], Iterator[Found]] = _objects if isinstance(before, dict) else _lists
    found, size = list[Operation](), 0
    for operations, characters in parts(differ, before, after, path, depth + 1):
        found += operations
        size += characters
        if size > whole[1]:
            return whole
    return found, size


def _change(differ: Differ, name: str, path: str, *values: Json) -> Found:
    size = OPERATION_CHARACTERS + len(path) + sum(map(differ.size, values))
    return [{"op": name, "path": path, **({"value": values[0]} if values else {})}], size


def _objects(differ: Differ, before: JsonObject, after: JsonObject, path: str, depth: int) -> Iterator[Found]:
    for key in before | after:
        here = f"{path}/{escape(key)}"
        if key not in after:
            yield _change(differ, "remove", here)
        elif key in before:
            yield _compare(differ, before[key], after[key], here, depth)
        else:
            yield _change(differ, "add", here, after[key])


def _lists(differ: Differ, before: list[Json], after: list[Json], path: str, depth: int) -> Iterator[Found]:
    """Yield the operations of a list from left to right: all items before a position are final."""
    for _, i1, i2, j1, j2 in differ.changed(before, after):
        both = min(i2 - i1, j2 - j1)
        for place in range(both):
            yield _compare(differ, before[i1 + place], after[j1 + place], f"{path}/{j1 + place}", depth)
        for _ in range(i1 + both, i2):
            yield _change(differ, "remove", f"{path}/{j1 + both}")
        for index in range(j1 + both, j2):
            yield _change(differ, "add", f"{path}/{index}", after[index])
