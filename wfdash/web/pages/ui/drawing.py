"""What the graph template renders: nodes, edges as SVG paths, groups, and the same as text."""

from __future__ import annotations

import itertools
import re
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from urllib.parse import quote

from checkpoints.records import frozen

CHAR = 8.0
COUNT_CHAR = 8.0
NOTE_CHAR = 7.4
ARROW = 5.0
SIDE = 18.0
MAX_LABEL = 28
LEAST_SCALE = 0.75
"""The smallest scale at which a picture is shown unasked: its text (13 px) is then 10 px high."""
ROW_HEIGHT = 100.0
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


@frozen
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
        """Return the step and its state, for screen readers: what it shows comes first, as it is shown."""
        kind = f"{self.similar} similar" if self.similar else "a sub-workflow" if self.folded else ""
        who = "".join(f" ({one})" for one in ("a person" * self.person, kind) if one)
        shown = " ".join(filter(None, (self.short, self.note, self.counts)))
        whole = f" ({self.title})" if self.short != self.title else ""
        return f"{shown}{whole}{who}: {self.state_words}" if self.shows_state else f"{shown}{whole}{who}"

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


@frozen
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
        return self.label_y - HEIGHT / 2


@frozen
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


@frozen
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
    def is_strip(self) -> bool:
        """Return whether it is one row of steps."""
        return self.height <= ROW_HEIGHT

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
        return self.width * LEAST_SCALE

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
    room = min(source.width, target.width) / 2 - ARROW * 2
    side = min(min(SIDE, room / 2) * (lane + 1), room) if back else 0.0
    start = (source.x + side, source.y + turn * source.height / 2)
    tip = (target.x + side, target.y - turn * target.height / 2)
    points = (start, *((x + side, y) for x, y in bends), (tip[0], tip[1] - turn * ARROW))
    return _curve(points), _head(tip, turn), points


def loop(box: Rectangle) -> tuple[str, str, tuple[Point, ...]]:
    """Return the same for a step that follows itself: a loop at its right side."""
    x, low, high = box.x + box.width / 2, box.y + 9, box.y - 9
    path = f"M{x:.1f} {low:.1f}c26 4 26 -22 5 -18"
    head = f"M{x:.1f} {high:.1f}l6 -4l0 8z"
    return path, head, ((x + 26, box.y), (x + 26, box.y))


def _curve(points: Sequence[tuple[float, float]]) -> str:
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half = (y1 + y2) / 2
        parts.append(f"C{x1:.1f} {half:.1f} {x2:.1f} {half:.1f} {x2:.1f} {y2:.1f}")
    return "".join(parts)


def _head(tip: tuple[float, float], turn: int) -> str:
    x, y = tip
    return f"M{x:.1f} {y:.1f}l{-ARROW * 0.8:.1f} {-turn * ARROW * 1.4:.1f}l{ARROW * 1.6:.1f} 0z"


def turned(path: str) -> str:
    """Return path data with both axes exchanged: numbers come in pairs."""
    return re.sub(r"(-?[\d.]+) (-?[\d.]+)", r"\2 \1", path)


def room_for(counts: str) -> float:
    """Return the width a box needs beside its title: icons, and counts where it has them."""
    return 64.0 + (len(counts) * COUNT_CHAR + 12.0 if counts else 0.0)


def cut(label: str) -> str:
    """Return a label short enough for an edge."""
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"


# Where the labels of edges go: beside boxes and each other, and as far as possible off the lines of others. Pure.

LABEL_CHAR = 7.5
ROOM = 10.0
HEIGHT = 18.0
CELL = 24.0
Point = tuple[float, float]
ALONG = (0.55, 0.7, 0.4, 0.82, 0.25)
"""Where along a stretch of an edge its label may be, the best first."""
FINE = tuple(part / 12 for part in range(13))


@frozen
class LabelledLine:
    """An edge: the points its curve runs through, and the label that it shows, empty for none.

    ``spots``: where the label may be instead of along the curve, the best first. ``sideways``: the drawing will be
    turned.
    """

    points: tuple[Point, ...]
    label: str
    spots: tuple[Point, ...] = ()
    sideways: bool = False

    @property
    def size(self) -> Point:
        """Return width and height of the label."""
        return (HEIGHT, width_of(self.label)) if self.sideways else (width_of(self.label), HEIGHT)

    @property
    def candidates(self) -> Iterable[Point]:
        """Return where the label may be: on the edge, from its end, where branches have parted; then beside it."""
        stretches = list(itertools.pairwise(self.points))[::-1]
        on = [along(a, b, part) for a, b in stretches for part in ALONG]
        aside = self.size[0] / 2
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
    return len(label) * LABEL_CHAR + ROOM


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
            (Rectangle(x=x, y=y, width=line.size[0], height=line.size[1]) for x, y in line.candidates),
            key=lambda box: (_touches(box, taken), _crossed(box, cells, number)),
        )
        taken.append(best)
        found.append((best.x, best.y))
    return found


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


