"""The next moment: copies the parts that change, shares the others; and the state in it, ``ctx.state``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from itertools import accumulate, chain
from typing import Any, Literal, overload

from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json, JsonObject, Reason
from wfdash.values.codec import codec_for, same
from wfdash.workflow.errors import StateConflict, WrongType
from wfdash.workflow.graph import Graph, Node, StateRule
from wfdash.workflow.reducer.routing import label_of
from wfdash.workflow.reducer.ticks import Command, Moment, RunStep, SaveCheckpoint
from wfdash.workflow.stored import Activation, Asker, GroupState, JoinState, JournalEntry, Packed, Position, Rounds

EMPTY: Position = {
    "next": 1,
    "v": 0,
    "live": {},
    "joins": {},
    "asked": {},
    "outputs": [],
    "loose": None,
    "since": {},
    "past": {},
    "wrote": {},
}
"""The position before the start."""


def new_moment(graph: Graph | None = None) -> Moment:
    """Return the moment before a run's start, with the current versions of its sub-workflows."""
    position = EMPTY.copy()
    if graph is not None and graph.levels:
        position["levels"] = graph.marks
    return Moment(state={}, position=position)


def moment_of(checkpoint: Checkpoint) -> Moment:
    """Return the moment that a checkpoint holds."""
    requests = {request.key: request for request in checkpoint.requests}
    return Moment(state=checkpoint.body["state"], position=checkpoint.body["position"], requests=requests)


