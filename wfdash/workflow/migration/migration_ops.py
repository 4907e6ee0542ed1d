"""Changes to a migrating run: steps renamed, dropped, or moved to another step. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.workflow.authoring.migration_hooks import StepChange
from wfdash.workflow.compiler.plan import ENTRY
from wfdash.workflow.stored.position import Activation, GroupState, JoinState, Packed, Position, Rounds, unsure_calls

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
