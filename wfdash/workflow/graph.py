"""What a definition becomes before it runs: a plan, then a graph.

The plan has its sub-workflows flattened to named steps and edges. The graph is immutable, with everything computed that
does not depend on a run; ``build`` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Protocol

from checkpoints.records import JsonObject, frozen
from wfdash.questions.policy import Policy
from wfdash.values.codec import Codec
from wfdash.workflow.authoring import (
    After,
    Case,
    Each,
    Function,
    Gather,
    Join,
    MigrationHook,
    Rate,
    Retry,
    Signature,
    Source,
    Step,
    read_signature,
)
from wfdash.workflow.errors import InvalidWorkflow

ENTRY = ">"
"""``name>`` is the hidden entry of the sub-workflow ``name``; ``name`` itself is its hidden exit."""


class Definition(Protocol):
    """The compiler's view of a workflow."""

    name: str
    max_steps: int
    policy: Policy | None
    state: Any
    reducers: Mapping[str, Callable[[Any, Any], Any]]

    @property
    def steps(self) -> Mapping[str, Step]:
        """Return the declared steps by name."""

    @property
    def subs(self) -> Mapping[str, Sub]:
        """Return the declared sub-workflows by name."""

    @property
    def hooks(self) -> tuple[MigrationHook, ...]:
        """Return the declared migrations, in order."""


@frozen
class Sub:
    """A workflow used as a step of another."""

    name: str
    child: Definition
    start: bool = False
    after: After | None = None
    when: Callable[[Any], Any] | None = None
    otherwise: bool = False
    was: tuple[str, ...] = ()


@frozen
class PlannedStep:
    """A node under construction."""

    name: str
    step: Step
    signature: Signature
    start: bool = False
    follow_up: bool = False
    parent: str | None = None
    hidden: bool = False
    after: After | None = None


@frozen
class PlannedEdge:
    """An edge under construction. ``case``: the branch of a switch it takes."""

    source: str
    target: str
    kind: str = "plain"
    place: int = 0
    when: Callable[[Any], Any] | None = None
    otherwise: bool = False
    case: Case | None = None
    opens: str | None = None
    label: str = ""
    """The template that names the items of the map it opens."""


@dataclass
class GraphPlan:
    """Everything that was declared, flat, with the problems found so far."""

    places: dict[str, PlannedStep] = field(default_factory=dict)
    links: list[PlannedEdge] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    namespaces: dict[str, Definition] = field(default_factory=dict)


def draw_plan(definition: Definition) -> GraphPlan:
    """Return the flattened definition. Problems are collected, not raised, so that all are reported at once."""
    plan = GraphPlan()
    _add_level(plan, definition, "", None, ())
    return plan


def _add_level(
    plan: GraphPlan, level: Definition, prefix: str, parent: str | None, around: tuple[Definition, ...]
) -> None:
    plan.namespaces[prefix] = level
    for step in level.steps.values():
        _add_step(plan, step, prefix, parent)
    for sub in level.subs.values():
        _add_sub(plan, sub, prefix, parent, (*around, level))
    declared: list[tuple[str, Step | Sub]] = [*level.steps.items(), *((n + ENTRY, s) for n, s in level.subs.items())]
    for name, item in declared:
        _add_links(plan, level, prefix, prefix + name, item)
    if not any(item.start for _, item in declared):
        plan.problems.append(f"workflow {level.name!r} has no step with start=True")


def _add_step(plan: GraphPlan, step: Step, prefix: str, parent: str | None) -> None:
    try:
        signature = read_signature(step)
    except InvalidWorkflow as error:
        plan.problems.append(str(error))
        signature = Signature(order=(), takes=Any, gives=Any, is_async=True)
    name = prefix + step.name
    # Only a run is followed up, never the part of one that a sub-workflow is.
    taking = step.follow_up and parent is None
    plan.places[name] = PlannedStep(
        name=name,
        step=step,
        signature=signature,
        start=step.start,
        follow_up=taking,
        parent=parent,
        after=step.after,
    )


async def pass_on(message: Any) -> Any:
    """Return the message: the function of the hidden nodes around a sub-workflow."""
    return message


def _add_hidden(
    plan: GraphPlan, name: str, parent: str | None, *, start: bool = False, after: After | None = None
) -> None:
    signature = Signature(order=("message",), takes=Any, gives=Any, is_async=True)
    step = Step(name=name, function=pass_on)
    plan.places[name] = PlannedStep(
        name=name, step=step, signature=signature, start=start, parent=parent, hidden=True, after=after
    )


