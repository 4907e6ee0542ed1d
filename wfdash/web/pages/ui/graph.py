"""From a workflow's description and its steps' states to a drawing. Pure; accepts any graph."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from checkpoints.records import frozen
from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.domain.labels import humanize
from wfdash.web.pages.ui.drawing import (
    ARROW,
    CHAR,
    HEATS,
    NOTE_CHAR,
    Drawing,
    DrawnArrow,
    DrawnStep,
    GroupDrawing,
    LabelledLine,
    Point,
    Rectangle,
    cut,
    loop,
    place_boxes,
    place_labels,
    room_for,
    route,
    turned,
    width_of,
)

# Which edges of a graph a run took. Pure.

MEETS = frozenset({"gather", "join"})


class Transition(Protocol):
    """A transition of an activation of a step."""

    @property
    def step(self) -> str: ...
    @property
    def activation(self) -> str: ...
    @property
    def state(self) -> str: ...


def travelled(edges: Iterable[EdgeInfo], moves: Sequence[Transition]) -> frozenset[tuple[str, str]]:
    """Return (source, target) of the edges that were taken; ``moves`` oldest first.

    A step was started by the predecessor that had finished last; where edges join, by all that had finished.
    """
    into: dict[str, list[EdgeInfo]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
    done: dict[str, int] = {}
    begun: set[tuple[str, str]] = set()
    taken: set[tuple[str, str]] = set()
    for place, move in enumerate(moves):
        if move.state == "done":
            done[move.step] = place
        elif move.state == "running" and (move.step, move.activation) not in begun:
            begun.add((move.step, move.activation))
            taken |= _leading(into.get(move.step, ()), done)
    return frozenset(taken)


def _leading(edges: Iterable[EdgeInfo], done: dict[str, int]) -> set[tuple[str, str]]:
    ready = [edge for edge in edges if edge.source in done]
    last = max((done[edge.source] for edge in ready), default=-1)
    return {(edge.source, edge.target) for edge in ready if edge.kind in MEETS or done[edge.source] == last}


# Which parts of a graph are open, as the parameter ``unfold`` of an address names them. Pure.


def opened_in(text: str) -> tuple[str, ...]:
    """Return the names of what is open, comma-separated in an address."""
    return tuple(name for name in text.split(",") if name)


def opening(opened: Iterable[str], name: str) -> str:
    """Return what is open with this one as well."""
    return ",".join(dict.fromkeys([*opened, name]))


def closing(opened: Collection[str], name: str, folded: Folded) -> str:
    """Return what is open without this one; ``*`` means all of it."""
    parents = {step.parent for step in folded.description.steps if step.parent} | folded.groups
    every = parents if ALL in opened else set(opened)
    return ",".join(sorted(every - {name}))


def draw_definition(description: Description, opened: Collection[str], link: Callable[[str], str]) -> Drawing:
    """Return the drawing of a workflow without a run. ``link``: the address at which these parts are open."""
    folded = fold(description, opened)
    extras = RunOverlay(
        links=lambda name: link(opening(opened, name)) if name in folded.folded else "",
        closing=lambda name: link(closing(opened, name, folded)),
        folded=folded.folded,
        similar={name: len(steps) for name, steps in folded.similar.items()},
    )
    return layout(folded.description, extras=extras)


HEIGHT, TALL = 42.0, 56.0
"""Of a box, and of one that has a second line."""
NARROW, WIDE, STEP = 120.0, 264.0, 12.0
MARGIN = 8.0
LOOP = 16.0
"""What a loop takes at the edge."""
FRAME = 16.0
FRAME_TOP = 34.0
ABOVE = 11.0
"""Between the label of a join and the box that its edges lead to, with half of a line."""
LABELLED = 46.0
"""Between layers whose edges have labels."""
FEW, MANY = 5, 12
"""Up to so many steps, and from so many on, a graph runs from left to right, in between from top to bottom."""
ORDER = ("failed", "waiting", "retrying", "running", "stopped", "sleeping", "done")
EDGE_WORDS = {"otherwise": "otherwise", "each": "for each", "gather": "gather"}

Board = Mapping[str, Any]


@dataclass(kw_only=True)
class _Block:
    """The steps of one level, placed: boxes and edges by name, in the block's own coordinates."""

    boxes: dict[str, Rectangle]
    groups: dict[str, Rectangle]
    edges: list[tuple[EdgeInfo, str, str, tuple[Point, ...]]]
    width: float
    height: float


