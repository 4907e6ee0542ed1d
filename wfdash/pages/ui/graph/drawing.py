"""What the graph template draws: nodes, edges as SVG paths, groups, and the same in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from wfdash.pages.ui.graph.layering import Rectangle

CHAR = 8.0
COUNT_CHAR = 7.0
NOTE_CHAR = 6.0
ARROW = 5.0
SIDE = 18.0
MAX_LABEL = 28
LEAST = 0.62

WORDS = {
    "failed": "failed",
    "waiting": "waiting for a person",
    "retrying": "waiting for retry",
    "running": "running",
    "sleeping": "sleeping",
    "stopped": "stopped",
    "done": "done",
    "idle": "pending",
}
ICONS = {
    "failed": "x-circle",
    "waiting": "clock",
    "retrying": "arrow-path",
    "running": "play-circle",
    "sleeping": "moon",
    "stopped": "pause-circle",
    "done": "check-circle",
}


@dataclass(frozen=True, kw_only=True)
class DrawnStep:
    """A step. ``x``, ``y``: top left corner. ``counts``: progress of a step that ran more than once."""

    name: str
    title: str
    x: float
    y: float
    width: float
    height: float
    state: str
    person: bool
    counts: str = ""
    told: bool = True
    """Whether its state is worth a word: not in the drawing of a workflow that nobody runs."""
    note: str = ""
    """A second line: how long, how often again."""
    growing: float | None = None
    """The seconds that the second line begins with, while they grow."""
    address: str = ""
    folded: bool = False
    """Whether it stands for a whole sub-workflow."""
    chosen: bool = False

    @property
    def href(self) -> str:
        """Where the step is told about: its address, or its place on the page."""
        return self.address or f"#step-{quote(self.name)}"

    @property
    def icon(self) -> str:
        """The icon of its state, or nothing."""
        return ICONS.get(self.state, "")

    @property
    def words(self) -> str:
        """The step and its state, for people who do not see the picture."""
        who = " (a person)" if self.person else " (a sub-workflow)" if self.folded else ""
        if not self.told:
            return f"{self.title}{who}"
        more = "".join(f", {part}" for part in (self.counts, self.note) if part)
        return f"{self.title}{who}: {WORDS[self.state]}{more}"

    @property
    def radius(self) -> float:
        """People are drawn round."""
        return self.height / 2 if self.person else 8

    @property
    def middle(self) -> float:
        """The height of its text."""
        return self.y + self.height / 2

    @property
    def title_y(self) -> float:
        """The height of its title: above the middle if a second line follows."""
        return self.middle - 8 if self.note else self.middle

    @property
    def note_rest(self) -> str:
        """What follows the length of time in the second line."""
        return "".join(self.note.partition(" · ")[1:])

    @property
    def note_y(self) -> float:
        """The height of its second line."""
        return self.middle + 10

    @property
    def short(self) -> str:
        """The title, cut to the box."""
        room = int((self.width - room_for(self.counts)) / CHAR + 0.5)
        return self.title if len(self.title) <= room else f"{self.title[: max(room - 1, 1)]}…"

    @property
    def under_x(self) -> float:
        """Where the sheet under a folded sub-workflow begins."""
        return self.x + 4

    @property
    def under_y(self) -> float:
        """The same, downwards."""
        return self.y + 4

    @property
    def text_x(self) -> float:
        """Where its text begins."""
        return self.x + 34

    @property
    def icon_x(self) -> float:
        """Where the icon on the left begins."""
        return self.x + 12

    @property
    def icon_y(self) -> float:
        """Where icons begin."""
        return self.middle - 8

    @property
    def mark_x(self) -> float:
        """Where the icon of its state begins."""
        return self.x + self.width - 26

    @property
    def counts_x(self) -> float:
        """Where its counts end."""
        return self.x + self.width - 30


@dataclass(frozen=True, kw_only=True)
class DrawnArrow:
    """An arrow: ``path`` and ``head`` are SVG path data."""

    source: str
    target: str
    path: str
    head: str
    kind: str
    label: str = ""
    label_x: float = 0.0
    label_y: float = 0.0
    travelled: bool = False


@dataclass(frozen=True, kw_only=True)
class GroupDrawing:
    """The frame around the steps of a sub-workflow."""

    name: str
    title: str
    x: float
    y: float
    width: float
    height: float
    address: str = ""
    """Where it is folded again."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawing of ``width`` x ``height`` pixels."""

    nodes: tuple[DrawnStep, ...]
    edges: tuple[DrawnArrow, ...]
    groups: tuple[GroupDrawing, ...]
    width: float
    height: float

    @property
    def least(self) -> float:
        """The width below which its words could not be read: there it scrolls instead of shrinking."""
        return self.width * LEAST

    @property
    def items(self) -> tuple[tuple[DrawnStep, str], ...]:
        """Each step with the steps that follow it, in words."""
        titles = {node.name: node.title for node in self.nodes} | {group.name: group.title for group in self.groups}
        return tuple(
            (node, ", ".join(_step_words(edge, titles) for edge in self.edges if edge.source == node.name))
            for node in self.nodes
        )

    @property
    def summary(self) -> str:
        """One sentence about the whole."""
        if not self.nodes:
            return "No steps"
        many = f"{len(self.nodes)} step{'' if len(self.nodes) == 1 else 's'}"
        counts = {state: sum(node.state == state for node in self.nodes if node.told) for state in WORDS}
        told = [f"{count} {WORDS[state]}" for state, count in counts.items() if count]
        return f"{many}: {', '.join(told)}" if told else f"Text version ({many})"


