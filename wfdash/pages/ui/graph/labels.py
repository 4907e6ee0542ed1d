"""Where the labels of edges go: beside boxes and each other, and as far as possible off the lines of others. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wfdash.pages.ui.graph.layering import Rectangle

CHAR = 7.0
ROOM = 10.0
HEIGHT = 18.0
CELL = 24.0
Point = tuple[float, float]
ALONG = (0.55, 0.7, 0.4, 0.82, 0.25)
"""Where along a stretch of an edge its label may be, the best first."""
FINE = tuple(part / 12 for part in range(13))


@dataclass(frozen=True, kw_only=True)
class LabelledLine:
    """An edge: the points its curve runs through, and the label that it shows, empty for none.

    ``spots``: where the label may be instead of along the curve, the best first.
    """

    points: tuple[Point, ...]
    label: str
    spots: tuple[Point, ...] = ()

    @property
    def candidates(self) -> Iterable[Point]:
        """Return where the label may be: on the edge, from its end, where branches have parted; then beside it."""
        stretches = list(itertools.pairwise(self.points))[::-1]
        on = [along(a, b, part) for a, b in stretches for part in ALONG]
        aside = width_of(self.label) / 2
        return (*self.spots, *on, *((x + aside, y) for x, y in on), *((x - aside, y) for x, y in on))


def along(start: Point, end: Point, part: float) -> Point:
    """Return a point of the curve between two points, which leaves and arrives vertically. ``part``: 0 to 1."""
    eased = part * part * (3 - 2 * part)
    half = (start[1] + end[1]) / 2
    rest = 1 - part
    y = rest**3 * start[1] + 3 * rest * part * half + part**3 * end[1]
    return start[0] + (end[0] - start[0]) * eased, y


def width_of(label: str) -> float:
    """Return the width of a label with its background."""
    return len(label) * CHAR + ROOM


def place_labels(lines: Sequence[LabelledLine], boxes: Iterable[Rectangle]) -> list[Point]:
    """Return the middle of each line's label, (0, 0) for those without one."""
    taken = list(boxes)
    cells = _cells(lines)
    found: list[Point] = []
    for number, line in enumerate(lines):
        if not line.label:
            found.append((0.0, 0.0))
            continue
        best = min(
            (_box(line.label, spot) for spot in line.candidates),
            key=lambda box: (_touches(box, taken), _crossed(box, cells, number)),
        )
        taken.append(best)
        found.append((best.x, best.y))
    return found


def _box(label: str, at: Point) -> Rectangle:
    return Rectangle(x=at[0], y=at[1], width=width_of(label), height=HEIGHT)


def _touches(box: Rectangle, others: Iterable[Rectangle]) -> int:
    return sum(
        abs(box.x - other.x) * 2 < box.width + other.width and abs(box.y - other.y) * 2 < box.height + other.height
        for other in others
    )


def _cells(lines: Sequence[LabelledLine]) -> dict[tuple[int, int], set[int]]:
    """Return which lines run through which squares."""
    cells: dict[tuple[int, int], set[int]] = {}
    for number, line in enumerate(lines):
        for start, end in itertools.pairwise(line.points):
            for part in FINE:
                x, y = along(start, end, part)
                cells.setdefault((int(x // CELL), int(y // CELL)), set()).add(number)
    return cells


def _crossed(box: Rectangle, cells: dict[tuple[int, int], set[int]], own: int) -> int:
    """Return how many other lines run near a box."""
    columns = range(int((box.x - box.width / 2) // CELL), int((box.x + box.width / 2) // CELL) + 1)
    rows = range(int((box.y - box.height / 2) // CELL), int((box.y + box.height / 2) // CELL) + 1)
    return len(set().union(*(cells.get((x, y), set()) for x in columns for y in rows)) - {own})