@frozen
class RunOverlay:
    """What a drawing of a run shows beyond the graph. ``notes``: a second line by step; ``growing``: the seconds in it
    that grow; ``links``: addresses by step.

    ``folded``: steps that contain others; ``similar``: of those, how many similar ones; ``lengths``: how long each ran,
    in seconds, where durations are compared; ``chosen``: the selected step; ``stopped``: what a stopped step is called;
    ``closing``: the address that folds an open sub-workflow.
    """

    notes: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, float] = field(default_factory=dict)
    links: Callable[[str], str] | None = None
    closing: Callable[[str], str] | None = None
    folded: Container[str] = ()
    similar: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[str, float] = field(default_factory=dict)
    chosen: str = ""
    stopped: str = "stopped"


def layout(
    description: Description,
    board: Board | None = None,
    taken: Container[tuple[str, str]] | None = None,
    extras: RunOverlay | None = None,
) -> Drawing:
    """Return the drawing. ``board``: step name -> counts by state, a mapping or an object with attributes.

    ``taken``: the edges the run took; without it, those between a step that is done and one that started.
    """
    description = with_parents(description)
    tree, extras = _Tree(description), extras or RunOverlay()
    counts, sideways = board or {}, not FEW < len(description.steps) < MANY
    widths, height = _widths(description.steps, counts, extras), TALL if extras.notes else HEIGHT
    widest = max(widths.values(), default=0.0)
    sizes = {name: (height, width) if sideways else (widest, height) for name, width in widths.items()}
    block = _place_level(tree, None, sizes, sideways)

    def turn(box: Rectangle) -> Rectangle:
        return replace(box, x=box.y, y=box.x, width=box.height, height=box.width) if sideways else box

    nodes = tuple(
        _node(tree.steps[name], turn(box), counts.get(name), board is not None, extras)
        for name, box in block.boxes.items()
    )
    across, along = (block.height, block.width) if sideways else (block.width, block.height)
    if taken is None:
        begun = {node.name: node.state for node in nodes if node.state != "idle"}
        taken = {(edge.source, edge.target) for edge in description.edges if begun.get(edge.source) == "done"}
        taken = {pair for pair in taken if pair[1] in begun}
    return Drawing(
        nodes=tuple(sorted(nodes, key=lambda node: (node.x, node.y) if sideways else (node.y, node.x))),
        edges=_edges(block, taken, sideways),
        groups=tuple(_group(tree.steps[name], turn(box), extras) for name, box in block.groups.items()),
        width=round(across + MARGIN * 2 + (0 if sideways else 20)),
        height=round(along + MARGIN * 2 + LOOP * any(edge.source == edge.target for edge in description.edges)),
        longest=max(extras.lengths.values(), default=0.0),
    )


