"""The shared state under overlapping steps: what a step sees, what its writes do, when two of them clash.

``v`` counts the commits that wrote. ``past`` keeps, per key, the values that a step still under way may read:
``[v, old]`` (``[v]`` if there was none). ``wrote`` keeps who wrote last, for steps that overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.records import Json
from wfdash.workflow.codec import codec_for
from wfdash.workflow.draft import Draft
from wfdash.workflow.errors import StateConflict
from wfdash.workflow.graph import StateRule
from wfdash.workflow.ticks import Moment

Writes = Mapping[str, tuple[Any, ...]]


def state_seen(moment: Moment, act: str) -> dict[str, Json]:
    """Return the state as it was when the activation started."""
    past = moment.position["past"]
    if not past:
        return moment.state
    born = moment.position["live"][act].get("born", 0)
    seen = dict(moment.state)
    for key, entries in past.items():
        old = next((entry for entry in entries if entry[0] > born), None)
        if old is not None and len(old) == 1:
            seen.pop(key, None)
        elif old is not None:
            seen[key] = old[1]
    return seen


def apply_writes(draft: Draft, act: str, writes: Writes) -> None:
    """Land a step's writes, all of them; ``StateConflict`` and nothing changed if another step was first."""
    if not writes:
        return
    record = draft.position["live"][act]
    others = [a for key, a in draft.position["live"].items() if key != act and "born" in a]
    _refuse_conflict(draft, record, writes)
    fresh = {key: _merged(draft.graph.state, draft.state, key, write) for key, write in writes.items()}
    version = draft.position["v"] = draft.position["v"] + 1
    _remember(draft, record["step"], fresh, others, version)
    state = dict(draft.state)
    for key, value in fresh.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value[0]
    draft.state = state


def _refuse_conflict(draft: Draft, record: Mapping[str, Any], writes: Writes) -> None:
    for key, write in writes.items():
        last = draft.position["wrote"].get(key)
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


def _remember(draft: Draft, step: str, fresh: Mapping[str, Any], others: list[Any], version: int) -> None:
    if not others:
        draft.position["past"], draft.position["wrote"] = {}, {}
        return
    oldest = min(other["born"] for other in others)
    newest = max(other["born"] for other in others)
    past = {key: kept for key, old in draft.position["past"].items() if (kept := [e for e in old if e[0] > oldest])}
    wrote = {key: last for key, last in draft.position["wrote"].items() if last[0] > oldest}
    for key in fresh:
        known = past.get(key, [])
        if not known or newest >= known[-1][0]:
            past[key] = [*known, [version, draft.state[key]] if key in draft.state else [version]]
        wrote[key] = [version, step]
    draft.position["past"], draft.position["wrote"] = past, wrote
