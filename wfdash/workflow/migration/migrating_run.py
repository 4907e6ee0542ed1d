"""A migrating run: its steps renamed, dropped, or moved to another step, and its check against the new graph. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.values.codec import codec_for, type_name
from wfdash.workflow.authoring import StepChange
from wfdash.workflow.compiler.graph import Graph, JoinRule, Node, StateRule
from wfdash.workflow.compiler.plan import ENTRY
from wfdash.workflow.errors import WorkflowError
from wfdash.workflow.reducer.moment import group_prefix
from wfdash.workflow.reducer.routing import unpack
from wfdash.workflow.stored import Activation, GroupState, JoinState, Packed, Position, Rounds, unsure_calls

Names = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MigratingRun:
    """A checkpoint's content on its way to another graph."""

    state: dict[str, Json]
    position: Position
    requests: dict[RequestKey, Request]
    closed: tuple[RequestKey, ...] = ()
    words: tuple[str, ...] = ()
    names: Names = field(default_factory=dict)
    ended: tuple[str, ...] = ()

    def steps(self) -> set[str]:
        """Return every step that is in progress or has collected values."""
        live = {record["step"] for record in self.position["live"].values()}
        return live | {entry["t"] for entry in self.position["joins"].values()}

    def noting(self, *words: str) -> MigratingRun:
        """Return it with additional sentences."""
        return replace(self, words=(*self.words, *words))


@dataclass(frozen=True)
class Renaming:
    """New names of steps; the name of a sub-workflow counts for every step in it."""

    names: Names

    def of(self, name: str) -> str:
        """Return a node's new name."""
        path, tail = name.removesuffix(ENTRY), ENTRY if name.endswith(ENTRY) else ""
        parts = path.split("/")
        for depth in range(len(parts), 0, -1):
            new = self.names.get("/".join(parts[:depth]))
            if new is not None:
                return "/".join([new, *parts[depth:]]) + tail
        return name

    def packed(self, packed: Packed) -> Packed:
        """Return a packed value that names its producer by the new name."""
        code, data = packed
        if code == "*":
            return ["*", [self.packed(part) for part in data]]
        if not isinstance(code, str):
            return packed
        mark = next(mark for mark in "*:<" if mark in code)
        name, index = code.rsplit(mark, 1)
        return [f"{self.of(name)}{mark}{index}", data]

    def state(self, key: str) -> str:
        """Return a state key; those of a sub-workflow start with its name."""
        prefix, slash, own = key.rpartition("/")
        return f"{self.of(prefix)}/{own}" if slash else key

    def live(self, record: Activation) -> Activation:
        """Return an activation."""
        fresh: Activation = {**record, "step": self.of(record["step"]), "message": self.packed(record["message"])}
        if fresh["step"] != record["step"]:
            # External systems know its calls by the first name: another key would be another payment.
            fresh.setdefault("called", record["step"])
        if rounds := record.get("rounds"):
            fresh["rounds"] = self._rounds(rounds)
        return fresh

    def join(self, entry: JoinState | GroupState) -> JoinState | GroupState:
        """Return what a join has collected."""
        fresh = entry.copy()
        fresh["t"] = self.of(entry["t"])
        if "group" in fresh:
            fresh["got"] = [[scope, self.packed(one)] for scope, one in fresh["got"]]
            if loose := fresh.get("loose"):
                fresh["loose"] = self.packed(loose)
        else:
            fresh["got"] = {place: [self.packed(one) for one in values] for place, values in fresh["got"].items()}
        if rounds := entry.get("rounds"):
            fresh["rounds"] = self._rounds(rounds)
        return fresh

    def _rounds(self, rounds: Rounds) -> Rounds:
        return {self.of(name): turn for name, turn in rounds.items()}

    def key(self, key: str) -> str:
        """Return a join's key."""
        name, rest = key.split("@", 1)
        return f"{self.of(name)}@{rest}"