class _Tree:
    """Steps by their sub-workflow; every edge belongs to the level where its ends part."""

    def __init__(self, description: Description) -> None:
        self.steps = {step.name: step for step in description.steps}
        self.inside: dict[str | None, list[str]] = {}
        for step in description.steps:
            self.inside.setdefault(self.parent(step.name), []).append(step.name)
        self.edges: dict[str | None, dict[tuple[str, str], EdgeInfo]] = {}
        for edge in description.edges:
            self._add_edge(edge)

    def parent(self, name: str) -> str | None:
        """Return the step this one is folded into; None if that is unknown or circular."""
        seen, at = {name}, self.steps[name].parent
        while at is not None and at in self.steps and at not in seen:
            seen.add(at)
            at = self.steps[at].parent
        own = self.steps[name].parent
        return own if at is None and own in self.steps else None

    def _add_edge(self, edge: EdgeInfo) -> None:
        if edge.source not in self.steps or edge.target not in self.steps:
            return
        source, target = self._line(edge.source), self._line(edge.target)
        depth = next((i for i, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), None)
        if depth is None and edge.source != edge.target:
            return
        at = len(source) - 1 if depth is None else depth
        pair = source[at], target[at]
        level = self.edges.setdefault(source[at - 1] if at else None, {})
        known = level.get(pair)
        level[pair] = _joined(known, edge) if known else edge

    def _line(self, name: str) -> list[str]:
        line = [name]
        while (above := self.parent(line[0])) is not None:
            line.insert(0, above)
        return line


def _joined(first: EdgeInfo, second: EdgeInfo) -> EdgeInfo:
    labels = dict.fromkeys(label for label in (first.label, second.label) if label)
    return first.model_copy(update={"label": " / ".join(labels)})


def _widths(steps: tuple[StepInfo, ...], board: Board, extras: RunOverlay) -> dict[str, float]:
    """Return the width of each step: that of its text, within limits, in steps so that few widths differ."""
    found = {}
    for step in steps:
        title = len(_title(step)) * CHAR + room_for(_progress_text(board.get(step.name)))
        note = len(extras.notes.get(step.name, "")) * NOTE_CHAR + room_for("")
        found[step.name] = min(max(NARROW, math.ceil(max(title, note) / STEP) * STEP), WIDE)
    return found


def _place_level(tree: _Tree, level: str | None, size: Mapping[str, Point], sideways: bool) -> _Block:
    """Return the steps of a level, placed from top to bottom; a step with steps inside is as large as they need.

    ``sideways``: the drawing will be turned, so that titles of frames and labels take their place beside.
    """
    names = tree.inside.get(level, [])
    inner = {name: _place_level(tree, name, size, sideways) for name in names if tree.inside.get(name)}
    x, y = (FRAME_TOP, FRAME) if sideways else (FRAME, FRAME_TOP)
    sizes = [
        (inner[name].width + FRAME + x, inner[name].height + FRAME + y) if name in inner else size[name]
        for name in names
    ]
    number = {name: index for index, name in enumerate(names)}
    edges = tree.edges.get(level, {})
    labels = {number[b]: 0.0 for _, b in edges}
    for (_, b), info in edges.items():
        room = width_of(_label(info)) + 2 * ARROW if sideways else LABELLED
        labels[number[b]] = max(labels[number[b]], room if _label(info) else 0.0)
    drawn = place_boxes(sizes, [(number[a], number[b]) for a, b in edges if a != b], labels)
    block = _Block(boxes={}, groups={}, edges=[], width=drawn.width, height=drawn.height)
    for name in names:
        _fill(block, name, drawn.boxes[number[name]], inner.get(name), (x, y))
    lanes: Counter[str] = Counter()
    for (a, b), info in edges.items():
        source, target = drawn.boxes[number[a]], drawn.boxes[number[b]]
        bends = drawn.bends.get((number[a], number[b]), ())
        block.edges.append((info, *(loop(source) if a == b else route(source, target, bends, lanes[b]))))
        lanes[b] += a != b and target.y <= source.y
    return block


def _fill(block: _Block, name: str, box: Rectangle, inner: _Block | None, pad: Point) -> None:
    """Put a step, or the whole block of a sub-workflow, at its position."""
    if inner is None:
        block.boxes[name] = box
        return
    x, y = box.x - box.width / 2 + pad[0], box.y - box.height / 2 + pad[1]
    block.groups[name] = box
    block.groups |= {key: _moved(value, x, y) for key, value in inner.groups.items()}
    block.boxes |= {key: _moved(value, x, y) for key, value in inner.boxes.items()}
    block.edges += [
        (info, _shifted(path, x, y), _shifted(head, x, y), tuple((a + x, b + y) for a, b in points))
        for info, path, head, points in inner.edges
    ]


