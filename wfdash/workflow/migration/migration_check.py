"""Check of a migrated run against its new graph: every step exists, every value decodes, every join can close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.records import Json
from wfdash.values.codec import codec_for
from wfdash.values.type_names import type_name
from wfdash.workflow.compiler.graph import Graph, JoinRule, Node, StateRule
from wfdash.workflow.errors import WorkflowError
from wfdash.workflow.migration.migration_ops import MigratingRun
from wfdash.workflow.reducer.moment_builder import group_prefix
from wfdash.workflow.reducer.routing import unpack
from wfdash.workflow.stored.position import Activation, GroupState, JoinState, Packed

BROKEN = (WorkflowError, KeyError, IndexError, ValueError, TypeError)


@dataclass(frozen=True)
class MigrationCheck:
    """A migrating run, adapted to a graph; ``problems`` says what is not valid.

    ``before``: step -> its message type in the old graph, for those with another one now. ``rerouted``: steps that have
    other incoming edges now.
    """

    graph: Graph
    before: Mapping[str, str] = field(default_factory=dict)
    rerouted: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)

    def fitted(self, run: MigratingRun) -> MigratingRun:
        """Return it with its values encoded for the graph's own types, and new state keys at their defaults."""
        live = {key: self._live(record, run.position["joins"]) for key, record in run.position["live"].items()}
        joins = {key: self._join(entry) for key, entry in run.position["joins"].items()}
        state, fresh = self._checked_state(run.state)
        words = (f"state gets {', '.join(fresh)} at its default",) if fresh else ()
        return replace(run, state=state, position={**run.position, "live": live, "joins": joins}).noting(*words)

    def _live(self, record: Activation, joins: Mapping[str, JoinState | GroupState]) -> Activation:
        node = self.graph.nodes.get(record["step"])
        if node is None:
            self.problems.append(
                f"step {record['step']!r} is running and is not in this graph: "
                "a migrate hook has to rename, move or drop it"
            )
            return record
        self.problems.extend(self._scope_problems(node, record["scope"], joins))
        return {**record, "message": self._refit(node, record["message"])}

    def _scope_problems(self, node: Node, scope: str, joins: Mapping[str, JoinState | GroupState]) -> Iterator[str]:
        if scope.count("/") != len(node.path):
            yield f"step {node.name!r} is in different maps or sub-workflows than where it is running"
            return
        for depth, opens in enumerate(node.path):
            for closer in self.graph.closers.get(opens, ()):
                rule = self.graph.nodes[closer].join
                reached = rule is not None and node.name in rule.reach_any
                if reached and f"{closer}@{group_prefix(scope, depth)}" not in joins:
                    yield f"{closer!r} collects from {node.name!r} now, but not when this run came there"

    def _join(self, entry: JoinState | GroupState) -> JoinState | GroupState:
        node = self.graph.nodes.get(entry["t"])
        rule = node.join if node is not None else None
        if node is None or rule is None or (rule.kind == "join") == ("group" in entry):
            self.problems.append(f"{entry['t']!r} has collected values and does not collect in this graph")
            return entry
        if entry["scope"].count("/") != len(node.path):
            self.problems.append(f"{node.name!r} is in different maps or sub-workflows than where it collects")
        if node.name in self.rerouted and rule.kind == "join":
            self.problems.append(f"{node.name!r} has collected values and comes after other steps now")
        return self._group(node, entry) if "group" in entry else self._sources(node, rule, entry)

    def _group(self, node: Node, entry: GroupState) -> GroupState:
        fresh: GroupState = {**entry, "got": [[scope, self._refit(node, one)] for scope, one in entry["got"]]}
        if loose := entry.get("loose"):
            fresh["loose"] = self._refit(node, loose)
        return fresh

    def _sources(self, node: Node, rule: JoinRule, entry: JoinState) -> JoinState:
        if any(int(place) >= rule.places for place in entry["got"]):
            self.problems.append(f"{node.name!r} has collected from more steps than lead to it now")
        got = {place: [self._refit(node, one) for one in values] for place, values in entry["got"].items()}
        return {**entry, "got": got}

    def _refit(self, node: Node, packed: Packed) -> Packed:
        try:
            return self._written_for(node, packed)
        except BROKEN as error:
            gone = isinstance(error, KeyError)
            reason = f"it was made by {error}, which is not in this graph" if gone else str(error)
            self.problems.append(f"step {node.name!r}: its input does not match: {reason}")
            return packed

    def _written_for(self, node: Node, packed: Packed) -> Packed:
        code, data = packed
        if not node.takes_message:
            return [None, None]
        if code == "*":
            return ["*", [self._written_for(node, part) for part in data]]
        if node.accepts is None:
            fresh: Packed = [None, data] if isinstance(code, int) else packed
            unpack(self.graph, node, fresh)
            return fresh
        return [self._member(node, code, data), data]

    def _member(self, node: Node, code: Any, data: Json) -> int:
        """Return the index of the value's type among the node's."""
        fitting = {}
        for index, codec in enumerate(node.accepts or ()):
            try:
                codec.decode(data)
                fitting[index] = type_name(codec.kind)
            except BROKEN as error:
                reason = error
        if not fitting:
            raise reason
        names = self.before.get(node.name, "").split(" | ")
        named = names[code] if isinstance(code, int) and node.name in self.before and code < len(names) else None
        same = [index for index, name in fitting.items() if name == named]
        if same:
            return same[0]
        if isinstance(code, int) and code in fitting and node.name not in self.before:
            return code
        if len(fitting) > 1:
            raise ValueError(f"it could be any of {', '.join(fitting.values())}")
        return next(iter(fitting))

    def _checked_state(self, state: Mapping[str, Json]) -> tuple[dict[str, Json], list[str]]:
        rule = self.graph.state
        self.problems.extend(state_problems(rule, state, ": a migrate hook has to remove it"))
        fresh = rule.fresh(but=state)
        return {**state, **fresh}, list(fresh)


def state_problems(rule: StateRule, state: Mapping[str, Json], remedy: str = "") -> Iterator[str]:
    """Yield what the declared model does not accept of a state. ``remedy``: for a key that it does not have."""
    for key, value in state.items():
        prefix = key.rpartition("/")[0]
        if (f"{prefix}/" if prefix else "") in rule.typed and key not in rule.codecs:
            yield f"state has {key!r}, which its model does not{remedy}"
            continue
        try:
            rule.codecs.get(key, codec_for(Any)).decode(value, f"state.{key}")
        except BROKEN as error:
            yield str(error)