def _add_sub(plan: GraphPlan, sub: Sub, prefix: str, parent: str | None, around: tuple[Definition, ...]) -> None:
    name = prefix + sub.name
    _add_hidden(plan, name + ENTRY, parent, start=sub.start, after=sub.after)
    _add_hidden(plan, name, parent)
    if sub.child in around:
        plan.problems.append(f"workflow {sub.child.name!r} contains itself")
        return
    before = len(plan.links)
    _add_level(plan, sub.child, name + "/", name, around)
    inner = {f"{name}/{n}": s.start for n, s in sub.child.steps.items()}
    entries = {f"{name}/{n}{ENTRY}": s.start for n, s in sub.child.subs.items()}
    for start in [n for n, is_start in {**inner, **entries}.items() if is_start]:
        plan.links.append(PlannedEdge(source=name + ENTRY, target=start, kind="enter", opens=f"sub:{name}"))
    sources = {link.source for link in plan.links[before:]}
    ends = [n for n in [*inner, *(f"{name}/{n}" for n in sub.child.subs)] if n not in sources]
    plan.links += [PlannedEdge(source=end, target=name, kind="exit", place=place) for place, end in enumerate(ends)]


def _sources(after: After) -> tuple[str, tuple[Source, ...]]:
    if isinstance(after, Join):
        return "join", after.sources
    if isinstance(after, Gather):
        return "gather", after.sources
    if isinstance(after, Each):
        return "each", (after.source,)
    if isinstance(after, Sequence) and not isinstance(after, str):
        return "plain", tuple(after)
    return "plain", (after,)


def _add_links(plan: GraphPlan, level: Definition, prefix: str, target: str, declared: Step | Sub) -> None:
    if declared.after is None:
        return
    kind, sources = _sources(declared.after)
    if not sources:
        plan.problems.append(f"step {target!r}: after= names no step")
    for place, source in enumerate(sources):
        one, label = kind, declared.after.label if isinstance(declared.after, Each) else ""
        if isinstance(source, Each) and kind == "plain":
            one, label, source = "each", source.label, source.source
        name = _resolve(plan, level, prefix, target, source)
        if name is not None:
            case = source if isinstance(source, Case) else None
            plan.links.append(replace(_link(declared, name, target, one, place, case), label=label))


def _link(declared: Step | Sub, source: str, target: str, kind: str, place: int, case: Case | None) -> PlannedEdge:
    joins = kind in {"join", "gather"}
    return PlannedEdge(
        source=source,
        target=target,
        kind=kind,
        place=place,
        when=None if joins else declared.when,
        otherwise=declared.otherwise and not joins,
        case=case,
        opens=f"each:{source}" if kind == "each" else None,
    )


def _resolve(plan: GraphPlan, level: Definition, prefix: str, target: str, source: Any) -> str | None:
    if isinstance(source, Case):
        source = source.source
    name = source if isinstance(source, str) else getattr(source, "name", None)
    known: dict[str, Any] = {**level.steps, **level.subs}
    if name is None and callable(source):
        named = getattr(source, "__name__", "a function")
        plan.problems.append(
            f"step {target!r} comes after {named}, which is no step: decorate it with @{level.name}.step"
        )
        return None
    if name not in known:
        close_names = get_close_matches(str(name or source), [*level.steps, *level.subs], 1)
        close = f": did you mean {close_names[0]!r}?" if close_names else ""
        plan.problems.append(
            f"step {target!r} comes after {(name or source)!r}, which is no step of {level.name!r}{close}"
        )
        return None
    if not isinstance(source, str) and known[name] is not source:
        plan.problems.append(f"step {target!r} comes after {name!r} of another workflow")
        return None
    return prefix + str(name)


def outgoing(plan: GraphPlan) -> dict[str, list[PlannedEdge]]:
    """Return the edges by source."""
    found: dict[str, list[PlannedEdge]] = {name: [] for name in plan.places}
    for link in plan.links:
        found[link.source].append(link)
    return found


