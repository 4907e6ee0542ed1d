"""The compiled workflow: immutable nodes and edges, with everything that does not depend on a run computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from checkpoints.records import Json
from wfdash.questions.policy import Policy
from wfdash.values.codec import Codec
from wfdash.workflow.authoring import Function, Retry
from wfdash.workflow.compiler.plan import Definition


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


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class StateRule:
    """The declared state: types, defaults and reducers per (namespaced) key; ``open`` namespaces take any key."""

    codecs: Mapping[str, Codec] = field(default_factory=dict)
    defaults: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    reducers: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    typed: frozenset[str] = frozenset()
    """Namespaces (``""``, ``"sub/"`` ...) that have a model: no other keys there."""

    def fresh(self, but: Collection[str] = ()) -> dict[str, Json]:
        """Return what a state begins with: the defaults as JSON, without those of the keys in ``but``."""
        made = {key: make for key, make in self.defaults.items() if key not in but}
        return {key: self.codecs[key].encode(make(), f"state.{key}") for key, make in made.items()}


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