class MomentBuilder:
    """One tick's working copy of a moment. ``writable`` and ``activation`` give copies, made at most once."""

    def __init__(self, graph: Graph, moment: Moment, run: str) -> None:
        self.graph = graph
        self.run = run
        self.state = moment.state
        self.position = moment.position.copy()
        self.requests = dict(moment.requests) if moment.requests else {}
        self.commands: list[Command] = []
        self.opened: dict[str, str] = {}
        """Maps and sub-workflows entered by this tick: name -> prefix of the new group's scopes."""
        self._own: set[str] = set()

    @overload
    def writable(self, name: Literal["live"]) -> dict[str, Activation]: ...

    @overload
    def writable(self, name: Literal["joins"]) -> dict[str, JoinState | GroupState]: ...

    @overload
    def writable(self, name: Literal["asked"]) -> dict[RequestKey, Asker]: ...

    @overload
    def writable(self, name: Literal["outputs"]) -> list[Packed]: ...

    @overload
    def writable(self, name: Literal["labels"]) -> dict[str, str]: ...

    @overload
    def writable(self, name: Literal["since"]) -> dict[str, int]: ...

    def writable(self, name: Any) -> Any:
        """Return a writable copy of a part of the position."""
        if name not in self._own:
            self._own.add(name)
            self.position[name] = self.position[name].copy()  # type: ignore[literal-required]
        return self.position[name]  # type: ignore[literal-required]

    def activation(self, activation: str) -> Activation:
        """Return a writable copy of an activation."""
        live = self.writable("live")
        if activation not in self._own:
            self._own.add(activation)
            live[activation] = live[activation].copy()
        return live[activation]

    def entry(self, activation: str, index: int) -> JournalEntry:
        """Return a writable copy of a journal entry."""
        record = self.activation(activation)
        record["journal"] = journal = list(record["journal"])
        journal[index] = entry = journal[index].copy()
        return entry

    def node(self, activation: str) -> Node:
        """Return the node an activation belongs to."""
        return self.graph.nodes[self.position["live"][activation]["step"]]

    def add_activation(self, node: Node, message: Packed, scope: str, rounds: Rounds | None) -> str:
        """Add an activation and return its number; it still has to be started."""
        activation = str(self.position["next"])
        self.position["next"] += 1
        record: Activation = {"step": node.name, "message": message, "scope": scope, "journal": []}
        if rounds:
            record["rounds"] = rounds
        self.writable("live")[activation] = record
        self._own.add(activation)
        return activation

    def emit(self, kind: EventKind, activation: str | None = None, /, **data: Json) -> None:
        """Add an event; hidden steps have none."""
        if activation is None:
            self.commands.append(kind.draft(**data))
            return
        record = self.position["live"][activation]
        node = self.graph.nodes[record["step"]]
        if node.hidden:
            return
        if record["scope"] and (item := item_of(node.path, record["scope"])) is not None:
            data["item"] = item
        self.commands.append(kind.draft_of(node.name, {"activation": activation, **data}))

    def save(self, reason: Reason, step: str | None = None, label: str | None = None) -> None:
        """Request a commit."""
        self.commands.append(SaveCheckpoint(reason, step, label))

    def start(self, activation: str) -> None:
        """Start an activation now, or queue it when its step has no free slot."""
        node = self.node(activation)
        record = self.activation(activation)
        if node.concurrency is not None and self._busy(node.name, activation) >= node.concurrency:
            record["queued"] = True
            return
        record.pop("queued", None)
        record["born"] = self.position["v"]
        item = item_scope(node.path, record["scope"]) if record["scope"] and not node.hidden else None
        label = ""
        if item is not None:
            label = self.position.get("labels", {}).get(item) or label_of(self.graph, node, record["message"])
        self.emit(EventKind.STEP_STARTED, activation, **({"label": label} if label else {}))
        self.commands.append(RunStep(activation))

    def name_item(self, item: str, label: str) -> None:
        """Keep what an item of a map is called, for all its steps; the first name counts."""
        if label and item not in self.position.setdefault("labels", {}):
            self.writable("labels")[item] = label
        self._drop_empty_labels()

    def forget_items(self, ended: str) -> None:
        """Forget what the items around a scope are called, where nothing can happen any more."""
        if "labels" not in self.position:
            return
        for item in _scopes_around(ended):
            if item in self.position["labels"] and not self._continues(item):
                self.writable("labels").pop(item)
        self._drop_empty_labels()

    def _continues(self, item: str) -> bool:
        # What has just begun is the last: an item that continues is found at once, however many others there are.
        tokens = chain(reversed(self.position["live"].values()), self.position["joins"].values())
        return any(token["scope"].startswith(item) for token in tokens)

    def _drop_empty_labels(self) -> None:
        if not self.position.get("labels", True):
            self.position.pop("labels")

    def _busy(self, step: str, but: str) -> int:
        live = self.position["live"].items()
        return sum(1 for key, a in live if a["step"] == step and key != but and "queued" not in a)

    def start_queued(self, node: Node, most: int) -> None:
        """Give the free slots of a step to its queued activations."""
        free = most - self._busy(node.name, "")
        waiting = [key for key, a in self.position["live"].items() if a["step"] == node.name and "queued" in a]
        for activation in waiting[: max(free, 0)]:
            self.start(activation)

    def build(self) -> tuple[Moment, list[Command]]:
        """Return the moment and the commands."""
        return Moment(self.state, self.position, self.requests), self.commands


def group_prefix(scope: str, depth: int) -> str:
    """Return the prefix of a group's scopes: the group at ``depth`` around ``scope``."""
    parts = scope.split("/")
    above = "".join(part + "/" for part in parts[:depth])
    return f"{above}{parts[depth].split('.')[0]}."


def parent_scope(prefix: str) -> str:
    """Return the scope in which a group was opened."""
    return prefix[: prefix.rfind("/") + 1]


def item_index(scope: str, prefix: str) -> int:
    """Return the item of the group that a scope belongs to."""
    return int(scope[len(prefix) :].split("/", 1)[0])


def item_of(path: tuple[str, ...], scope: str) -> int | None:
    """Return the index of the innermost map item around a scope, None outside of maps."""
    item = item_scope(path, scope)
    return None if item is None else int(item[:-1].rpartition(".")[2])


