"""The shared state: ``ctx.state`` of a step, and what its writes do where steps overlap. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import Any

from checkpoints.records import Json
from wfdash.values.codec import codec_for, same
from wfdash.workflow.compiler.graph import StateRule
from wfdash.workflow.errors import StateConflict, WrongType
from wfdash.workflow.reducer.moment import MomentBuilder
from wfdash.workflow.reducer.ticks import Moment
from wfdash.workflow.stored import Activation

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


def state_seen(moment: Moment, activation: str) -> dict[str, Json]:
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


def _merged(rule: StateRule, state: dict[str, Json], key: str, write: tuple[Any, ...]) -> tuple[Json] | None:
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
