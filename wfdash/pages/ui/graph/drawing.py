"""What the graph template renders: nodes, edges as SVG paths, groups, and the same as text."""

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
    shows_state: bool = True
    """Whether its state is shown: not in the drawing of a workflow without a run."""
    note: str = ""
    """A second line: its duration, its retries."""
    growing: float | None = None
    """The seconds at the start of the second line, while they grow."""
    address: str = ""
    folded: bool = False
    """Whether it represents a whole sub-workflow."""
    chosen: bool = False

    @property
    def href(self) -> str:
        """Return the step's link: its address, or its anchor on the page."""
        return self.address or f"#step-{quote(self.name)}"

    @property
    def icon(self) -> str:
        """Return the icon of its state, or an empty string."""
        return ICONS.get(self.state, "")

    @property
    def words(self) -> str:
        """Return the step and its state, for screen readers."""
        who = " (a person)" if self.person else " (a sub-workflow)" if self.folded else ""
        if not self.shows_state:
            return f"{self.title}{who}"
        more = "".join(f", {part}" for part in (self.counts, self.note) if part)
        return f"{self.title}{who}: {WORDS[self.state]}{more}"

    @property
    def radius(self) -> float:
        """Return the corner radius: steps that ask people are round."""
        return self.height / 2 if self.person else 8

    @property
    def middle(self) -> float:
        """Return the height of its text."""
        return self.y + self.height / 2

    @property
    def title_y(self) -> float:
        """Return the height of its title: above the middle if a second line follows."""
        return self.middle - 8 if self.note else self.middle

    @property
    def note_rest(self) -> str:
        """Return what follows the duration in the second line."""
        return "".join(self.note.partition(" · ")[1:])

    @property
    def note_y(self) -> float:
        """Return the height of its second line."""
        return self.middle + 10

    @property
    def short(self) -> str:
        """Return the title, cut to the box."""
        room = int((self.width - room_for(self.counts)) / CHAR + 0.5)
        return self.title if len(self.title) <= room else f"{self.title[: max(room - 1, 1)]}…"

    @property
    def under_x(self) -> float:
        """Return the left edge of the sheet under a folded sub-workflow."""
        return self.x + 4

    @property
    def under_y(self) -> float:
        """Return the top edge of that sheet."""
        return self.y + 4

    @property
    def text_x(self) -> float:
        """Return where its text starts."""
        return self.x + 34

    @property
    def icon_x(self) -> float:
        """Return where the icon on the left starts."""
        return self.x + 12

    @property
    def icon_y(self) -> float:
        """Return where icons start, from the top."""
        return self.middle - 8

    @property
    def mark_x(self) -> float:
        """Return where the icon of its state starts."""
        return self.x + self.width - 26

    @property
    def counts_x(self) -> float:
        """Return where its counts end."""
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
    """The address that folds it again."""


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
        """Return the width below which its text would be too small: there it scrolls instead of shrinking."""
        return self.width * LEAST

    @property
    def items(self) -> tuple[tuple[DrawnStep, str], ...]:
        """Return each step with the steps that follow it, as text."""
        titles = {node.name: node.title for node in self.nodes} | {group.name: group.title for group in self.groups}
        return tuple(
            (node, ", ".join(_step_words(edge, titles) for edge in self.edges if edge.source == node.name))
            for node in self.nodes
        )

    @property
    def summary(self) -> str:
        """Return one sentence about the whole."""
        if not self.nodes:
            return "No steps"
        many = f"{len(self.nodes)} step{'' if len(self.nodes) == 1 else 's'}"
        counts = {state: sum(node.state == state for node in self.nodes if node.shows_state) for state in WORDS}
        parts = [f"{count} {WORDS[state]}" for state, count in counts.items() if count]
        return f"{many}: {', '.join(parts)}" if parts else f"Text version ({many})"


def _step_words(edge: DrawnArrow, titles: dict[str, str]) -> str:
    label = f" ({edge.label})" if edge.label else ""
    return f"{titles.get(edge.target, edge.target)}{label}"


def route(
    source: Rectangle, target: Rectangle, bends: Sequence[tuple[float, float]]
) -> tuple[str, str, tuple[float, float]]:
    """Return the path, the arrow head and the middle of an edge. Edges that lead back up run at the side."""
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
    """Return the position of the label: the middle of the last stretch, where branches have parted."""
    (x1, y1), (x2, y2) = points[-2:]
    return (x1 + x2 * 2) / 3, (y1 + y2) / 2


def room_for(counts: str) -> float:
    """Return the width a box needs beside its title: icons, and counts where it has them."""
    return 64.0 + (len(counts) * COUNT_CHAR + 12.0 if counts else 0.0)


def cut(label: str) -> str:
    """Return a label short enough for an edge."""
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