def _step_words(edge: DrawnArrow, titles: dict[str, str]) -> str:
    label = f" ({edge.label})" if edge.label else ""
    return f"{titles.get(edge.target, edge.target)}{label}"


def route(
    source: Rectangle, target: Rectangle, bends: Sequence[tuple[float, float]]
) -> tuple[str, str, tuple[float, float]]:
    """Return the path, the arrow head and the middle of an edge. Edges that go back up keep to the side."""
    back = target.y <= source.y
    turn = -1 if back else 1
    side = SIDE if back else 0.0
    start = (source.x + side, source.y + turn * source.height / 2)
    tip = (target.x + side, target.y - turn * target.height / 2)
    points = [start, *((x + side, y) for x, y in bends), (tip[0], tip[1] - turn * ARROW)]
    x, y = _middle(points)
    return _curve(points), _head(tip, turn), (x + side * 1.5, y)


def loop(box: Rectangle) -> tuple[str, str, tuple[float, float]]:
    """Return the same for a step that follows itself: a loop at its right side."""
    x, low, high = box.x + box.width / 2, box.y + 9, box.y - 9
    path = f"M{x:.1f} {low:.1f}c26 4 26 -22 5 -18"
    head = f"M{x:.1f} {high:.1f}l6 -4v8z"
    return path, head, (x + 26, box.y)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half = (y1 + y2) / 2
        parts.append(f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}")
    return "".join(parts)


def _head(tip: tuple[float, float], turn: int) -> str:
    x, y = tip
    return f"M{x:.1f} {y:.1f}l{-ARROW * 0.8:.1f} {-turn * ARROW * 1.4:.1f}h{ARROW * 1.6:.1f}z"


def _middle(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return a place for the label: the middle of the last stretch, where branches have parted."""
    (x1, y1), (x2, y2) = points[-2:]
    return (x1 + x2 * 2) / 3, (y1 + y2) / 2


def room_for(counts: str) -> float:
    """Return the width a box needs beside its title: icons, and counts where it has them."""
    return 64.0 + (len(counts) * COUNT_CHAR + 12.0 if counts else 0.0)


def cut(label: str) -> str:
    """Return a label short enough for an edge."""
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
