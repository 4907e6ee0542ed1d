"""The difference of two texts, line by line, with the changed words marked. Pure and bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby, islice, zip_longest
from typing import Any

from checkpoints.records import frozen
from wfdash.domain.json_patch import BoundedMatcher, Differ, Step, canonical
from wfdash.domain.labels import visible
from wfdash.web.pages.ui.times import number

MAX_CHANGES = 500
MAX_DRAWN = 150
"""Changes of two values that a page shows."""
MAX_DEPTH = 60
MOST_EFFORT = 120_000
"""Microseconds that the changes on a page may take to be drawn."""
MAX_SIZE = 60_000
"""Characters of two values beyond which drawing them takes no longer."""
SHORT_VALUE_CHARACTERS = 160
"""Characters of a value that fits into a row."""
NOTHING = object()


@frozen
class ValueChange:
    """``kind``: added | removed | changed. ``before`` or ``after`` is None where there is none."""

    kind: str
    path: tuple[str | int, ...]
    before: Any = None
    after: Any = None
    drawn: bool = False
    """Whether the page has room for it."""
    diff: TextDiff | None = None
    """Of two texts of several lines."""

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
    def is_short(self) -> bool:
        """Return whether both sides fit into a row: no texts of several lines, nothing that has parts."""
        return _is_short(self.before) and _is_short(self.after)

    @property
    def sides(self) -> tuple[tuple[TextRun, ...], tuple[TextRun, ...]]:
        """Return both sides of a short change as text, with the words that differ marked; empty where there is none."""
        before, after = _word(self.before), _word(self.after)
        if before == after and self.kind == "changed":
            before, after = canonical(self.before), canonical(self.after)
        if self.kind != "changed":
            return ((), whole(after)) if self.kind == "added" else (whole(before), ())
        both = isinstance(self.before, str) and isinstance(self.after, str)
        return mark_words(before, after) if both else (whole(before), whole(after))


def grouped(changes: Iterable[ValueChange]) -> tuple[tuple[bool, tuple[ValueChange, ...]], ...]:
    """Return the changes that are drawn in order, adjacent short ones grouped into one table."""
    drawn = (change for change in changes if change.drawn)
    return tuple((short, tuple(group)) for short, group in groupby(drawn, key=lambda change: change.is_short))


class Sheet(Differ):
    """What the differences of one page may take: ``effort`` to draw changes, ``hidden`` lines in folds, ``marked``
    characters of lines whose words are compared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.effort = MOST_EFFORT
        self.hidden = MAX_HIDDEN
        self.marked = MAX_MARKED_IN_ALL

    def draw(self, change: ValueChange) -> ValueChange:
        """Return a change that is drawn if enough effort is left."""
        if self.effort < 0:
            return change
        size, diff = self.size(change.before) + self.size(change.after), None
        if change.is_patch:
            self.effort -= 200 * min(change.after.count("\n"), MAX_LINES)
        elif isinstance(change.before, str) and isinstance(change.after, str) and not change.is_short:
            diff = diff_text(change.before, change.after, sheet=self)
            self.effort -= 500 + 40 * len(diff.lines) + size // 40
        else:
            self.effort -= 100 + 3 * min(size, MAX_SIZE) // 2
        return replace(change, drawn=True, diff=diff)


def diff_values(before: Any, after: Any, sheet: Sheet | None = None) -> tuple[ValueChange, ...]:
    """Return what changed, at most five hundred changes, in the order of the keys of ``before``.

    ``sheet``: of the page, if it shows other changes, too.
    """
    sheet = sheet or Sheet()
    found = enumerate(islice(_compare(sheet, before, after, ()), MAX_CHANGES))
    return tuple(sheet.draw(change) if place < MAX_DRAWN else change for place, change in found)


