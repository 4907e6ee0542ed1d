"""What the graph template renders: nodes, edges as SVG paths, groups, and the same as text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from wfdash.pages.ui.graph.labels import HEIGHT as LABEL_HEIGHT
from wfdash.pages.ui.graph.labels import Point, width_of
from wfdash.pages.ui.graph.layering import Rectangle

CHAR = 8.0
COUNT_CHAR = 7.5
NOTE_CHAR = 6.8
ARROW = 5.0
SIDE = 18.0
MAX_LABEL = 28
LEAST = 0.88
"""The smallest scale at which a picture is shown unasked: its small print (12.5 px) is then 11 px high."""
HEATS = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Shares of the longest duration up to which a step has heat 0, 1, ..."""

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
    stopped: str = "stopped"
    """What a stopped step is called: as its run, where that is paused or held."""
    shows_state: bool = True
    """Whether its state is shown: not in the drawing of a workflow without a run."""
    note: str = ""
    """A second line: its duration, its retries."""
    growing: float | None = None
    """The seconds at the start of the second line, while they grow."""
    address: str = ""
    folded: bool = False
    """Whether it represents others: a whole sub-workflow, or similar steps."""
    similar: int = 0
    """How many similar steps it represents."""
    heat: int | None = None
    """How long it ran, beside the others: 0 to 4; None if it did not run, or durations are not compared."""
    chosen: bool = False

    @property
    def href(self) -> str:
        """Return the step's link: its address, or its anchor on the page."""
        return self.address or f"#step-{quote(self.name)}"

    @property
    def classes(self) -> str:
        """Return its classes: state, person, whether it is chosen, heat."""
        more = ["person"] * self.person + ["chosen"] * self.chosen
        return " ".join([f"is-{self.state}", *more, *([] if self.heat is None else [f"heat-{self.heat}"])])

    @property
    def icon(self) -> str:
        """Return the icon of its state, or an empty string."""
        return ICONS.get(self.state, "")

    @property
    def words(self) -> str:
        """Return the step and its state, for screen readers."""
        who = " (a person)" if self.person else " (a sub-workflow)" if self.folded and not self.similar else ""
        if not self.shows_state:
            return f"{self.title}{who}"
        more = "".join(f", {part}" for part in (self.counts, self.note) if part)
        return f"{self.title}{who}: {self.state_words}{more}"

    @property
    def state_words(self) -> str:
        """Return its state as text."""
        return self.stopped if self.state == "stopped" else WORDS[self.state]

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
    labelled: bool = False
    """Whether its label is drawn: where edges join, once."""
    travelled: bool = False

    @property
    def label_width(self) -> float:
        """Return the width of the label's background."""
        return width_of(self.label)

    @property
    def back_x(self) -> float:
        """Return the left edge of that background."""
        return self.label_x - self.label_width / 2

    @property
    def back_y(self) -> float:
        """Return its top edge."""
        return self.label_y - LABEL_HEIGHT / 2


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

    @property
    def text_x(self) -> float:
        """Return where its title starts."""
        return self.x + 14

    @property
    def text_y(self) -> float:
        """Return the height of its title."""
        return self.y + 20


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawing of ``width`` x ``height`` pixels."""

    nodes: tuple[DrawnStep, ...]
    edges: tuple[DrawnArrow, ...]
    groups: tuple[GroupDrawing, ...]
    width: float
    height: float
    longest: float = 0.0
    """Seconds of the step that ran longest; 0 where durations are not compared."""

    @property
    def folds(self) -> bool:
        """Return whether a step represents others."""
        return any(node.folded for node in self.nodes)

    @property
    def heats(self) -> tuple[tuple[int, float], ...]:
        """Return the legend of the colours by duration: (heat, seconds up to which a step has it)."""
        return tuple((heat, share * self.longest) for heat, share in enumerate(HEATS)) if self.longest else ()

    @property
    def states(self) -> tuple[tuple[str, str, int], ...]:
        """Return the legend of the colours by state: (state, in words, how many steps), of those that occur."""
        counts = Counter((node.state, node.state_words) for node in self.nodes if node.shows_state)
        order = list(WORDS)
        return tuple((*key, number) for key, number in sorted(counts.items(), key=lambda item: order.index(item[0][0])))

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
        parts = [f"{count} {words}" for _, words, count in self.states]
        return f"{many}: {', '.join(parts)}" if parts else f"Text version ({many})"


def _step_words(edge: DrawnArrow, titles: dict[str, str]) -> str:
    label = f" ({edge.label})" if edge.label else ""
    return f"{titles.get(edge.target, edge.target)}{label}"


def route(
    source: Rectangle, target: Rectangle, bends: Sequence[Point], lane: int = 0
) -> tuple[str, str, tuple[Point, ...]]:
    """Return the path, the arrow head and the points of an edge.

    Edges that lead back up run at the side. ``lane``: how many others lead back to the same step.
    """
    back = target.y <= source.y
    turn = -1 if back else 1
    side = min(SIDE * (lane + 1), min(source.width, target.width) / 2 - ARROW * 2) if back else 0.0
    start = (source.x + side, source.y + turn * source.height / 2)
    tip = (target.x + side, target.y - turn * target.height / 2)
    points = (start, *((x + side, y) for x, y in bends), (tip[0], tip[1] - turn * ARROW))
    return _curve(points), _head(tip, turn), points


def loop(box: Rectangle) -> tuple[str, str, tuple[Point, ...]]:
    """Return the same for a step that follows itself: a loop at its right side."""
    x, low, high = box.x + box.width / 2, box.y + 9, box.y - 9
    path = f"M{x:.1f} {low:.1f}c26 4 26 -22 5 -18"
    head = f"M{x:.1f} {high:.1f}l6 -4v8z"
    return path, head, ((x + 26, box.y), (x + 26, box.y))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half = (y1 + y2) / 2
        parts.append(f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}")
    return "".join(parts)


def _head(tip: tuple[float, float], turn: int) -> str:
    x, y = tip
    return f"M{x:.1f} {y:.1f}l{-ARROW * 0.8:.1f} {-turn * ARROW * 1.4:.1f}h{ARROW * 1.6:.1f}z"


def room_for(counts: str) -> float:
    """Return the width a box needs beside its title: icons, and counts where it has them."""
    return 64.0 + (len(counts) * COUNT_CHAR + 12.0 if counts else 0.0)


def cut(label: str) -> str:
    """Return a label short enough for an edge."""
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"