def _moved(box: Rectangle, x: float, y: float) -> Rectangle:
    return replace(box, x=box.x + x, y=box.y + y)


def _shifted(path: str, x: float, y: float) -> str:
    """Return path data moved: absolute commands are M and C alone, numbers come in pairs."""
    parts: list[str] = []
    for piece in path.replace("M", "|M").replace("C", "|C").split("|")[1:]:
        command, rest = piece[0], piece[1:]
        cutoff = next((i for i, char in enumerate(rest) if char.isalpha()), len(rest))
        numbers = [float(n) for n in rest[:cutoff].split()]
        moved = " ".join(f"{n + (x if i % 2 == 0 else y):.1f}" for i, n in enumerate(numbers))
        parts.append(f"{command}{moved}{rest[cutoff:]}")
    return "".join(parts)


def _title(step: StepInfo) -> str:
    return step.title or humanize(step.name.replace("/", ".").rpartition(".")[2] or step.name)


def _state_count(counts: Any, state: str) -> int:
    if counts is None:
        return 0
    return int((counts.get(state) if isinstance(counts, Mapping) else getattr(counts, state, 0)) or 0)


def _progress_text(counts: Any) -> str:
    """Return the progress of a step that runs more than once: ``3/5``."""
    total = sum(_state_count(counts, state) for state in ORDER)
    return f"{_state_count(counts, 'done')}/{total}" if total > 1 else ""


def _node(step: StepInfo, box: Rectangle, counts: Any, shows_state: bool, extras: RunOverlay) -> DrawnStep:
    return DrawnStep(
        name=step.name,
        title=_title(step),
        x=box.x - box.width / 2 + MARGIN,
        y=box.y - box.height / 2 + MARGIN,
        width=box.width,
        height=box.height,
        state=next((state for state in ORDER if _state_count(counts, state)), "idle"),
        person=step.person,
        counts=_progress_text(counts),
        stopped=extras.stopped,
        shows_state=shows_state,
        note=extras.notes.get(step.name, ""),
        growing=extras.growing.get(step.name),
        address=extras.links(step.name) if extras.links else "",
        folded=step.name in extras.folded,
        similar=extras.similar.get(step.name, 0),
        heat=_heat(extras.lengths.get(step.name), extras.lengths),
        chosen=step.name == extras.chosen,
    )


def _group(step: StepInfo, box: Rectangle, extras: RunOverlay) -> GroupDrawing:
    x, y = box.x - box.width / 2 + MARGIN, box.y - box.height / 2 + MARGIN
    address = extras.closing(step.name) if extras.closing else ""
    return GroupDrawing(
        name=step.name, title=_title(step), x=x, y=y, width=box.width, height=box.height, address=address
    )


def _heat(length: float | None, lengths: Mapping[str, float]) -> int | None:
    """Return how long a step ran beside the longest, as a number from 0 to 4; None if it did not run."""
    longest = max(lengths.values(), default=0.0)
    if length is None or not longest:
        return None
    return next((heat for heat, share in enumerate(HEATS) if length <= share * longest), len(HEATS) - 1)