def _compare(sheet: Sheet, before: Any, after: Any, path: tuple[str | int, ...]) -> Iterator[ValueChange]:
    if before is NOTHING:
        yield ValueChange(kind="added", path=path, after=after)
    elif after is NOTHING:
        yield ValueChange(kind="removed", path=path, before=before)
    elif sheet.key(before) == sheet.key(after):
        return
    elif type(before) is not type(after) or type(before) not in (dict, list) or len(path) >= MAX_DEPTH:
        yield ValueChange(kind="changed", path=path, before=before, after=after)
    elif isinstance(before, dict):
        for key in before | after:
            yield from _compare(sheet, before.get(key, NOTHING), after.get(key, NOTHING), (*path, key))
    else:
        for _, i1, i2, j1, j2 in sheet.changed(before, after):
            pairs = zip_longest(before[i1:i2], after[j1:j2], fillvalue=NOTHING)
            for place, (left, right) in enumerate(pairs):
                yield from _compare(sheet, left, right, (*path, place + (i1 if right is NOTHING else j1)))


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
MAX_WIDTH = 2000
MAX_MARKED = 400
MAX_MARKED_IN_ALL = 160_000
"""Characters of lines whose words are compared on one page; a pair of lines counts for 200 more."""
MAX_HIDDEN = 600
MAX_BESIDE = 400
LEAST_FOLD = 3
"""Fewer equal lines than this are not folded."""
MIN_LIKENESS = 0.45
MAX_WORD_STEPS = 1_500
"""Steps that the comparison of two lines by their words may take."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@frozen
class TextRun:
    """A run of characters; ``marked`` where it differs from the opposite line, ``look``: the class of its colour."""

    text: str
    marked: bool = False
    look: str = ""


@frozen
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


@frozen
class LinePair:
    """A row of the side-by-side view; a side is None where the other has no counterpart."""

    left: DiffLine | None
    right: DiffLine | None


@frozen
class Lines:
    """Lines that are shown together, in order."""

    lines: tuple[DiffLine, ...]

    @property
    def pairs(self) -> tuple[LinePair, ...]:
        """Return the lines side by side."""
        return tuple(pair_up(self.lines))


@frozen
class TextDiff(Lines):
    """``exact`` is False when the texts were too large to be compared line by line."""

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


def diff_text(before: str, after: str, context: int = 3, sheet: Sheet | None = None) -> TextDiff:
    """Return the difference of two texts, with ``context`` equal lines around each change.

    ``sheet``: of the page, if it shows other differences, too.
    """
    sheet = sheet or Sheet()
    old, new = split_lines(before), split_lines(after)
    steps, exact = sheet.align(old, new)
    same = sum(i2 - i1 for tag, i1, i2, _, _ in steps if tag == "equal")
    added, removed = len(new) - same, len(old) - same
    lines = list(bounded(fold([*_lines(old, new, steps, context, sheet)], context, sheet), len(old) + added))
    if not added and not removed and before != after:
        lines.append(DiffLine(kind="note", pieces=whole("Only line endings differ")))
    mark = blake2b(f"{before}\0{after}".encode(errors="surrogatepass"), digest_size=6).hexdigest()
    return TextDiff(lines=tuple(lines), added=added, removed=removed, exact=exact, mark=mark)


def _lines(old: list[str], new: list[str], steps: list[Step], context: int, sheet: Sheet) -> Iterator[DiffLine]:
    """Yield the lines; of equal ones that no page holds only those near a change, and how many are left out."""
    for tag, i1, i2, j1, j2 in steps:
        if tag != "equal":
            gone, come = old[i1 : min(i2, i1 + MAX_LINES)], new[j1 : min(j2, j1 + MAX_LINES)]
            yield from changed_lines(gone, come, i1 + 1, j1 + 1, sheet)
            continue
        first, last = i1 + context * bool(i1 or j1), i2 - context * (i2 < len(old) or j2 < len(new))
        while i1 < i2:
            skipped = last - first if i1 == first and last - first > max(sheet.hidden, LEAST_FOLD) else 0
            line = DiffLine(kind="same", old=i1 + 1, new=j1 + 1, pieces=whole(old[i1]))
            yield DiffLine(kind="fold", count=skipped) if skipped else line
            i1, j1 = i1 + (skipped or 1), j1 + (skipped or 1)


def split_lines(text: str) -> list[str]:
    """Return the lines of a text; unlike ``str.splitlines`` only ``\\n`` ends one."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def whole(text: str) -> tuple[TextRun, ...]:
    """Return a line as one piece, cut where no one reads on."""
    return (TextRun(text=visible(text[:MAX_WIDTH]) + ("…" if len(text) > MAX_WIDTH else "")),)


def changed_lines(
    old: Sequence[str], new: Sequence[str], old_start: int, new_start: int, sheet: Sheet
) -> list[DiffLine]:
    """Return removed lines, then added ones; opposite lines have their differences marked."""
    marks = []
    for left, right in zip(old, new, strict=False):
        compared = max(len(left), len(right)) <= MAX_MARKED and sheet.marked > 0
        sheet.marked -= 200 + len(left) + len(right) if compared else 0
        marks.append(mark_words(left, right) if compared else (whole(left), whole(right)))
    gone, come = (
        [one[side] for one in marks] + list(map(whole, now[len(marks) :])) for side, now in enumerate((old, new))
    )
    removed = [DiffLine(kind="removed", old=number, pieces=line) for number, line in enumerate(gone, old_start)]
    return removed + [DiffLine(kind="added", new=number, pieces=line) for number, line in enumerate(come, new_start)]


def mark_words(left: str, right: str) -> tuple[tuple[TextRun, ...], tuple[TextRun, ...]]:
    """Return both lines with the words that differ marked; unmarked when they have little in common."""
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


def fold(lines: Sequence[DiffLine], context: int, sheet: Sheet) -> Iterator[DiffLine]:
    """Yield the lines, with long runs of equal ones replaced by a fold that holds them."""
    near = {n for i, line in enumerate(lines) if line.kind != "same" for n in range(i - context, i + context + 1)}
    for far, group in groupby(enumerate(lines), key=lambda one: one[1].kind == "same" and one[0] not in near):
        run = [line for _, line in group]
        if not far or len(run) < LEAST_FOLD:
            yield from run
            continue
        kept = tuple(run) if len(run) <= sheet.hidden else ()
        sheet.hidden -= len(kept)
        yield DiffLine(kind="fold", count=len(run), hidden=kept)


def bounded(lines: Iterable[DiffLine], total: int) -> Iterator[DiffLine]:
    """Yield at most ``MAX_LINES`` lines and then a note about the rest, of ``total`` in all."""
    for line in islice(lines, MAX_LINES):
        total -= line.count or 1
        yield line
    if total:
        yield DiffLine(kind="note", pieces=whole(f"{number(total)} more lines are not shown"))


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
    return (LinePair(left=left, right=right) for left, right in zip_longest(removed, added))
