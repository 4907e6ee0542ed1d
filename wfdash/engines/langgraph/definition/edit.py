"""What people may change of a checkpoint: the values of channels are replaced, whatever their reducers would do."""

from __future__ import annotations

from collections.abc import Mapping

from langgraph.channels.base import BaseChannel

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json
from wfdash.contract import ActivationInfo, Edited, Edits, InvalidInput, LookAhead
from wfdash.engines.langgraph.definition.describe import describe
from wfdash.engines.langgraph.definition.graphs import Ready
from wfdash.engines.langgraph.definition.schemas import InputPart, Schema, object_schema, part_of, titled
from wfdash.engines.langgraph.stored.show import show
from wfdash.engines.langgraph.stored.thread import Space, Thread, is_hidden
from wfdash.engines.langgraph.stored.values import encode
from wfdash.values.errors import WorkflowError
from wfdash.values.schemas.validate import problems_of

Problem = dict[str, Json]


def edit(ready: Ready, checkpoint: Checkpoint, edits: Edits) -> Edited:
    """Return a checkpoint's content with values of the state replaced; those that are not named stay.

    No reducer sees a new value, and nothing runs again because of it. ``InvalidInput`` with errors per field;
    ``Incompatible`` for a checkpoint of another graph.
    """
    _refuse_other_graph(ready, checkpoint)
    if edits.messages:
        raise InvalidInput([{"loc": ["messages"], "msg": "What a node was given comes from the state: edit that"}])
    thread = Thread.of(checkpoint.body)
    root, shown = thread.root, show(checkpoint).state
    if edits.state is None or root is None:
        return Edited(body=checkpoint.body, requests=checkpoint.requests)
    problems: list[Problem] = []
    changed = [
        name
        for name, value in edits.state.items()
        if value != shown.get(name, root.faces.get(name)) and not _complaints(ready, root, name, value, problems)
    ]
    if problems:
        raise InvalidInput(problems)
    words = (f"state changed: {', '.join(changed)}",) if changed else ()
    return Edited(body=thread.body(), requests=checkpoint.requests, words=words)


def _complaints(ready: Ready, root: Space, name: str, value: Json, problems: list[Problem]) -> bool:
    """Replace the value of a channel; note what is wrong with it, and return whether anything is."""
    part = _editable(ready).get(name)
    if part is None:
        inner = name in ready.levels
        what = "A value of a subgraph in progress cannot be changed" if inner else "The graph has no value of this name"
        found: list[Problem] = [{"loc": [], "msg": what}]
    else:
        found = list(problems_of(part.schema, value)) if part.schema and not part.chat else []
    if not found and part is not None:
        try:
            root.values[name], root.faces[name] = encode(part.read(value), name)
        except (ValueError, TypeError, WorkflowError) as error:
            found = [{"loc": [], "msg": f"is not valid: {error}"}]
        else:
            root.deltas.pop(name, None)
            root.head = {**root.head, "values": [*dict.fromkeys([*root.head["values"], name])]}
    problems += [{**one, "loc": ["state", name, *one["loc"]]} for one in found]
    return bool(found)


def _editable(ready: Ready) -> Mapping[str, InputPart]:
    channels = ((name, one) for name, one in ready.graph.channels.items() if isinstance(one, BaseChannel))
    return {name: part_of(name, one.ValueType, one) for name, one in channels if not is_hidden(name)}


def look_ahead(ready: Ready, checkpoint: Checkpoint) -> LookAhead:
    """Return which steps are in progress at a checkpoint, and the form of its state. ``Incompatible``."""
    _refuse_other_graph(ready, checkpoint)
    thread = Thread.of(checkpoint.body)
    asking: dict[str, list[RequestKey]] = {}
    for request in checkpoint.requests:
        asking.setdefault(request.step, []).append(request.key)
    doing = [
        ActivationInfo(
            activation=task, step=step, does="waits" if step in asking else "runs", asks=tuple(asking.get(step, ()))
        )
        for task, step in thread.doing.items()
    ]
    return LookAhead(doing=tuple(doing), state_schema=_state_schema(ready, checkpoint))


def _state_schema(ready: Ready, checkpoint: Checkpoint) -> Schema:
    state = show(checkpoint).state
    properties = {name: titled(name, part.schema) for name, part in _editable(ready).items() if name in state}
    properties |= {name: titled(name, {"const": state[name]}) for name in state if name not in properties}
    return object_schema(properties) | {"additionalProperties": False}


def _refuse_other_graph(ready: Ready, checkpoint: Checkpoint) -> None:
    version = describe(ready).version
    if checkpoint.version != version:
        raise Incompatible(
            f"checkpoint {checkpoint.n} belongs to graph {checkpoint.version[:8]}, loaded is {version[:8]}: "
            "continue the run on the current version first, then edit its new head"
        )
