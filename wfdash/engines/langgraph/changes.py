"""What changes a checkpoint of a graph: people, who replace values of channels, and a graph that has changed since.

A run continues automatically where the graph gained channels and nodes, or lost nodes that the run does not wait for.
Everything else is an operator's decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from langgraph.channels.base import BaseChannel

from checkpoints.errors import Damaged, Incompatible
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json, JsonObject
from wfdash.contract import ActivationInfo, Carried, Description, Edited, Edits, InvalidInput, LookAhead
from wfdash.domain.graph_diff import compare
from wfdash.engines.langgraph.describe import describe
from wfdash.engines.langgraph.graphs import Ready
from wfdash.engines.langgraph.schemas import InputPart, Schema, object_schema, part_of, titled
from wfdash.engines.langgraph.thread import JOIN, NEXT, Space, Thread, is_hidden, path_of, show
from wfdash.engines.langgraph.values import decode, encode
from wfdash.values.errors import WorkflowError
from wfdash.values.schemas.validate import problems_of

Problem = JsonObject


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


SENDS = "__pregel_tasks"
"""The channel of nodes that come next with a message of their own (``Send``)."""
Route = tuple[str, str, str]
"""Source, target and kind of an edge."""


def carry(ready: Ready, checkpoint: Checkpoint, old: Description | None, *, override: bool) -> Carried:
    """Return the checkpoint's content under the current graph, unchanged.

    ``Incompatible`` without ``override``, unless the graph only gained or lost what the checkpoint does not depend on.
    With it, too, if a node that comes next is gone: LangGraph would finish the run without it, and say nothing.
    """
    thread, now = Thread.of(checkpoint.body), describe(ready)
    words = compare(old, now).words if old is not None else ()
    steps = {request.step for request in checkpoint.requests} - set(ready.steps)
    gone = sorted({*_missing(ready, thread), *steps})
    continues = old is not None and not gone and _keeps_its_ways(old, now) and _keeps_values(ready, old, now, thread)
    if not override and not continues:
        raise Incompatible(
            "The workflow changed since this run started"
            + (f": {'; '.join(words)}" if words else "")
            + ". LangGraph has no migrations: bring its old code back, or continue it on the current version"
        )
    if gone:
        raise Incompatible(f"The checkpoint continues at {', '.join(gone)}, which the graph no longer has")
    if override:
        return Carried(how="override", body=checkpoint.body, requests=checkpoint.requests)
    return Carried(how="added", body=checkpoint.body, requests=checkpoint.requests, words=words)


def _keeps_its_ways(old: Description, new: Description) -> bool:
    """Return whether the steps of both graphs follow each other in both, but for steps that only one of them has."""
    steps = {one.name for one in old.steps}, {one.name for one in new.steps}
    both, added, removed = steps[0] & steps[1], steps[1] - steps[0], steps[0] - steps[1]
    before, after = _routes(old), _routes(new)
    lost = {one for one in before - after if {*one[:2]} <= both}
    gained = {one for one in after - before if {*one[:2]} <= both}
    return all(_leads(one, after, added) for one in lost) and all(_leads(one, before, removed) for one in gained)


def _routes(described: Description) -> set[Route]:
    return {(edge.source, edge.target, edge.kind) for edge in described.edges}


def _leads(route: Route, routes: set[Route], through: set[str]) -> bool:
    """Return whether a way leads from a route's source to its target through none but these steps."""
    start, end, _ = route
    reached, fresh = set[str](), {target for source, target, _ in routes if source == start} & through
    while fresh:
        reached |= fresh
        fresh = ({target for source, target, _ in routes if source in fresh} & through) - reached
    return any(source in reached and target == end for source, target, _ in routes)


def _keeps_values(ready: Ready, old: Description, new: Description, thread: Thread) -> bool:
    """Return whether each value of a checkpoint has its place in the graph, and whatever waits for several nodes.

    False where it is not known what the old graph kept, and for a graph that is none of nodes and edges.
    """
    before, after = ({(one.parent, one.name): one.kind for one in graph.channels} for graph in (old, new))
    declared = {(one.parent, one.name) for one in old.channels if not one.hidden and one.parent in ready.levels}
    used = {
        (path_of(ns), name)
        for ns, space in thread.spaces.items()
        for name in (*space.values, *(channel for _, channel, _ in space.pending()))
    }
    joins = [{place for place in kinds if place[1].startswith(JOIN)} for kinds in (before, after)]
    built = all(getattr(graph, "builder", None) is not None for graph in ready.levels.values())
    same = all(before.get(place) == after.get(place) for place in declared | used)
    return bool(before) and built and same and joins[0] == joins[1]


def _missing(ready: Ready, thread: Thread) -> Iterator[str]:
    """Yield the paths of the nodes that come next and that the graph does not have."""
    for ns, space in thread.spaces.items():
        path = path_of(ns)
        level = ready.levels.get(path)
        if level is None:
            # A graph that the function of a node calls is none of the levels.
            parts = path.split("/")
            if not any("/".join(parts[:length]) in ready.steps for length in range(1, len(parts) + 1)):
                yield path
            continue
        yield from (f"{path}/{name}" if path else name for name in _following(space) if name not in level.nodes)


def _following(space: Space) -> Iterator[str]:
    """Yield the nodes that come next. ``Incompatible`` if a message to one cannot be read."""
    written = [(channel, stored) for _, channel, stored in space.pending()]
    for channel, stored in (*space.values.items(), *written):
        if channel.startswith(NEXT):
            yield channel.removeprefix(NEXT)
        elif channel == SENDS:
            try:
                held = decode(stored)
            except Damaged as error:
                raise Incompatible(str(error)) from error
            yield from (one.node for one in (held if isinstance(held, list) else [held]))