def item_scope(path: tuple[str, ...], scope: str) -> str | None:
    """Return the scope of the innermost map item around a scope, None outside of maps."""
    around = list(_scopes_around(scope))
    return next((around[depth] for depth in range(len(path) - 1, -1, -1) if path[depth].startswith("each:")), None)


def scopes_in(position: Position) -> Iterator[str]:
    """Yield the scope of everything that is in progress or waits in a join."""
    for activation in position["live"].values():
        yield activation["scope"]
    for entry in position["joins"].values():
        yield entry["scope"]


def _scopes_around(scope: str) -> Iterator[str]:
    """Yield the scopes of which this one is a part, outermost first, and itself."""
    return accumulate(part + "/" for part in scope.split("/")[:-1])


ANYTHING = codec_for(Any)


class StateView(MutableMapping[str, Any]):
    """Mapping and attribute access to the top-level keys. Writes are applied when the step ends, all or none.

    A key with a reducer takes contributions: an assigned value is combined with the current one.
    """

    def __init__(self, rule: StateRule, prefix: str, seen: Mapping[str, Json]) -> None:
        # Not by assignment, which would be a write to the state.
        vars(self).update(_rule=rule, _prefix=prefix, _seen=seen, _values={}, _parts={}, _set=set())

    _rule: StateRule
    _prefix: str
    _seen: Mapping[str, Json]
    _values: dict[str, Any]
    _parts: dict[str, list[Any]]
    _set: set[str]

    def __getitem__(self, key: str) -> Any:
        """Return the value; changing it in place counts as a write."""
        if key in self._values:
            return self._values[key]
        full = self._full_key(key)
        if full not in self._seen or key in self._set:
            raise KeyError(key)
        value = self._rule.codecs.get(full, ANYTHING).decode(self._seen[full], f"state.{key}")
        self._values[key] = value
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        """Write the key, or contribute to it if it has a reducer."""
        full = self._full_key(key)
        reducer = self._rule.reducers.get(full)
        if reducer is None:
            self._set.add(key)
            self._values[key] = value
            return
        self._parts.setdefault(key, []).append(self._rule.codecs.get(full, ANYTHING).encode(value, f"state.{key}"))
        self._values[key] = reducer(self[key], value) if key in self else value

    def __delitem__(self, key: str) -> None:
        """Remove the key."""
        self[key]
        if self._full_key(key) in self._rule.reducers:
            raise StateConflict(f"state {key!r} has a reducer and cannot be removed")
        self._set.add(key)
        self._values.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the keys that have a value."""
        stored = (key.removeprefix(self._prefix) for key in self._seen if key.startswith(self._prefix))
        known = [key for key in stored if "/" not in key and (key in self._values or key not in self._set)]
        return iter([*known, *(key for key in self._values if key not in known)])

    def __len__(self) -> int:
        """Return how many keys have a value."""
        return sum(1 for _ in self)

    def __getattr__(self, key: str) -> Any:
        """Return the value of a key."""
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"state has no value for {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        """Write a key."""
        self[key] = value

    @property
    def held(self) -> Collection[Any]:
        """The values that were read or written."""
        return self._values.values()

    def _full_key(self, key: str) -> str:
        full = self._prefix + key
        if "/" in key:
            raise WrongType(f"state key {key!r} must not contain '/'")
        if self._prefix in self._rule.typed and full not in self._rule.codecs:
            raise WrongType(f"the state has no field {key!r}")
        return full

    def collect(self) -> dict[str, tuple[Any, ...]]:
        """Return the writes as JSON: assigned keys, keys changed in place, contributions, removed keys."""
        found: dict[str, tuple[Any, ...]] = {}
        for key in self._set - self._values.keys():
            found[self._prefix + key] = ("del",)
        for key, value in self._values.items():
            write = self._write(key, self._prefix + key, value)
            if write is not None:
                found[self._prefix + key] = write
        return found

    def _write(self, key: str, full: str, value: Any) -> tuple[Any, ...] | None:
        if key in self._parts:
            return ("add", self._parts[key])
        data = self._rule.codecs.get(full, ANYTHING).encode(value, f"state.{key}")
        if key not in self._set and full in self._seen and same(data, self._seen[full]):
            return None
        if full in self._rule.reducers:
            raise StateConflict(f"state {key!r} has a reducer: assign the contribution, do not change it in place")
        return ("set", data)


# -- overlapping steps: what a step sees, what its writes do, when two of them conflict. ``v`` counts the commits that
# wrote. ``past`` stores, per key, the values that a step in progress may still read: ``[v, old]`` (``[v]`` if there was
# none). ``wrote`` stores who wrote last, for steps that overlap.

Writes = Mapping[str, tuple[Any, ...]]


def state_seen(moment: Moment, activation: str) -> JsonObject:
    """Return the state when the activation started."""
    past = moment.position["past"]
    if not past:
        return moment.state
    born = moment.position["live"][activation].get("born", 0)
    seen = dict(moment.state)
    for key, entries in past.items():
        old = next((entry for entry in entries if entry[0] > born), None)
        if old is not None and len(old) == 1:
            seen.pop(key, None)
        elif old is not None:
            seen[key] = old[1]
    return seen


def apply_writes(builder: MomentBuilder, activation: str, writes: Writes) -> None:
    """Apply a step's writes, all of them; ``StateConflict`` and nothing changed if another step was first."""
    if not writes:
        return
    record = builder.position["live"][activation]
    others = [a for key, a in builder.position["live"].items() if key != activation and "born" in a]
    if builder.position["wrote"]:
        _refuse_conflict(builder, record, writes)
    fresh = {key: _merged(builder.graph.state, builder.state, key, write) for key, write in writes.items()}
    version = builder.position["v"] = builder.position["v"] + 1
    _remember(builder, record["step"], fresh, others, version)
    state = dict(builder.state)
    for key, value in fresh.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value[0]
    builder.state = state