def rename(run: MigratingRun, names: Names) -> MigratingRun:
    """Return it with the steps renamed."""
    new = Renaming(names)
    old = run.position
    position: Position = {
        **old,
        "live": {activation: new.live(record) for activation, record in old["live"].items()},
        "joins": {new.key(key): new.join(entry) for key, entry in old["joins"].items()},
        "outputs": [new.packed(one) for one in old["outputs"]],
        "loose": new.packed(old["loose"]) if old["loose"] else old["loose"],
        "wrote": {new.state(key): [version, new.of(step)] for key, (version, step) in old["wrote"].items()},
        "past": {new.state(key): entries for key, entries in old["past"].items()},
    }
    requests = {key: r.model_copy(update={"step": new.of(r.step)}) for key, r in run.requests.items()}
    state = {new.state(key): value for key, value in run.state.items()}
    called = {old: new.of(name) for old, name in run.names.items()} | dict(names)
    return replace(run, state=state, position=position, requests=requests, names=called)


def lies_in(name: str, step: str) -> bool:
    """Return whether a node is this step, or belongs to this sub-workflow."""
    return name in {step, step + ENTRY} or name.startswith(step + "/")


def drop(run: MigratingRun, step: str) -> MigratingRun:
    """Return it without a step's activations and what it collected."""
    doomed = [activation for activation, record in run.position["live"].items() if lies_in(record["step"], step)]
    live = {activation: record for activation, record in run.position["live"].items() if activation not in doomed}
    joins = {key: entry for key, entry in run.position["joins"].items() if not lies_in(entry["t"], step)}
    fresh = replace(_withdrawn(run, doomed), position={**run.position, "live": live, "joins": joins})
    return _unasked(fresh, doomed)


def move(run: MigratingRun, step: str, to: str) -> MigratingRun:
    """Return it with ``to`` about to start in place of each activation of ``step``."""
    moved = [activation for activation, record in run.position["live"].items() if record["step"] == step]
    live = {key: _afresh(record, to) if key in moved else record for key, record in run.position["live"].items()}
    return _unasked(replace(_withdrawn(run, moved), position={**run.position, "live": live}), moved)


def _afresh(record: Activation, to: str) -> Activation:
    fresh: Activation = {"step": to, "message": record["message"], "scope": record["scope"], "journal": []}
    if "rounds" in record:
        fresh["rounds"] = record["rounds"]
    return fresh


def _withdrawn(run: MigratingRun, activations: list[str]) -> MigratingRun:
    """Return it with the questions of activations closed; refuse where the outcome of their calls is unknown."""
    for activation in activations:
        record = run.position["live"][activation]
        if unsure := unsure_calls(record):
            raise Incompatible(
                f"step {record['step']!r}: the outcome of {unsure[0]!r} is unknown, so it cannot be moved or "
                "dropped: run the old code until that is answered"
            )
    keys = tuple(key for key, (activation, _) in run.position["asked"].items() if activation in activations)
    requests = {key: request for key, request in run.requests.items() if key not in keys}
    return replace(run, requests=requests, closed=(*run.closed, *keys))


def _unasked(run: MigratingRun, activations: list[str]) -> MigratingRun:
    asked = {key: place for key, place in run.position["asked"].items() if place[0] not in activations}
    return replace(run, position={**run.position, "asked": asked}, ended=(*run.ended, *activations))


APPLY: dict[str, Callable[[MigratingRun, StepChange], MigratingRun]] = {
    "rename": lambda run, change: rename(run, {change.step: change.to}),
    "drop": lambda run, change: drop(run, change.step),
    "move": lambda run, change: move(run, change.step, change.to),
}
CHANGE_TEXTS = {
    "rename": "{step} was renamed {to}",
    "drop": "{count} running in {step} ended without a result{lost}",
    "move": "{count} running in {step} started again as {to}{lost}",
}


def apply_change(run: MigratingRun, change: StepChange) -> MigratingRun:
    """Return it after one change of a hook; steps that are not in progress need no sentence."""
    records = [record for record in run.position["live"].values() if lies_in(record["step"], change.step)]
    if change.verb != "rename" and not records:
        return APPLY[change.verb](run, change)
    lost = [entry["name"] for record in records for entry in record["journal"] if entry["k"] == "call"]
    note = f", forgetting its calls: {', '.join(lost)}" if lost else ""
    words = CHANGE_TEXTS[change.verb].format(step=change.step, to=change.to, count=len(records), lost=note)
    return APPLY[change.verb](run, change).noting(words)


# -- the check against its new graph: every step exists, every value decodes, every join can close

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
