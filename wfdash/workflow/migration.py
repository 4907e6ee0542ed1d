"""Migration of a checkpoint from an older graph to the current one, or the reasons against it. Pure."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, EventDraft, Json, JsonObject, Request, frozen
from wfdash.contract import Carried
from wfdash.domain.graph_diff import GraphDiff
from wfdash.values.codec import check_plain, codec_for, type_name
from wfdash.workflow.authoring import Migration, MigrationHook, StepChange, find_path
from wfdash.workflow.build import combinations, earlier_names, signature, spelling_of
from wfdash.workflow.errors import InvalidCall, NotStorable, WorkflowError
from wfdash.workflow.graph import ENTRY, Graph, JoinRule, Level, Node, StateRule
from wfdash.workflow.reducer.moment import MomentBuilder, group_prefix, moment_of, scopes_in
from wfdash.workflow.reducer.reduce import settle
from wfdash.workflow.reducer.routing import unpack
from wfdash.workflow.reducer.ticks import Moment
from wfdash.workflow.stored import (
    Activation,
    GroupState,
    JoinState,
    Marks,
    Packed,
    Position,
    Rounds,
    position_in,
    unsure_calls,
)


def carry(
    graph: Graph,
    hooks: tuple[MigrationHook, ...],
    checkpoint: Checkpoint,
    difference: GraphDiff | None,
    *,
    override: bool = False,
) -> Carried:
    """Return the checkpoint under ``graph``: by hooks, by earlier names, or with ``override`` unchanged.

    ``Incompatible`` says what has changed as far as known (``graph_diff``), or what is not valid.
    """
    before = moment_of(checkpoint)
    run = MigratingRun(state=before.state, position=before.position, requests=before.requests)
    if override:
        how, run = "override", _renamed(run, _names_used(graph, run))
    else:
        how, run = _declared(graph, hooks, checkpoint, difference, run)
    check = MigrationCheck(graph, *_changes(difference))
    position = run.position.copy()
    position.pop("levels", None)
    if graph.levels:
        position["levels"] = graph.marks
    run = check.fitted(replace(run, position=position))
    if check.problems:
        listed = "; ".join(dict.fromkeys(check.problems))
        raise Incompatible(f"checkpoint {checkpoint.n} does not match this graph: {listed}", problems=check.problems)
    return _settled(graph, checkpoint, how, run)


def _declared(
    graph: Graph,
    hooks: tuple[MigrationHook, ...],
    checkpoint: Checkpoint,
    difference: GraphDiff | None,
    run: MigratingRun,
) -> tuple[str, MigratingRun]:
    path = find_path(hooks, checkpoint.version, graph.version)
    if path:
        return "hook", _run_hooks(path, run)
    below = hooks_below(graph.levels, run.position.get("levels", {}))
    if below:
        for inside, inner in below.items():
            run = _run_hooks(inner, run, f"{inside}/")
        return "hook", run
    names = _exact_names(graph, checkpoint.version, difference)
    if names is None and difference is not None:
        names = _names_used(graph, run)
        touched = {names.get(step, step) for step in run.steps()} & {change.step for change in difference.retyped}
        names = None if touched else names
    if not names:
        raise _no_way(graph, checkpoint, difference, run)
    return "alias", _renamed(run, names)


def _renamed(run: MigratingRun, names: Mapping[str, str]) -> MigratingRun:
    used = sorted(run.steps() & names.keys())
    return rename(run, names).noting(*(f"{step} was renamed {names[step]}" for step in used))


def _exact_names(graph: Graph, version: str, difference: GraphDiff | None) -> dict[str, str] | None:
    """Return old name -> name if the old graph differs from this one only in names, which its signature proves."""
    known = [spelling_of(graph, {change.new: change.old for change in difference.renamed})] if difference else []
    for spelt in chain(known, combinations(graph)) if graph.aliases else ():
        if signature(graph.nodes.values(), graph.edges, spelt) == version:
            return {old: name for name, old in spelt.items() if old != name}
    return None


def _names_used(graph: Graph, run: MigratingRun) -> dict[str, str]:
    """Return old name -> name, if a step in progress has an earlier name; else an empty dict."""
    known = {old: name for name, olds in earlier_names(graph).items() for old in olds if old not in graph.nodes}
    return known if run.steps() & known.keys() else {}


def _run_hooks(path: tuple[MigrationHook, ...], run: MigratingRun, inside: str = "") -> MigratingRun:
    """Return the run after hooks, one after the other; those of a sub-workflow see its ``inside``, by its own names."""
    for hook in path:
        live = [record["step"] for record in run.position["live"].values() if record["step"].startswith(inside)]
        own = {key.removeprefix(inside): value for key, value in run.state.items() if key.startswith(inside)}
        migration = Migration(own, Counter(step.removeprefix(inside) for step in live))
        outside = {key: value for key, value in run.state.items() if not key.startswith(inside)}
        state = outside | {inside + key: value for key, value in _call_hook(hook, migration).items()}
        words = _state_words(run.state, state)
        run = replace(run, state=state)
        for change in migration.changes:
            run = apply_change(run, change.inside(inside))
        run = run.noting(*words)
    return run


def _call_hook(hook: MigrationHook, migration: Migration) -> JsonObject:
    """Return the changed state of one hook; the run is not changed if it raises."""
    what = f"the migration from version {hook.from_version}"
    try:
        returned = hook.hook(migration)
        state = migration.state if returned is None else returned
        if not isinstance(state, dict):
            if inspect.iscoroutine(state):
                state.close()
            raise TypeError(
                f"it must be a plain function that returns the state or nothing, not {type(state).__name__}"
            )
        check_plain(state, "state")
    except NotStorable as error:
        raise Incompatible(f"{what} left a state that cannot be stored: {error}") from error
    except Exception as error:
        raise Incompatible(f"{what} raised {type(error).__name__}: {error}") from error
    return state


def _state_words(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    parts = {"gets": after.keys() - before.keys(), "loses": before.keys() - after.keys(), "changes": changed}
    return [f"state {verb} {', '.join(sorted(keys))}" for verb, keys in parts.items() if keys]


def _changes(difference: GraphDiff | None) -> tuple[dict[str, str], frozenset[str]]:
    if difference is None:
        return {}, frozenset()
    took = {change.step: change.before for change in difference.retyped if change.what == "takes"}
    return took, frozenset(change.step for change in difference.rerouted)


def _settled(graph: Graph, checkpoint: Checkpoint, how: str, run: MigratingRun) -> Carried:
    """Return the result after starting moved steps and firing joins that nothing more can reach."""
    builder = MomentBuilder(graph, Moment(run.state, run.position, run.requests), checkpoint.run)
    for activation, record in run.position["live"].items():
        if not {"born", "queued"} & record.keys():
            builder.start(activation)
    for scope in sorted({entry["scope"] for entry in run.position["joins"].values()}, key=len, reverse=True):
        settle(builder, scope)
    for scope in {*scopes_in(checkpoint.body["position"])} - {*scopes_in(builder.position)}:
        builder.forget_items(scope)
    moment, commands = builder.build()
    askers = {request.key: request.step for request in checkpoint.requests}
    withdrawn = [EventKind.REQUEST_WITHDRAWN.draft(askers.get(key), key=key) for key in run.closed]
    return Carried(
        how=how,
        body={**checkpoint.body, "state": moment.state, "position": moment.position},
        requests=tuple(moment.requests.values()),
        closed=run.closed,
        events=(*withdrawn, *(command for command in commands if isinstance(command, EventDraft))),
        words=run.words,
        names=dict(run.names),
        ended=run.ended,
    )


def _no_way(graph: Graph, checkpoint: Checkpoint, difference: GraphDiff | None, run: MigratingRun) -> Incompatible:
    gone = sorted(run.steps() - graph.nodes.keys())
    found = [f"; {difference.summary}"] if difference else []
    named = f"; steps that are gone: {', '.join(gone)}"
    found += [named] if gone and not (difference and set(gone) <= set(difference.removed)) else []
    found += [f"; {words}" for words in changed_below(graph.levels, run.position.get("levels", {}))]
    return Incompatible(
        f"workflow {graph.name!r} has changed since this checkpoint{''.join(found)}. Run the old code, or declare the"
        f" steps' old names (was=...), or @workflow.migrate(from_version={checkpoint.version!r}); now {graph.version}",
        removed=gone,
        was=checkpoint.version,
        now=graph.version,
    )


# -- sub-workflows that have changed since a run started, and the migration hooks to their current versions


def hooks_below(levels: Mapping[str, Level], marks: Marks) -> dict[str, tuple[MigrationHook, ...]]:
    """Return sub-workflow -> its hooks to run. Empty unless they account for everything that has changed."""
    found: dict[str, tuple[MigrationHook, ...]] = {}
    return found if levels and _lead(levels, marks, "", found) else {}


def _lead(levels: Mapping[str, Level], marks: Marks, name: str, found: dict[str, tuple[MigrationHook, ...]]) -> bool:
    if name not in marks:
        return False
    level, (version, own) = levels[name], marks[name]
    if version == level.version:
        return True
    path = find_path(level.definition.hooks, version, level.version) if name else ()
    if path:
        found[name] = path
        return True
    inner = [below for below in levels if below and below.rpartition("/")[0] == name]
    return own == level.own and all(_lead(levels, marks, below, found) for below in inner)


def changed_below(levels: Mapping[str, Level], marks: Marks) -> Iterator[str]:
    """Yield which sub-workflows have changed, with the version that a hook of theirs would name."""
    for name, level in levels.items():
        if name and name in marks and marks[name][0] != level.version:
            yield f"sub-workflow {name!r} was version {marks[name][0]}, is {level.version} now"


# -- a run that follows a completed one: it begins with that run's state, at the steps that take its message


def state_after(graph: Graph, follows: Checkpoint | None) -> JsonObject:
    """Return the state that a run begins with: its defaults, and over them what a completed run has left.

    ``InvalidCall`` if no step takes a follow-up or that run has not ended; ``Incompatible`` if its state is not valid
    in this graph.
    """
    rule = graph.state
    if follows is None:
        return rule.fresh()
    if not graph.follow_ups:
        raise InvalidCall(f"workflow {graph.name!r} has no step with follow_up=True: start a new run instead")
    position = position_in(follows.body)
    if position is None or position["live"] or follows.requests:
        raise InvalidCall("follows= must be the last checkpoint of a completed run: let that run end first")
    kept = follows.body["state"]
    state = {**rule.fresh(but=kept), **kept}
    if problems := list(state_problems(rule, state)):
        text = f"the state of run {follows.run} cannot be continued by the current workflow: {'; '.join(problems)}"
        raise Incompatible(text, run=follows.run, checkpoint=follows.id)
    return state


Names = Mapping[str, str]


@frozen
class MigratingRun:
    """A checkpoint's content on its way to another graph."""

    state: JsonObject
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

    def _checked_state(self, state: Mapping[str, Json]) -> tuple[JsonObject, list[str]]:
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