def _refuse_conflict(builder: MomentBuilder, record: Activation, writes: Writes) -> None:
    for key, write in writes.items():
        last = builder.position["wrote"].get(key)
        if write[0] != "add" and last is not None and last[0] > record["born"]:
            raise StateConflict(
                f"steps {record['step']!r} and {last[1]!r} overlap and both write state {key!r}:"
                " declare a reducer for it, or run one after the other",
                key=key,
                steps=[record["step"], last[1]],
            )


def _merged(rule: StateRule, state: JsonObject, key: str, write: tuple[Any, ...]) -> tuple[Json] | None:
    if write[0] == "del":
        return None
    if write[0] == "set":
        return (write[1],)
    codec, reducer = rule.codecs.get(key) or codec_for(Any), rule.reducers[key]
    parts = [codec.decode(part, key) for part in write[1]]
    value = codec.decode(state[key], key) if key in state else parts.pop(0)
    for part in parts:
        value = reducer(value, part)
    return (codec.encode(value, f"state.{key}"),)


def _remember(builder: MomentBuilder, step: str, fresh: Mapping[str, Any], others: list[Any], version: int) -> None:
    if not others:
        builder.position["past"], builder.position["wrote"] = {}, {}
        return
    oldest = min(other["born"] for other in others)
    newest = max(other["born"] for other in others)
    past = {key: kept for key, old in builder.position["past"].items() if (kept := [e for e in old if e[0] > oldest])}
    wrote = {key: last for key, last in builder.position["wrote"].items() if last[0] > oldest}
    for key in fresh:
        known = past.get(key, [])
        if not known or newest >= known[-1][0]:
            past[key] = [*known, [version, builder.state[key]] if key in builder.state else [version]]
        wrote[key] = [version, step]
    builder.position["past"], builder.position["wrote"] = past, wrote