def incoming(plan: GraphPlan, target: str) -> Iterator[PlannedEdge]:
    """Yield the edges into a place."""
    return (link for link in plan.links if link.target == target)


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """An edge. ``kind``: plain, each, enter (into a sub-workflow), join, gather, exit (out of one)."""

    index: int
    source: str
    target: str
    kind: str = "plain"
    place: int = 0
    """The source's index among the target's sources."""
    when: Callable[[Any], Any] | None = None
    otherwise: bool = False
    switch: str | None = None
    key: Callable[[Any], Any] | None = None
    case: Any = None
    default: bool = False
    opens: str | None = None
    """The map or sub-workflow that this edge enters."""
    label: str = ""
    """The template that names the items of that map; no part of the signature."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinRule:
    """How a node collects. ``kind``: join, gather or exit."""

    kind: str
    places: int
    need: int | None = None
    single: bool = False
    when: Callable[[Any], Any] | None = None
    reach: tuple[frozenset[str], ...] = ()
    """Per source: the nodes from which a token can still arrive there, without passing the node itself."""
    reach_any: frozenset[str] = frozenset()
    cyclic: bool = False
    closes: str | None = None
    """The map or sub-workflow that a gather or exit closes."""


@frozen
class Node:
    """A step in its place. ``hidden``: the entry or exit of a sub-workflow, not shown to people."""

    name: str
    function: Function
    order: tuple[str, ...]
    is_async: bool
    takes: Any
    gives: Any
    accepts: tuple[Codec, ...] | None
    """Per member of the message type; None for untyped."""
    produces: tuple[Codec, ...] | None
    start: bool = False
    follow_up: bool = False
    retry: Retry | None = None
    timeout: float | None = None
    concurrency: int | None = None
    rate: Rate | None = None
    title: str = ""
    people: bool = False
    context: str = ""
    """The name of the function's context parameter."""
    message: str = ""
    """The name of its message parameter."""
    policy: Policy | None = None
    """The default policy of its requests."""
    parent: str | None = None
    hidden: bool = False
    looped: bool = False
    path: tuple[str, ...] = ()
    """The maps and sub-workflows around it, outermost first."""
    join: JoinRule | None = None
    out: tuple[Edge, ...] = ()

    @cached_property
    def takes_message(self) -> bool:
        """Whether the function has a message parameter."""
        return "message" in self.order

    @cached_property
    def whole_out(self) -> tuple[Edge, ...]:
        """The edges that take its value as it is."""
        return tuple(edge for edge in self.out if edge.kind != "each")

    @cached_property
    def item_out(self) -> tuple[Edge, ...]:
        """The edges that take the items of its value, one by one."""
        return tuple(edge for edge in self.out if edge.kind == "each")

    @property
    def ends(self) -> bool:
        """Return whether its value is an output of the run: nothing follows."""
        return not self.out


@frozen
class StateRule:
    """The declared state: types, defaults and reducers per (namespaced) key; ``open`` namespaces take any key."""

    codecs: Mapping[str, Codec] = field(default_factory=dict)
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    reducers: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    typed: frozenset[str] = frozenset()
    """Namespaces (``""``, ``"sub/"`` ...) that have a model: no other keys there."""

    def fresh(self, but: Collection[str] = ()) -> JsonObject:
        """Return what a state begins with: the defaults as JSON, without those of the keys in ``but``."""
        made = {key: make for key, make in self.defaults.items() if key not in but}
        return {key: self.codecs[key].encode(make(), f"state.{key}") for key, make in made.items()}


@frozen
class Level:
    """The top-level workflow, or one of its sub-workflows."""

    definition: Definition
    version: str
    """The signature of all of it: the version its migration hooks name."""
    own: str
    """The signature of its own steps only, without those of its sub-workflows."""

    @property
    def mark(self) -> list[str]:
        """Return what a position stores of it."""
        return [self.version, self.own]


@frozen
class Graph:
    """A valid workflow. Immutable, holds no run, shared by all runs of the definition."""

    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    state: StateRule
    version: str
    max_steps: int
    starts: tuple[str, ...]
    follow_ups: tuple[str, ...]
    """The steps that take the message which follows up on a completed run."""
    closers: Mapping[str, tuple[str, ...]]
    """Map or sub-workflow -> the nodes that close it."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Step or sub-workflow -> its last name part in earlier versions."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """The workflow itself (``""``) and every sub-workflow by name; empty if there are none."""

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The names of the fields that a type of a message calls secrets."""
        codecs = [codec for node in self.nodes.values() for codec in (*(node.accepts or ()), *(node.produces or ()))]
        return frozenset[str]().union(*(codec.secret_names for codec in codecs))

    @property
    def marks(self) -> dict[str, list[str]]:
        """Return what a position stores of the graph, beside its version."""
        return {name: level.mark for name, level in self.levels.items()}
