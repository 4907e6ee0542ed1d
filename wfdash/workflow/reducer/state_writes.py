"""The shared state under overlapping steps: what a step sees, what its writes do, when two of them conflict.

``v`` counts the commits that wrote. ``past`` stores, per key, the values that a step in progress may still read: ``[v,
old]`` (``[v]`` if there was none). ``wrote`` stores who wrote last, for steps that overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.records import Json
from wfdash.values.codec import codec_for
from wfdash.workflow.compiler.graph import StateRule
from wfdash.workflow.errors import StateConflict
from wfdash.workflow.reducer.moment_builder import MomentBuilder
from wfdash.workflow.reducer.ticks import Moment
from wfdash.workflow.stored.position import Activation

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