# Layered layout of boxes (Sugiyama's way): from top to bottom, few crossings, no overlaps. Pure; 2,000 boxes in 0.2 s.

GAP = 28.0
RISE = 28.0
BEND = 12.0
ROW = 4
SWEEPS = 10
MOST_BENDS = 5_000


@frozen
class Rectangle:
    """A rectangle by its centre."""

    x: float
    y: float
    width: float
    height: float


@frozen
class Placement:
    """Boxes by number, the bends of each edge in its own direction, and the size of the whole."""

    boxes: dict[int, Rectangle]
    bends: dict[tuple[int, int], tuple[tuple[float, float], ...]]
    width: float
    height: float


@dataclass(kw_only=True)
class _PlacedNode:
    """A node or a bend during placement."""

    id: int
    layer: int
    x: float
    width: float
    height: float
    y: float = 0.0


@dataclass(kw_only=True)
class _Component:
    """A connected part of the graph."""

    spots: dict[int, _PlacedNode] = field(default_factory=dict)
    edges: dict[tuple[int, int], range] = field(default_factory=dict)
    """Each edge with its bends, by number."""

    @property
    def width(self) -> float:
        return max(spot.x + spot.width / 2 for spot in self.spots.values())

    @property
    def height(self) -> float:
        return max(spot.y + spot.height / 2 for spot in self.spots.values())


def place_boxes(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], above: Mapping[int, float]
) -> Placement:
    """Return positions for boxes of these sizes (width, height), joined by these edges (no self-loops, no
    duplicates). ``above``: the least distance of a box from the layer above it, where labels need it.
    """
    forward = _forward(len(sizes), edges)
    parts = _connected(sizes, list(dict.fromkeys(forward.values()))) + _unconnected(sizes, edges)
    for part in parts:
        _settle(part, above)
    left = 0.0
    boxes: dict[int, Rectangle] = {}
    bends: dict[tuple[int, int], tuple[tuple[float, float], ...]] = {}
    for part in parts:
        for spot in part.spots.values():
            spot.x += left
        boxes |= {
            s.id: Rectangle(x=s.x, y=s.y, width=s.width, height=s.height)
            for s in part.spots.values()
            if s.id < len(sizes)
        }
        bends |= {
            edge: tuple((part.spots[one].x, part.spots[one].y) for one in passed) for edge, passed in part.edges.items()
        }
        left = part.width + GAP * 1.5
    height = max((part.height for part in parts), default=0.0)
    own = {edge: bends.get(way, ())[:: 1 if edge == way else -1] for edge, way in forward.items()}
    return Placement(boxes=boxes, bends=own, width=max(left - GAP * 1.5, 0.0), height=height)