def _edges(block: _Block, taken: Container[tuple[str, str]], sideways: bool) -> tuple[DrawnArrow, ...]:
    """Return the edges with their labels; where several join, all have the label and the first one shows it."""
    joins: set[tuple[str, str]] = set()
    lines: list[LabelledLine] = []
    for info, _, _, points in block.edges:
        label, join = _label(info), (info.target, _label(info))
        shown = label if info.kind != "join" or join not in joins else ""
        joins |= {join} if info.kind == "join" else set()
        end = block.boxes.get(info.target)
        line = LabelledLine(points=points, label=shown, sideways=sideways)
        above = ((end.x, end.y - (end.height + line.size[1]) / 2 - ABOVE),) if end and info.kind == "join" else ()
        lines.append(replace(line, spots=above))
    spots = [spot[::-1] if sideways else spot for spot in place_labels(lines, block.boxes.values())]
    return tuple(
        DrawnArrow(
            source=info.source,
            target=info.target,
            path=_shifted(turned(path) if sideways else path, MARGIN, MARGIN),
            head=_shifted(turned(head) if sideways else head, MARGIN, MARGIN),
            kind=info.kind,
            label=_label(info),
            label_x=spot[0] + MARGIN,
            label_y=spot[1] + MARGIN,
            labelled=bool(line.label),
            travelled=(info.source, info.target) in taken,
        )
        for (info, path, head, _), line, spot in zip(block.edges, lines, spots, strict=True)
    )


def _label(info: EdgeInfo) -> str:
    return cut(info.label or EDGE_WORDS.get(info.kind, ""))


# Folding of sub-workflows, and of similar steps, into one step each, until a person opens them. Pure.

ALL = "*"
"""Opens every sub-workflow and every group of similar steps."""
SIMILAR = "similar:"
"""How the name of such a group begins; the name of a step contains no colon."""
LEAST_SIMILAR = 4
MOST_APART = 3
"""Steps of a group that are drawn beside it, because they need attention."""


@frozen
class Folded:
    """A graph with sub-workflows and similar steps folded. ``names``: step -> the drawn step.

    ``folded``: drawn steps that contain others. ``similar``: of those, the groups, with their steps; ``groups``: all
    that could be folded.
    """

    description: Description
    names: dict[str, str]
    folded: frozenset[str]
    similar: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()


def with_parents(description: Description) -> Description:
    """Return the graph with a step for every sub-workflow that is named as a parent only."""
    known = {step.name for step in description.steps}
    added: dict[str, StepInfo] = {}
    waiting = [step.parent for step in description.steps if step.parent]
    while waiting:
        name = waiting.pop()
        if name not in known and name not in added:
            above = name.rpartition("/")[0] or None
            added[name] = StepInfo(name=name, parent=above)
            waiting += [above] if above else []
    return description.model_copy(update={"steps": (*description.steps, *added.values())}) if added else description


def fold(description: Description, opened: Container[str] = (), apart: Collection[str] = ()) -> Folded:
    """Return the graph with everything folded that is not among ``opened``; edges within are left out.

    ``apart``: steps that are drawn beside the similar ones: the chosen one, and those that need attention.
    """
    description = with_parents(description)
    parents = {step.name: step.parent for step in description.steps}
    names = {name: _drawn_as(name, parents, opened) for name in parents}
    inner = _drawn(description, names)
    groups = frozenset[str]()
    similar: dict[str, tuple[str, ...]] = {}
    for branches in _similar_branches(inner):
        called = [f"{SIMILAR}{step}" for step in branches[0]]
        groups |= frozenset(called)
        kept = _without(branches, apart)
        if len(kept) > 1 and ALL not in opened and not any(name in opened for name in called):
            similar |= dict(zip(called, zip(*kept, strict=True), strict=True))
    into = {step: name for name, steps in similar.items() for step in steps}
    names = {name: into.get(shown, shown) for name, shown in names.items()}
    return Folded(
        description=_with_groups(inner, similar, into),
        names=names,
        folded=frozenset(shown for name, shown in names.items() if name != shown),
        similar=similar,
        groups=groups,
    )


def _drawn(description: Description, names: Mapping[str, str]) -> Description:
    """Return the graph of the drawn steps: edges between them, each once."""
    edges: dict[tuple[str, str], EdgeInfo] = {}
    for edge in description.edges:
        source, target = names.get(edge.source, edge.source), names.get(edge.target, edge.target)
        if source != target or edge.source == edge.target:
            edges.setdefault((source, target), edge.model_copy(update={"source": source, "target": target}))
    kept = tuple(step for step in description.steps if names.get(step.name, step.name) == step.name)
    return description.model_copy(update={"steps": kept, "edges": tuple(edges.values())})


