"""The difference of two texts, line by line, with the changed words marked. Pure and bounded."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, TypeAlias

from wfdash.domain.labels import visible

MAX_CHANGES = 500
MAX_DRAWN = 150
"""Changes that a page shows."""
MAX_ALIGNED = 300
MAX_DEPTH = 60
SHORT_VALUE_CHARACTERS = 160
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
        return visible(self.where[:SHORT_VALUE_CHARACTERS]) + ("…" if len(self.where) > SHORT_VALUE_CHARACTERS else "")

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
        blocks = BoundedMatcher(old, new, MAX_CELLS).get_opcodes()
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
        return len(value) <= SHORT_VALUE_CHARACTERS and "\n" not in value
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


MAX_LINES = 2000
MAX_CELLS = 1_000_000
MAX_WIDTH = 2000
MAX_MARKED = 400
MAX_PAIRS = 500
"""Lines of one change whose words are compared."""
MAX_HIDDEN = 600
MAX_BESIDE = 400
LEAST_FOLD = 3
"""Fewer equal lines than this are not folded."""
MIN_LIKENESS = 0.45
MAX_WORD_STEPS = 1_500
"""Steps that the comparison of two lines by their words may take."""

Step: TypeAlias = tuple[str, int, int, int, int]
"""One of difflib's opcodes."""
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


class BoundedMatcher(SequenceMatcher[str]):
    """Compares two lists in at most about ``most`` steps: what is not looked at then counts as changed.

    Equal words make difflib's time grow with the third power of their number.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str], most: int) -> None:
        self.left, self.old, self.counts = most, old, Counter(new)
        super().__init__(None, old, new, autojunk=False)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Return the longest match, an empty one where too many steps were taken."""
        self.left -= sum(self.counts[one] for one in self.old[alo:ahi])
        return super().find_longest_match(alo, ahi, blo, bhi) if self.left >= 0 else Match(alo, blo, 0)


@dataclass(frozen=True, kw_only=True)
class TextRun:
    """A run of characters; ``marked`` where it differs from the opposite line, ``look``: the class of its colour."""

    text: str
    marked: bool = False
    look: str = ""


@dataclass(frozen=True, kw_only=True)
class DiffLine:
    """A line of a difference. ``kind``: same | added | removed | note | fold.

    A fold replaces ``count`` equal lines; ``hidden`` are those lines, unless they are too many to send.
    """

    kind: str
    old: int | None = None
    new: int | None = None
    pieces: tuple[TextRun, ...] = ()
    count: int = 0
    hidden: tuple[DiffLine, ...] = ()
    spot: str = ""
    """Where a comment on it goes; empty where none is taken."""
    notes: tuple[Any, ...] = ()
    """Comments on it."""

    @property
    def noted(self) -> bool:
        """Return whether there is a comment on one of the lines that it hides."""
        return any(line.notes for line in self.hidden)

    @property
    def sign(self) -> str:
        """Return the line's prefix in a patch."""
        return {"added": "+", "removed": "−"}.get(self.kind, " ")


@dataclass(frozen=True, kw_only=True)
class LinePair:
    """A row of the side-by-side view; a side is None where the other has no counterpart."""

    left: DiffLine | None
    right: DiffLine | None


