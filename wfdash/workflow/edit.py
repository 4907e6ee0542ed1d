"""A checkpoint's state and messages changed by a person: checked by their own types, then written down. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json
from wfdash.complaints import Problem
from wfdash.contract import InvalidInput
from wfdash.edits import Edited, Edits
from wfdash.workflow.ahead import codec_of, is_first, refuse_other_graph
from wfdash.workflow.codec import Codec, codec_for, either, same
from wfdash.workflow.errors import WorkflowError
from wfdash.workflow.graph import Graph, Node, StateRule
from wfdash.workflow.packing import PLAIN, pack, pack_for_first, plain
from wfdash.workflow.ticks import Packed


class Unfit(Exception):
    """A value does not fit. ``problems``: where, within it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(str(problems))
        self.problems = problems


def edit(graph: Graph, checkpoint: Checkpoint, edits: Edits) -> Edited:
    """Return the checkpoint's content after the edits; ``InvalidInput`` with errors per field, ``Incompatible``."""
    refuse_other_graph(graph, checkpoint)
    made = Edition(graph, checkpoint)
    if edits.state is not None:
        made.write_state(edits.state)
    for act, value in edits.messages.items():
        made.write_message(act, value)
    if made.problems:
        raise InvalidInput(made.problems)
    return made.result()


@dataclass
class Edition:
    """A checkpoint's content in the making."""

    graph: Graph
    checkpoint: Checkpoint
    problems: list[dict[str, Json]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    input: tuple[Json, ...] = ()

    def __post_init__(self) -> None:
        self.state: dict[str, Json] = dict(self.checkpoint.body["state"])
        self.position: dict[str, Json] = dict(self.checkpoint.body["position"])
        self.closed: list[RequestKey] = []

    def write_state(self, given: Mapping[str, Json]) -> None:
        """Put a whole new state in place. Steps under way see it when they run again."""
        fresh, known = {}, self.state
        for key, value in given.items():
            try:
                fresh[key] = state_value(self.graph.state, key, value)
            except Unfit as error:
                self._complain(["state", key], error)
        missing = [key for key in self.graph.state.codecs if key in known and key not in given]
        for key in missing:
            self.problems.append({"loc": ["state", key], "msg": "The state has this field: give it a value"})
        changed = [key for key in {**known, **fresh} if not same(known.get(key), fresh.get(key))]
        if not changed:
            return
        self.state = fresh
        version = self.position["v"]
        live = {act: one | ({"born": version} if "born" in one else {}) for act, one in self.position["live"].items()}
        self.position |= {"live": live, "past": {}, "wrote": {}}
        self.words.append(f"state changed: {', '.join(changed)}")

    def write_message(self, act: str, value: Json) -> None:
        """Give an activation another message: it starts over, asks and calls anew. The same message changes nothing."""
        record = self.position["live"].get(act)
        node = self.graph.nodes[record["step"]] if record else None
        if record is None or node is None or not node.takes_message:
            self.problems.append({"loc": ["messages", act], "msg": "No step takes this message here"})
            return
        unsure = [e["name"] for e in record["journal"] if e.get("once") and "result" not in e and "stopped" not in e]
        if unsure:
            text = f"It is unknown whether {unsure[0]} happened: that has to be answered before the step starts over"
            self.problems.append({"loc": ["messages", act], "msg": text})
            return
        try:
            packed = repack(self.graph, node, record["message"], value)
        except Unfit as error:
            self._complain(["messages", act], error)
            return
        if not same(packed, record["message"]):
            self._start_over(act, record, packed)

    def _start_over(self, act: str, record: Mapping[str, Any], packed: Packed) -> None:
        kept = {name: record[name] for name in ("scope", "rounds", "called", "queued") if name in record}
        self.position["live"] = self.position["live"] | {
            act: {"step": record["step"], "message": packed, "journal": [], **kept}
        }
        if is_first(self.graph, act, record):
            self.input = (plain(packed),)
        gone = [RequestKey(key) for key, place in self.position["asked"].items() if place[0] == act]
        self.position["asked"] = {key: place for key, place in self.position["asked"].items() if place[0] != act}
        self.closed += gone
        calls = [entry["name"] for entry in record["journal"] if entry["k"] == "call"]
        note = f", and calls anew: {', '.join(calls)}" if calls else ""
        self.words.append(f"{record['step']} starts over with another message{note}")

    def _complain(self, loc: list[Json], error: Unfit) -> None:
        self.problems += [{"loc": [*loc, *problem["loc"]], "msg": problem["msg"]} for problem in error.problems]

    def result(self) -> Edited:
        """Return it."""
        requests = tuple(request for request in self.checkpoint.requests if request.key not in self.closed)
        body = {**self.checkpoint.body, "state": self.state, "position": self.position}
        return Edited(
            body=body, requests=requests, closed=tuple(self.closed), words=tuple(self.words), input=self.input
        )


def state_value(rule: StateRule, key: str, value: Json) -> Json:
    """Return a value as the state keeps it; ``Unfit`` if its model does not take it."""
    prefix = key.rpartition("/")[0]
    if (f"{prefix}/" if prefix else "") in rule.typed and key not in rule.codecs:
        raise Unfit([{"loc": [], "msg": "The state has no such field"}])
    return written(rule.codecs.get(key, PLAIN), value)


def repack(graph: Graph, node: Node, before: Packed, value: Json) -> Packed:
    """Return a value written down in place of a message; ``Unfit`` if the step does not take it."""
    if before[0] == "*":
        return ["*", _repack_parts(graph, node, before[1], value)]
    if node.hidden and not node.accepts:
        packed = pack_for_first(graph, node, value)
        if packed is None:
            raise Unfit([{"loc": [], "msg": "No step takes this"}])
        return packed
    if node.accepts:
        packed = pack(node, None, _taken(codec_for(either([codec.kind for codec in node.accepts])), value))
        if packed is None:
            raise Unfit([{"loc": [], "msg": "The step does not take this"}])
        return packed
    return [before[0], written(codec_of(graph, node, before), value)]


def _repack_parts(graph: Graph, node: Node, before: list[Packed], value: Json) -> list[Packed]:
    if not isinstance(value, list):
        raise Unfit([{"loc": [], "msg": "Must be a list: one value from each that is collected"}])
    found = []
    for index, item in enumerate(value):
        like = before[min(index, len(before) - 1)] if before else [None, None]
        try:
            found.append(repack(graph, node, like, item))
        except Unfit as error:
            raise Unfit([{**problem, "loc": [index, *problem["loc"]]} for problem in error.problems]) from error
    return found


def written(codec: Codec, value: Json) -> Json:
    """Return a value as its type writes it down; ``Unfit`` if it is none of that type, or would not come back."""
    taken = _taken(codec, value)
    try:
        return codec.encode(taken)
    except WorkflowError as error:
        raise Unfit([{"loc": [], "msg": str(error)}]) from error


def _taken(codec: Codec, value: Json) -> Any:
    if codec.plain:
        return value
    try:
        return codec.adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        problems = [{"loc": list(one["loc"]), "msg": one["msg"]} for one in error.errors()]
        raise Unfit([Problem(**problem) for problem in problems]) from error