Branch = tuple[str, ...]


def _similar_branches(description: Description) -> list[list[Branch]]:
    """Return the branches between the very same others that have the same shape: as many steps in a row, led to,
    joined and left by edges of the same kind and label.
    """
    steps = {step.name: step for step in description.steps}
    frames = {step.parent for step in description.steps}
    into, out = defaultdict[str, list[EdgeInfo]](list), defaultdict[str, list[EdgeInfo]](list)
    for edge in description.edges:
        out[edge.source].append(edge)
        into[edge.target].append(edge)
    after = {
        edge.source: edge
        for edge in description.edges
        if len(out[edge.source]) == len(into[edge.target]) == 1 and edge.source != edge.target
        if {edge.source, edge.target} <= steps.keys() - frames
        if steps[edge.source].parent == steps[edge.target].parent
    }
    begun = {edge.target for edge in after.values()}
    found = defaultdict[object, list[Branch]](list)
    for step in description.steps:
        if step.name in frames or step.name in begun:
            continue
        branch = [step.name]
        while branch[-1] in after:
            branch.append(after[branch[-1]].target)
        within = [(steps[name].person, after[name].kind, after[name].label) for name in branch[:-1]]
        led = frozenset((edge.source, edge.kind, edge.label) for edge in into[branch[0]])
        left = frozenset((edge.target, edge.kind, edge.label) for edge in out[branch[-1]])
        if led or left:
            found[step.parent, steps[branch[-1]].person, *within, led, left].append(tuple(branch))
    return [branches for branches in found.values() if len(branches) >= LEAST_SIMILAR]


def _without(branches: list[Branch], apart: Collection[str]) -> list[Branch]:
    """Return the branches of a group without those that are drawn apart; all of them where those are many."""
    rest = [branch for branch in branches if not any(step in apart for step in branch)]
    return rest if len(branches) - len(rest) <= MOST_APART else branches


def _with_groups(
    description: Description, similar: Mapping[str, tuple[str, ...]], into: Mapping[str, str]
) -> Description:
    """Return the graph with one step per group, where its first one was."""
    firsts = {steps[0]: name for name, steps in similar.items()}
    drawn = _drawn(description, into)
    titles = {step.name: step.title or step.name.rpartition("/")[2] for step in description.steps}
    steps = [
        _group_step(step, firsts[step.name], [titles[name] for name in similar[firsts[step.name]]])
        if step.name in firsts
        else step
        for step in description.steps
        if step.name in firsts or step.name not in into
    ]
    return drawn.model_copy(update={"steps": tuple(steps)})


def _group_step(first: StepInfo, name: str, titles: list[str]) -> StepInfo:
    """Return the step that represents a group: called by what its steps' titles have in common."""
    # An end counts from a whole word on.
    end = re.sub(r"^[^ _.:-]*[ _.:-]*", "", _beginning([title[::-1] for title in titles])[::-1])
    common = _beginning(titles).rstrip("0123456789 -_.:#(") or end
    title = f"{humanize(common)} ×{len(titles)}" if common.strip() else f"{len(titles)} similar"
    return StepInfo(name=name, title=title, person=first.person, parent=first.parent)


def _beginning(titles: list[str]) -> str:
    letters = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*titles, strict=False))
    return "".join(one for one, *_ in letters)


def _drawn_as(name: str, parents: dict[str, str | None], opened: Container[str]) -> str:
    """Return the outermost closed sub-workflow around a step, or the step itself; circular parents have none."""
    line = [name]
    while (above := parents.get(line[-1])) is not None and above in parents:
        if above in line:
            return name
        line.append(above)
    return next((one for one in reversed(line[1:]) if ALL not in opened and one not in opened), name)
