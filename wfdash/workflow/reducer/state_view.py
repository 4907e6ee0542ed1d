"""``ctx.state``: the state when the step started, plus the step's own writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import Any

from checkpoints.records import Json
from wfdash.values.codec import codec_for, same
from wfdash.workflow.compiler.graph import StateRule
from wfdash.workflow.errors import StateConflict, WrongType

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
        stored = (key.removeprefix(self._prefix) for key in self._seen if self._mine(key))
        known = [key for key in stored if key in self._values or key not in self._set]
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

    def _mine(self, full: str) -> bool:
        return full.startswith(self._prefix) and "/" not in full[len(self._prefix) :]

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
