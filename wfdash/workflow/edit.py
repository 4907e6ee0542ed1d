"""Edits of a checkpoint's state and messages by a person: checked by their types, then encoded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json, JsonObject
from wfdash.contract import Edited, Edits, InvalidInput
from wfdash.values.codec import Codec, codec_for, either, same, schema_problems, type_problems
from wfdash.values.schemas.validate import Problem
from wfdash.workflow.errors import WorkflowError
from wfdash.workflow.graph import Graph, Node, StateRule
from wfdash.workflow.reducer.look_ahead import is_first, refuse_other_graph
from wfdash.workflow.reducer.routing import PLAIN, codec_of, pack, pack_for_first, plain
from wfdash.workflow.stored import Activation, Packed, Position, unsure_calls


class UnfitValue(Exception):
    """A value is not valid. ``problems``: where, within it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(str(problems))
        self.problems = problems


def edit(graph: Graph, checkpoint: Checkpoint, edits: Edits) -> Edited:
    """Return the checkpoint's content after the edits; ``InvalidInput`` with errors per field, ``Incompatible``."""
    refuse_other_graph(graph, checkpoint)
    made = CheckpointEdit(graph, checkpoint)
    if edits.state is not None:
        made.write_state(edits.state)
    for activation, value in edits.messages.items():
        made.write_message(activation, value)
    if made.problems:
        raise InvalidInput(made.problems)
    return made.result()


@dataclass
class CheckpointEdit:
    """A checkpoint's content being edited."""

    graph: Graph
    checkpoint: Checkpoint
    problems: list[JsonObject] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    input: tuple[Json, ...] = ()

    def __post_init__(self) -> None:
        self.state: JsonObject = dict(self.checkpoint.body["state"])
        position: Position = self.checkpoint.body["position"]
        self.position = position.copy()
        self.closed: list[RequestKey] = []

    def write_state(self, given: Mapping[str, Json]) -> None:
        """Replace the whole state. Steps in progress see it when they run again."""
        fresh, known = {}, self.state
        for key, value in given.items():
            try:
                fresh[key] = state_value(self.graph.state, key, value)
            except UnfitValue as error:
                self._complain(["state", key], error)
        missing = [key for key in self.graph.state.codecs if key in known and key not in given]
        for key in missing:
            self.problems.append({"loc": ["state", key], "msg": "This state field needs a value"})
        changed = [key for key in {**known, **fresh} if not same(known.get(key), fresh.get(key))]
        if not changed:
            return
        self.state = fresh
        version = self.position["v"]
        live = self.position["live"]
        self.position["live"] = {key: {**one, "born": version} if "born" in one else one for key, one in live.items()}
        self.position["past"], self.position["wrote"] = {}, {}
        self.words.append(f"state changed: {', '.join(changed)}")

    def write_message(self, activation: str, value: Json) -> None:
        """Give an activation another message: it restarts, asks and calls again. The same message changes nothing."""
        record = self.position["live"].get(activation)
        node = self.graph.nodes[record["step"]] if record else None
        if record is None or node is None or not node.takes_message:
            self.problems.append({"loc": ["messages", activation], "msg": "No step accepts this input here"})
            return
        if unsure := unsure_calls(record):
            text = f"The outcome of {unsure[0]} is unknown. Answer that before the step restarts"
            self.problems.append({"loc": ["messages", activation], "msg": text})
            return
        try:
            packed = repack(self.graph, node, record["message"], value)
        except UnfitValue as error:
            self._complain(["messages", activation], error)
            return
        if not same(packed, record["message"]):
            self._start_over(activation, record, packed)

    def _start_over(self, activation: str, record: Activation, packed: Packed) -> None:
        fresh: Activation = {"step": record["step"], "message": packed, "scope": record["scope"], "journal": []}
        if "rounds" in record:
            fresh["rounds"] = record["rounds"]
        if "called" in record:
            fresh["called"] = record["called"]
        if "queued" in record:
            fresh["queued"] = record["queued"]
        self.position["live"] = {**self.position["live"], activation: fresh}
        if is_first(self.graph, activation, record):
            self.input = (plain(packed),)
        gone = [key for key, place in self.position["asked"].items() if place[0] == activation]
        self.position["asked"] = {key: place for key, place in self.position["asked"].items() if place[0] != activation}
        self.closed += gone
        calls = [entry["name"] for entry in record["journal"] if entry["k"] == "call"]
        note = f", and repeats calls: {', '.join(calls)}" if calls else ""
        self.words.append(f"{record['step']} restarts with edited input{note}")

    def _complain(self, loc: list[Json], error: UnfitValue) -> None:
        self.problems += [{"loc": [*loc, *problem["loc"]], "msg": problem["msg"]} for problem in error.problems]

    def result(self) -> Edited:
        """Return the edited content."""
        requests = tuple(request for request in self.checkpoint.requests if request.key not in self.closed)
        body = {**self.checkpoint.body, "state": self.state, "position": self.position}
        return Edited(
            body=body, requests=requests, closed=tuple(self.closed), words=tuple(self.words), input=self.input
        )


def state_value(rule: StateRule, key: str, value: Json) -> Json:
    """Return a value in the form the state stores; ``UnfitValue`` if its model does not accept it."""
    prefix = key.rpartition("/")[0]
    if (f"{prefix}/" if prefix else "") in rule.typed and key not in rule.codecs:
        raise UnfitValue([{"loc": [], "msg": "Unknown state field"}])
    return written(rule.codecs.get(key, PLAIN), value)


def repack(graph: Graph, node: Node, before: Packed, value: Json) -> Packed:
    """Return an encoded replacement of a message; ``UnfitValue`` if the step does not accept it."""
    if before[0] == "*":
        return ["*", _repack_parts(graph, node, before[1], value)]
    if node.hidden and not node.accepts:
        packed = pack_for_first(graph, node, value)
        if packed is None:
            raise UnfitValue([{"loc": [], "msg": "No step accepts this"}])
        return packed
    if node.accepts:
        packed = pack(node, None, _validated(codec_for(either([codec.kind for codec in node.accepts])), value))
        if packed is None:
            raise UnfitValue([{"loc": [], "msg": "Not an input of this step"}])
        return packed
    return [before[0], written(codec_of(graph, node, before[0]), value)]


def _repack_parts(graph: Graph, node: Node, before: list[Packed], value: Json) -> list[Packed]:
    if not isinstance(value, list):
        raise UnfitValue([{"loc": [], "msg": "Must be a list: one value from each that is collected"}])
    found = []
    for index, item in enumerate(value):
        like = before[min(index, len(before) - 1)] if before else [None, None]
        try:
            found.append(repack(graph, node, like, item))
        except UnfitValue as error:
            raise UnfitValue([{**problem, "loc": [index, *problem["loc"]]} for problem in error.problems]) from error
    return found


def written(codec: Codec, value: Json) -> Json:
    """Return a value encoded by its type; ``UnfitValue`` if it is not of that type, or does not round-trip."""
    taken = _validated(codec, value)
    try:
        return codec.encode(taken)
    except WorkflowError as error:
        raise UnfitValue([{"loc": [], "msg": str(error)}]) from error


def _validated(codec: Codec, value: Json) -> Any:
    if codec.plain:
        return value
    if problems := schema_problems(codec, value):
        raise UnfitValue(problems)
    try:
        return codec.adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        raise UnfitValue(type_problems(error, value)) from error