def _forward(count: int, edges: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return each edge in its direction down the page: those that lead back are reversed.

    The walk starts at boxes without incoming edges, then in the author's order, so that a workflow's start stays on
    top.
    """
    onward: dict[int, list[int]] = {}
    for source, target in edges:
        onward.setdefault(source, []).append(target)
    entered = {target for _, target in edges}
    back: set[tuple[int, int]] = set()
    done: set[int] = set()
    for root in sorted(range(count), key=lambda number: number in entered):
        if root not in done:
            _walk(root, onward, done, back)
    return {(a, b): (b, a) if (a, b) in back else (a, b) for a, b in edges}


def _walk(root: int, onward: dict[int, list[int]], done: set[int], back: set[tuple[int, int]]) -> None:
    """Walk through everything that follows ``root``, depth first and without recursion, collecting edges that close a
    circle.
    """
    path, open_now = [(root, iter(onward.get(root, ())))], {root}
    while path:
        at, rest = path[-1]
        step = next(rest, None)
        if step is None:
            path.pop()
            open_now.discard(at)
            done.add(at)
        elif step in open_now:
            back.add((at, step))
        elif step not in done:
            open_now.add(step)
            path.append((step, iter(onward.get(step, ()))))


def _connected(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> list[_Component]:
    joined = _neighbours([*edges, *(edge[::-1] for edge in edges)])[1]
    home: dict[int, int] = {}
    for number in sorted(joined):
        if number not in home:
            found: set[int] = set()
            _walk(number, joined, found, set())
            home |= dict.fromkeys(found, number)
    parts: dict[int, list[tuple[int, int]]] = {}
    for edge in edges:
        parts.setdefault(home[edge[0]], []).append(edge)
    return [_in_columns(_in_layers(sizes, parts[number])) for number in sorted(parts)]


def _neighbours(edges: Iterable[tuple[int, int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return what leads to each number, and what it leads to."""
    above, below = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    return above, below


def _in_layers(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> _Component:
    """Return a connected part with a layer for each box: below all that lead to it, and as low as those that it leads
    to allow, where they are more. An edge has a bend in each layer that it passes, as long as there are few.
    """
    above, below = _neighbours(edges)
    layers: dict[int, int] = {}
    for number in TopologicalSorter(above).static_order():
        layers[number] = max((layers[one] + 1 for one in above[number]), default=0)
    for number in reversed(list(layers)):
        if len(below[number]) > len(above[number]):
            layers[number] = min(layers[one] for one in below[number]) - 1
    part, bends = _Component(), len(sizes)
    for source, target in edges:
        passed = range(layers[source] + 1, layers[target])
        if bends + len(passed) > len(sizes) + MOST_BENDS:
            passed = range(0)
        layers |= enumerate(passed, bends)
        part.edges[source, target] = range(bends, bends + len(passed))
        bends += len(passed)
    for number, layer in layers.items():
        width, height = sizes[number] if number < len(sizes) else (BEND, 0.0)
        part.spots[number] = _PlacedNode(id=number, layer=layer, x=0.0, width=width, height=height)
    return part


def _in_columns(part: _Component) -> _Component:
    """Sweep up and down through the layers: each box goes to the mean of its neighbours in the layer before, which has
    few lines cross (a barycentre heuristic); in the last sweeps the order stays.
    """
    rows = defaultdict[int, list[_PlacedNode]](list)
    for spot in part.spots.values():
        spot.x = float(len(rows[spot.layer]))
        rows[spot.layer].append(spot)
    above, below = _neighbours(
        pair for (source, target), bends in part.edges.items() for pair in itertools.pairwise([source, *bends, target])
    )
    for sweep in range(SWEEPS):
        near = above if sweep % 2 else below
        for _, row in sorted(rows.items(), reverse=near is below):
            for spot in row:
                if others := near.get(spot.id):
                    spot.x = sum(part.spots[one].x for one in others) / len(others)
            if sweep < SWEEPS - 2:
                row.sort(key=lambda spot: spot.x)
            _push_apart(row)
    return part


def _unconnected(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> list[_Component]:
    """Return the boxes without an edge as one component: rows of a few."""
    joined = {number for edge in edges for number in edge}
    alone = [number for number in range(len(sizes)) if number not in joined]
    part = _Component()
    for place, number in enumerate(alone):
        width, height = sizes[number]
        part.spots[number] = _PlacedNode(id=number, layer=place // ROW, x=place, width=width, height=height)
    return [part] if alone else []


def _settle(part: _Component, above: Mapping[int, float]) -> None:
    """Give each layer its height and push overlapping boxes apart; the component then starts at 0, 0."""
    layers: dict[int, list[_PlacedNode]] = {}
    for spot in part.spots.values():
        layers.setdefault(spot.layer, []).append(spot)
    top = 0.0
    for number in sorted(layers):
        row = sorted(layers[number], key=lambda spot: spot.x)
        height = max(spot.height for spot in row)
        top += max(RISE, *(above.get(spot.id, 0.0) for spot in row)) if top else 0.0
        for spot in row:
            spot.y = top + height / 2
        _push_apart(row)
        top += height
    left = min(spot.x - spot.width / 2 for spot in part.spots.values())
    for spot in part.spots.values():
        spot.x -= left


def _push_apart(row: list[_PlacedNode]) -> None:
    """Move boxes as little as possible until none are too close: those that are spread around their mean (isotonic
    regression).
    """
    gaps = ((left.width + right.width) / 2 + GAP for left, right in itertools.pairwise(row))
    offsets = list(itertools.accumulate(gaps, initial=0.0))
    groups: list[tuple[float, int]] = []
    for spot, offset in zip(row, offsets, strict=True):
        mean, many = spot.x - offset, 1
        while groups and groups[-1][0] > mean:
            before, count = groups.pop()
            mean, many = (before * count + mean * many) / (count + many), count + many
        groups.append((mean, many))
    means = itertools.chain.from_iterable(itertools.repeat(mean, many) for mean, many in groups)
    for spot, offset, mean in zip(row, offsets, means, strict=True):
        spot.x = mean + offset


def scannable(text: str) -> str:
    """Return the address of a picture (SVG) with a code to scan."""
    import qrcode  # here: it loads an imaging library that few pages need
    from qrcode.constants import ERROR_CORRECT_M
    from qrcode.image.svg import SvgPathFillImage

    code = qrcode.QRCode(error_correction=ERROR_CORRECT_M, border=3, image_factory=SvgPathFillImage)
    code.add_data(text)
    return f"data:image/svg+xml;base64,{b64encode(code.make_image().to_string()).decode()}"
