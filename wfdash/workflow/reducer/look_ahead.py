"""What a run does next from a checkpoint, by the engine's own reducer; and what is in progress there. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, JsonObject, Request
from wfdash.contract import ActivationInfo, CallInfo, InFlight, LookAhead
from wfdash.values.codec import codec_for, either, is_any
from wfdash.workflow.graph import ENTRY, Graph, Node, StateRule
from wfdash.workflow.reducer.moment import item_of, moment_of
from wfdash.workflow.reducer.reduce import reduce
from wfdash.workflow.reducer.routing import codec_of, first_steps, plain
from wfdash.workflow.reducer.ticks import Command, Moment, ResolveEntry, RunResumed, RunStep, TimePassed
from wfdash.workflow.stored import Activation, JournalEntry, Packed, Position

TAKEN = ("answer", "result", "raised", "done")


def look_ahead(graph: Graph, checkpoint: Checkpoint, now: datetime) -> LookAhead:
    """Return what happens when the run continues; ``Incompatible`` for a checkpoint of another graph."""
    refuse_other_graph(graph, checkpoint)
    moment, commands = resume(graph, checkpoint.run, moment_of(checkpoint), now)
    moved = {command.activation for command in commands if isinstance(command, (RunStep, ResolveEntry))}
    live = moment.position["live"]
    return LookAhead(
        doing=tuple(
            _doing(graph, moment, activation, activation in moved)
            for activation, record in live.items()
            # Hidden entries and exits of sub-workflows are no steps, unless they carry the run's input.
            if not graph.nodes[record["step"]].hidden or record["step"] in graph.starts
        ),
        asks=tuple(command for command in commands if isinstance(command, Request)),
        state_schema=state_schema(graph.state),
    )


def refuse_other_graph(graph: Graph, checkpoint: Checkpoint) -> None:
    """Raise ``Incompatible`` for a checkpoint of another graph."""
    if checkpoint.version != graph.version:
        raise Incompatible(
            f"checkpoint {checkpoint.n} belongs to graph {checkpoint.version[:8]}, loaded is {graph.version[:8]}:"
            " migrate the run first, then look at its new head"
        )


def resume(graph: Graph, run: str, moment: Moment, now: datetime) -> tuple[Moment, list[Command]]:
    """Return the moment just after resuming, and the commands for it."""
    resumed, commands = reduce(graph, run, moment, RunResumed(at=now))
    later, more = reduce(graph, run, resumed, TimePassed(at=now))
    return later, [*commands, *more]


def is_first(graph: Graph, activation: str, record: Activation) -> bool:
    """Return whether an activation's message is the run's input: the first steps' activations are numbered first."""
    return any(int(activation) <= len(names) and record["step"] in names for names in (graph.starts, graph.follow_ups))


def message_schema(graph: Graph, node: Node, packed: Packed) -> JsonObject | None:
    """Return the schema of a person's replacement of a message; None where the step takes none."""
    if not node.takes_message:
        return None
    if packed[0] == "*":
        inner = node.accepts
        items = codec_for(either([codec.kind for codec in inner])).schema() if inner else {}
        definitions = {"$defs": items.pop("$defs")} if "$defs" in items else {}
        return {"type": "array", "items": items, **definitions}
    if node.hidden and not node.accepts:
        kinds = [step.takes for step in first_steps(graph, node) if step.takes_message]
        return {} if not kinds or any(is_any(kind) for kind in kinds) else codec_for(either(kinds)).schema()
    codec = codec_for(either([one.kind for one in node.accepts])) if node.accepts else codec_of(graph, node, packed[0])
    return codec.schema()


def state_schema(rule: StateRule) -> JsonObject:
    """Return the schema of the whole state; keys of sub-workflows start with their names."""
    properties: JsonObject = {}
    definitions: JsonObject = {}
    for key, codec in rule.codecs.items():
        schema = codec.schema()
        inner = schema.pop("$defs", {})
        clash = any(definitions.get(name, inner[name]) != inner[name] for name in inner)
        properties[key] = {"title": key} if clash else schema
        definitions |= {} if clash else inner
    found: JsonObject = {"type": "object", "properties": properties}
    found |= {"required": [key for key in properties if key not in rule.defaults]}
    if "" in rule.typed and len(rule.typed) == len({key.rpartition("/")[0] for key in properties} | {""}):
        found["additionalProperties"] = False
    return found | ({"$defs": definitions} if definitions else {})


def _doing(graph: Graph, moment: Moment, activation: str, moved: bool) -> ActivationInfo:
    record = moment.position["live"][activation]
    node = graph.nodes[record["step"]]
    asks = tuple(key for key, (owner, _) in moment.position["asked"].items() if owner == activation)
    does, until = _does(record, moved, bool(asks))
    return ActivationInfo(
        activation=activation,
        step=node.name.removesuffix(ENTRY),
        item=item_of(node.path, record["scope"]) if record["scope"] else None,
        does=does,
        until=until,
        message=plain(record["message"]),
        takes=message_schema(graph, node, record["message"]),
        first=is_first(graph, activation, record),
        shown=not node.hidden,
        calls=tuple(_calls(record["journal"])),
        answers=tuple(RequestKey(entry["request"]) for entry in record["journal"] if "answer" in entry),
        asks=asks,
    )


def _does(record: Activation, moved: bool, asks: bool) -> tuple[str, datetime | None]:
    times = [entry["until"] for entry in record["journal"] if entry["k"] == "sleep" and "done" not in entry]
    if "retry_at" in record:
        return "retries", datetime.fromisoformat(record["retry_at"])
    if "queued" in record:
        return "queues", None
    until = min(map(datetime.fromisoformat, times), default=None)
    if asks:
        return "waits", until
    return ("runs", None) if moved and until is None else ("sleeps", until)


def _calls(journal: list[JournalEntry]) -> Iterator[CallInfo]:
    for entry in journal:
        if entry["k"] == "call":
            once = bool(entry.get("once"))
            done = any(name in entry for name in TAKEN)
            state = "done" if done else "unknown" if once and "unknown" in entry else "again"
            yield CallInfo(name=entry["name"], state=state, once=once)


# -- the steps and calls in progress at a checkpoint

RESTING = {"queued", "parked", "retry_at"}


SETTLED = {"result", "raised", "stopped"}


def in_flight(graph: Graph, position: Position) -> InFlight:
    """Return the steps whose functions ran when this was saved, and the ``once`` calls of unknown outcome."""
    live = position.get("live", {}).values()
    hidden = {name for name, node in graph.nodes.items() if node.hidden}
    running = (one["step"] for one in live if not RESTING & one.keys() and one["step"] not in hidden)
    entries = (entry for one in live for entry in one["journal"] if entry.get("once") and not SETTLED & entry.keys())
    return InFlight(steps=tuple(dict.fromkeys(running)), calls=tuple(dict.fromkeys(one["name"] for one in entries)))
