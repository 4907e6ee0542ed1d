"""The difference of two JSON values, as changes with paths. Pure and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice
from typing import Any

from wfdash.domain.invisible import visible
from wfdash.pages.ui.diff.lines import TextRun, mark_words, whole

MAX_CHANGES = 500
MAX_DRAWN = 150
"""Changes that a page shows."""
MAX_ALIGNED = 300
MAX_DEPTH = 60
SHORT = 160
"""Characters of a value that fits into a row."""
NOTHING = object()


@dataclass(frozen=True, kw_only=True)
class ValueChange:
    """``kind``: added | removed | changed. ``before`` or ``after`` is None where there is none."""

    kind: str
    path: tuple[str | int, ...]
    before: Any = None
    after: Any = None

    @property
    def where(self) -> str:
        """Return the path as people write it: ``claims[2].amount``."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path)
        return text.removeprefix(".") or "value"

    @property
    def path_shown(self) -> str:
        """Return the path with nothing invisible in it, cut to a readable length."""
        return visible(self.where[:SHORT]) + ("…" if len(self.where) > SHORT else "")

    @property
    def is_patch(self) -> bool:
        """Return whether a unified diff was added, which is better shown as one."""
        return not self.before and isinstance(self.after, str) and "\n@@ -" in self.after

    @property
    def is_text(self) -> bool:
        """Return whether both sides are texts of several lines, better shown as a text difference."""
        texts = isinstance(self.before, str) and isinstance(self.after, str)
        return texts and not self.is_short

    @property
    def is_short(self) -> bool:
        """Return whether both sides fit into a row: no texts of several lines, nothing that has parts."""
        return _is_short(self.before) and _is_short(self.after)

    @property
    def sides(self) -> tuple[tuple[TextRun, ...], tuple[TextRun, ...]]:
        """Return both sides of a short change as text, with the words that differ marked; empty where there is none."""
        before, after = _word(self.before), _word(self.after)
        if before == after and self.kind == "changed":
            before, after = _canonical(self.before), _canonical(self.after)
        if self.kind != "changed":
            return ((), whole(after)) if self.kind == "added" else (whole(before), ())
        both = isinstance(self.before, str) and isinstance(self.after, str)
        return mark_words(before, after) if both else (whole(before), whole(after))


def grouped(changes: Iterable[ValueChange]) -> tuple[tuple[bool, tuple[ValueChange, ...]], ...]:
    """Return the changes in order, adjacent short ones grouped into one table."""
    return tuple((short, tuple(group)) for short, group in groupby(changes, key=lambda change: change.is_short))


def diff_values(before: Any, after: Any) -> tuple[ValueChange, ...]:
    """Return what changed, at most five hundred changes, in the order of the keys of ``before``."""
    return tuple(islice(_compare(before, after, (), 0), MAX_CHANGES))


def _compare(before: Any, after: Any, path: tuple[str | int, ...], depth: int) -> Iterator[ValueChange]:
    if _same(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict) and depth < MAX_DEPTH:
        yield from _objects(before, after, path, depth)
    elif isinstance(before, list) and isinstance(after, list) and depth < MAX_DEPTH:
        yield from _lists(before, after, path, depth)
    else:
        yield ValueChange(kind="changed", path=path, before=before, after=after)


def _objects(
    before: dict[str, Any], after: dict[str, Any], path: tuple[str | int, ...], depth: int
) -> Iterator[ValueChange]:
    for key in [*before, *(key for key in after if key not in before)]:
        yield from _entry(before.get(key, NOTHING), after.get(key, NOTHING), (*path, key), depth)


def _entry(before: Any, after: Any, path: tuple[str | int, ...], depth: int) -> Iterator[ValueChange]:
    if before is NOTHING:
        yield ValueChange(kind="added", path=path, after=after)
    elif after is NOTHING:
        yield ValueChange(kind="removed", path=path, before=before)
    else:
        yield from _compare(before, after, path, depth + 1)


def _lists(before: list[Any], after: list[Any], path: tuple[str | int, ...], depth: int) -> Iterator[ValueChange]:
    """Compare lists: aligned by their equal items when they are short, else by position."""
    if max(len(before), len(after)) > MAX_ALIGNED:
        blocks: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(before), 0, len(after))]
    else:
        old, new = [_canonical(item) for item in before], [_canonical(item) for item in after]
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, i1, i2, j1, j2 in blocks:
        if tag != "equal":
            yield from _stretch(before[i1:i2], after[j1:j2], (i1, j1), path, depth)


def _stretch(
    before: list[Any], after: list[Any], starts: tuple[int, int], path: tuple[str | int, ...], depth: int
) -> Iterator[ValueChange]:
    for index in range(max(len(before), len(after))):
        left = before[index] if index < len(before) else NOTHING
        right = after[index] if index < len(after) else NOTHING
        place = starts[0] + index if right is NOTHING else starts[1] + index
        yield from _entry(left, right, (*path, place), depth)


def _same(before: Any, after: Any) -> bool:
    """Say whether two JSON values are equal; true is not 1."""
    return type(before) is type(after) and (before is after or _canonical(before) == _canonical(after))


def _canonical(value: Any) -> str:
    """Return a text that equal values share; what cannot be compared is only equal to itself."""
    try:
        return json.dumps(value, sort_keys=True, default=repr, ensure_ascii=False)
    except Exception:
        return f"{_word(value)} {id(value)}"


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= SHORT and "\n" not in value
    return value is None or isinstance(value, (bool, int, float)) or (isinstance(value, (list, dict)) and not value)


def _word(value: Any) -> str:
    """Return a short value as people read it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "yes", False: "no"}[value]
    if isinstance(value, str):
        return value or "(empty text)"
    try:
        return repr(value)
    except Exception as error:
        return f"(cannot be shown: {type(error).__name__})"