@dataclass(frozen=True, kw_only=True)
class TextDiff:
    """``lines`` in order; ``exact`` is False when the texts were too large to be compared line by line."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    exact: bool = True
    mark: str = ""
    """Differs whenever the texts do."""
    key: str = ""
    """By what it is known where its lines take comments; empty where they take none."""

    @property
    def same(self) -> bool:
        """Return whether there is no difference."""
        return not self.added and not self.removed

    @property
    def long(self) -> bool:
        """Return whether it is too long to be rendered side by side as well."""
        return len(self.lines) > MAX_BESIDE

    @property
    def pairs(self) -> tuple[LinePair, ...]:
        """Return the lines side by side."""
        return tuple(pair_up(self.lines))


def diff_text(before: str, after: str, context: int = 3) -> TextDiff:
    """Return the difference of two texts, with ``context`` equal lines around each change."""
    old, new = split_lines(before), split_lines(after)
    blocks, exact = _blocks(old, new)
    lines: list[DiffLine] = []
    for tag, i1, i2, j1, j2 in blocks:
        if tag == "equal":
            lines += [
                DiffLine(kind="same", old=i + 1, new=i - i1 + j1 + 1, pieces=whole(old[i])) for i in range(i1, i2)
            ]
        else:
            lines += changed_lines(old[i1:i2], new[j1:j2], i1 + 1, j1 + 1)
    added, removed = (sum(line.kind == kind for line in lines) for kind in ("added", "removed"))
    if not added and not removed and before != after:
        lines.append(DiffLine(kind="note", pieces=whole("Only line endings differ")))
    mark = blake2b(f"{before}\0{after}".encode(errors="surrogatepass"), digest_size=6).hexdigest()
    return TextDiff(lines=tuple(bounded(fold(lines, context))), added=added, removed=removed, exact=exact, mark=mark)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; unlike ``str.splitlines`` only ``\\n`` ends one."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def whole(text: str) -> tuple[TextRun, ...]:
    """Return a line as one piece, cut where no one reads on."""
    return (TextRun(text=visible(text[:MAX_WIDTH]) + ("…" if len(text) > MAX_WIDTH else "")),)


def changed_lines(old: Sequence[str], new: Sequence[str], old_start: int, new_start: int) -> list[DiffLine]:
    """Return removed lines, then added ones; opposite lines have their differences marked."""
    marks = [mark_words(left, right) for left, right in islice(zip(old, new, strict=False), MAX_PAIRS)]
    gone, come = (
        [one[side] for one in marks] + list(map(whole, now[len(marks) :])) for side, now in enumerate((old, new))
    )
    removed = [DiffLine(kind="removed", old=number, pieces=line) for number, line in enumerate(gone, old_start)]
    return removed + [DiffLine(kind="added", new=number, pieces=line) for number, line in enumerate(come, new_start)]


def mark_words(left: str, right: str) -> tuple[tuple[TextRun, ...], tuple[TextRun, ...]]:
    """Return both lines with the words that differ marked; unmarked when they have little in common."""
    if max(len(left), len(right)) > MAX_MARKED:
        return whole(left), whole(right)
    old, new = _WORDS.findall(left), _WORDS.findall(right)
    matcher = BoundedMatcher(old, new, MAX_WORD_STEPS)
    # Blanks do not count; between two changes they are changed, too, so that a phrase is one mark.
    count = sum(not word.isspace() for word in (*old, *new))
    blocks = matcher.get_matching_blocks()
    same = sum(not word.isspace() for found in blocks for word in old[found.a : found.a + found.size])
    if 2 * same < MIN_LIKENESS * count:
        return whole(left), whole(right)
    steps = matcher.get_opcodes()
    for place, (tag, i1, i2, j1, j2) in enumerate(steps[1:-1], 1):
        if tag == "equal" and "".join(old[i1:i2]).isspace():
            steps[place] = ("replace", i1, i2, j1, j2)
    return (
        _pieces((tag, "".join(old[i1:i2])) for tag, i1, i2, _, _ in steps),
        _pieces((tag, "".join(new[j1:j2])) for tag, _, _, j1, j2 in steps),
    )


def _pieces(parts: Iterable[tuple[str, str]]) -> tuple[TextRun, ...]:
    """Return the parts of a line, neighbours of one kind joined."""
    groups = groupby((part for part in parts if part[1]), key=lambda part: part[0] != "equal")
    return tuple(TextRun(text=visible("".join(text for _, text in group)), marked=marked) for marked, group in groups)


def fold(lines: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Yield the lines, with long runs of equal ones replaced by a fold that holds them."""
    near = {n for i, line in enumerate(lines) if line.kind != "same" for n in range(i - context, i + context + 1)}
    hidden: list[DiffLine] = []
    left = MAX_HIDDEN
    for index, line in enumerate([*lines, None]):
        if line is not None and line.kind == "same" and index not in near:
            hidden.append(line)
            continue
        if len(hidden) < LEAST_FOLD:
            yield from hidden
        else:
            kept = tuple(hidden) if len(hidden) <= left else ()
            left -= len(kept)
            yield DiffLine(kind="fold", count=len(hidden), hidden=kept)
        hidden = []
        if line is not None:
            yield line


def bounded(lines: Iterator[DiffLine]) -> Iterator[DiffLine]:
    """Yield at most ``MAX_LINES`` lines and then a fold for the rest."""
    rest = 0
    for index, line in enumerate(lines):
        if index < MAX_LINES:
            yield line
        else:
            rest += line.count or 1
    if rest:
        yield DiffLine(kind="fold", count=rest)


def pair_up(lines: Sequence[DiffLine]) -> Iterator[LinePair]:
    """Yield rows of two columns: removed lines are left of the added lines that follow them."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in lines:
        if line.kind == "removed" and not added:
            removed.append(line)
        elif line.kind == "added":
            added.append(line)
        else:
            yield from _columns(removed, added)
            removed, added = ([line], []) if line.kind == "removed" else ([], [])
            if line.kind != "removed":
                yield LinePair(left=line, right=line)
    yield from _columns(removed, added)


def _columns(removed: Sequence[DiffLine], added: Sequence[DiffLine]) -> Iterator[LinePair]:
    for index in range(max(len(removed), len(added))):
        left = removed[index] if index < len(removed) else None
        yield LinePair(left=left, right=added[index] if index < len(added) else None)


def _blocks(old: list[str], new: list[str]) -> tuple[list[Step], bool]:
    """Return difflib's opcodes; for huge texts, only equal lines at both ends are recognised."""
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    tail = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    end = next((i for i, (a, b) in enumerate(tail) if a != b), most)
    i2, j2 = len(old) - end, len(new) - end
    blocks = [("equal", 0, start, 0, start)] if start else []
    exact = (i2 - start) * (j2 - start) <= MAX_CELLS
    if exact:
        matcher = BoundedMatcher(old[start:i2], new[start:j2], MAX_CELLS)
        blocks += [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in matcher.get_opcodes()]
        exact = matcher.left >= 0
    else:
        blocks.append(("replace", start, i2, start, j2))
    return blocks + ([("equal", i2, len(old), j2, len(new))] if end else []), exact
