"""Changes to where a run stands: steps called otherwise, dropped, or started afresh as others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.workflow.migration import Change
from wfdash.workflow.plan import ENTRY
from wfdash.workflow.ticks import Packed

Names = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Standpoint:
    """A checkpoint's content on its way to another graph."""

    state: dict[str, Json]
    position: dict[str, Json]
    requests: dict[RequestKey, Request]
    closed: tuple[RequestKey, ...] = ()
    words: tuple[str, ...] = ()
    names: Names = field(default_factory=dict)
    ended: tuple[str, ...] = ()

    def steps(self) -> set[str]:
        """Return every step that is under way or collects."""
        live = {record["step"] for record in self.position["live"].values()}
        return live | {entry["t"] for entry in self.position["joins"].values()}

    def said(self, *words: str) -> Standpoint:
        """Return it with more words."""
        return replace(self, words=(*self.words, *words))


@dataclass(frozen=True)
class Renaming:
    """Calls steps by other names; a sub-workflow's name stands for all that is in it."""

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
        """Return a state key; those of a sub-workflow begin with its name."""
        prefix, slash, own = key.rpartition("/")
        return f"{self.of(prefix)}/{own}" if slash else key

    def live(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return an activation."""
        fresh = {**record, "step": self.of(record["step"]), "message": self.packed(record["message"])}
        if fresh["step"] != record["step"]:
            # The outside knows its calls by the first name: another key would be another payment.
            fresh.setdefault("called", record["step"])
        return fresh | self._rounds(record)

    def join(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a join has collected."""
        got = entry["got"]
        if isinstance(got, dict):
            got = {place: [self.packed(one) for one in values] for place, values in got.items()}
        else:
            got = [[scope, self.packed(one)] for scope, one in got]
        loose = {"loose": self.packed(entry["loose"])} if entry.get("loose") else {}
        return {**entry, "t": self.of(entry["t"]), "got": got, **loose, **self._rounds(entry)}

    def _rounds(self, record: Mapping[str, Any]) -> dict[str, Any]:
        rounds = record.get("rounds")
        return {"rounds": {self.of(name): turn for name, turn in rounds.items()}} if rounds else {}

    def key(self, key: str) -> str:
        """Return a join's key."""
        name, rest = key.split("@", 1)
        return f"{self.of(name)}@{rest}"


def rename(at: Standpoint, names: Names) -> Standpoint:
    """Return it with the steps called by their new names."""
    new = Renaming(names)
    old = at.position
    position = {
        **old,
        "live": {act: new.live(record) for act, record in old["live"].items()},
        "joins": {new.key(key): new.join(entry) for key, entry in old["joins"].items()},
        "outputs": [new.packed(one) for one in old["outputs"]],
        "loose": new.packed(old["loose"]) if old["loose"] else old["loose"],
        "wrote": {new.state(key): [version, new.of(step)] for key, (version, step) in old["wrote"].items()},
        "past": {new.state(key): entries for key, entries in old["past"].items()},
    }
    requests = {key: r.model_copy(update={"step": new.of(r.step)}) for key, r in at.requests.items()}
    state = {new.state(key): value for key, value in at.state.items()}
    called = {old: new.of(name) for old, name in at.names.items()} | dict(names)
    return replace(at, state=state, position=position, requests=requests, names=called)


def lies_in(name: str, step: str) -> bool:
    """Say whether a node is this step, or belongs to this sub-workflow."""
    return name in {step, step + ENTRY} or name.startswith(step + "/")


def drop(at: Standpoint, step: str) -> Standpoint:
    """Return it without a step's activations and what it collected."""
    doomed = [act for act, record in at.position["live"].items() if lies_in(record["step"], step)]
    live = {act: record for act, record in at.position["live"].items() if act not in doomed}
    joins = {key: entry for key, entry in at.position["joins"].items() if not lies_in(entry["t"], step)}
    fresh = replace(_withdrawn(at, doomed), position={**at.position, "live": live, "joins": joins})
    return _unasked(fresh, doomed)


def move(at: Standpoint, step: str, to: str) -> Standpoint:
    """Return it with ``to`` about to start in place of each activation of ``step``."""
    moved = [act for act, record in at.position["live"].items() if record["step"] == step]
    live = {act: _afresh(record, to) if act in moved else record for act, record in at.position["live"].items()}
    return _unasked(replace(_withdrawn(at, moved), position={**at.position, "live": live}), moved)


def _afresh(record: Mapping[str, Any], to: str) -> dict[str, Any]:
    kept = {name: record[name] for name in ("message", "scope", "rounds") if name in record}
    return {"step": to, **kept, "journal": []}


def _withdrawn(at: Standpoint, acts: list[str]) -> Standpoint:
    """Close the questions of activations; refuse where it is unknown what they have done."""
    for act in acts:
        record = at.position["live"][act]
        unsure = [e["name"] for e in record["journal"] if e.get("once") and "result" not in e and "stopped" not in e]
        if unsure:
            raise Incompatible(
                f"step {record['step']!r}: it is unknown whether {unsure[0]!r} happened, so it cannot be moved or"
                " dropped: let the old code go on until that is answered"
            )
    keys = tuple(RequestKey(key) for key, (act, _) in at.position["asked"].items() if act in acts)
    requests = {key: request for key, request in at.requests.items() if key not in keys}
    return replace(at, requests=requests, closed=(*at.closed, *keys))


def _unasked(at: Standpoint, acts: list[str]) -> Standpoint:
    asked = {key: place for key, place in at.position["asked"].items() if place[0] not in acts}
    return replace(at, position={**at.position, "asked": asked}, ended=(*at.ended, *acts))


APPLY: dict[str, Callable[[Standpoint, Change], Standpoint]] = {
    "rename": lambda at, change: rename(at, {change.step: change.to}),
    "drop": lambda at, change: drop(at, change.step),
    "move": lambda at, change: move(at, change.step, change.to),
}
SAID = {
    "rename": "{step} is called {to} now",
    "drop": "{count} under way in {step} ended without a result{lost}",
    "move": "{count} under way in {step} started again as {to}{lost}",
}


def apply_change(at: Standpoint, change: Change) -> Standpoint:
    """Return it after one thing a hook asked for; what is not under way needs no words."""
    records = [record for record in at.position["live"].values() if lies_in(record["step"], change.step)]
    if change.verb != "rename" and not records:
        return APPLY[change.verb](at, change)
    lost = [entry["name"] for record in records for entry in record["journal"] if entry["k"] == "call"]
    note = f", forgetting its calls: {', '.join(lost)}" if lost else ""
    words = SAID[change.verb].format(step=change.step, to=change.to, count=len(records), lost=note)
    return APPLY[change.verb](at, change).said(words)
