"""What a checkpoint of a graph holds and pages show: the newest of each namespace, with pending writes. Pure.

LangGraph keeps a checkpoint per namespace: one for the graph, one for each subgraph that is in progress. Here all of
them are one, so that restoring and forking copy a row and run nothing. The body of a checkpoint is::

    {"state": {channel: value}, "position": {"format": 1, "space||<ns>": {...}, "value||<ns>||<channel>": stored, ...}}

``state`` is what people see of the graph's own channels. A value that is plain JSON is stored there alone; any other
has its stored form under ``value||``. The keys of ``position`` are flat, and an entry that has not changed is the same
Python object as in the checkpoint before, so that storing it again costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkpoints.errors import Damaged
from checkpoints.records import Checkpoint, Json, JsonObject
from wfdash.contract import InFlight, Message, Shown, ToolUse

FORMAT = 1
SEP = "||"
"""Separates the parts of a key. No namespace contains it: its own separators are one ``|`` and ``:``."""
SPECIAL = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
"""The places of writes that say what happened to a task: a later one replaces the one before."""
OUTPUT = "__end__"
"""The channel of LangGraph's own that holds what a function returned."""
NEXT, JOIN = "branch:to:", "join:"
"""How the channels begin that say which node comes next, and which of several before a node have ended."""
HIDDEN = ("__", NEXT, JOIN)
"""How the names of channels begin that no author declared."""


def is_hidden(channel: str) -> bool:
    """Return whether a channel is one of LangGraph's own."""
    return channel.startswith(HIDDEN)


def path_of(ns: str, name: str = "") -> str:
    """Return the path of a namespace, or of a node in it, without the tasks: ``a:1f2e|b:3d4c`` and ``c`` are ``a/b/c``.

    A part that is only a number tells apart the calls of one node, whatever that is called.
    """
    named = [part.partition(":")[0] for part in ns.split("|") if part and not part.isdigit()]
    return "/".join([*named, name] if name else named)


@dataclass(slots=True)
class Space:
    """A namespace: its newest checkpoint, and what its tasks have written since."""

    head: JsonObject
    """``id``, ``ts``, ``v``, ``versions``, ``seen``, ``updated``, ``metadata``, ``parent``, ``values`` (the names)."""
    values: JsonObject = field(default_factory=dict)
    """Channel -> stored value."""
    faces: JsonObject = field(default_factory=dict)
    """Channel -> what pages show of it."""
    writes: JsonObject = field(default_factory=dict)
    """Task -> its writes: ``{"path": text, "at": {place: [channel, stored]}}``, replaced when it changes."""
    deltas: JsonObject = field(default_factory=dict)
    """Channel -> ``{"seed": stored, "writes": [[task, stored], ...]}``, for channels whose value is not stored."""

    def pending(self) -> Iterator[tuple[str, str, Json]]:
        """Yield task, channel and stored value of its writes, in the order LangGraph applies them."""
        for task, one in sorted(self.writes.items(), key=lambda pair: (pair[1]["path"], pair[0])):
            for _, (channel, stored) in sorted(one["at"].items(), key=lambda pair: int(pair[0])):
                yield task, channel, stored


@dataclass(slots=True)
class Thread:
    """All namespaces of a run, and what the engine remembers beside them."""

    spaces: dict[str, Space] = field(default_factory=dict)
    given: JsonObject = field(default_factory=dict)
    """Interrupt -> ``{part: answer}`` of questions that people have answered and no step has taken yet."""
    breakpoint: JsonObject | None = None
    """``{"nodes": [...], "key": ...}``: where the graph stands still because its author says so."""
    passed: str = ""
    """The checkpoint of the graph at whose breakpoint a person let it continue."""
    ran: dict[str, list[str]] = field(default_factory=dict)
    """Namespace -> the nodes that ran before its newest checkpoint."""
    parked: bool = False
    """Nothing runs before an answer."""
    inputs: JsonObject = field(default_factory=dict)
    """Task -> what it was given, where that is not the graph's state."""
    doing: JsonObject = field(default_factory=dict)
    """Task -> the name of its step: those that have started and not ended."""
    context: Json = None
    """The context that the run was started with; None: it was not asked for, or not given."""

    @property
    def root(self) -> Space | None:
        """Return the graph's own namespace."""
        return self.spaces.get("")

    # -- what savers store

    def put(self, ns: str, head: JsonObject, fresh: Mapping[str, tuple[Json, Json]], deltas: frozenset[str]) -> None:
        """Store a checkpoint of a namespace. ``fresh``: channel -> stored value and face, of those that have changed.

        ``deltas``: channels whose value it does not hold. What was written before is taken into it.
        """
        before = self.spaces.get(ns)
        same = head["id"] == before.head["id"] if before else False
        kept = before or Space(head={})
        grown = _grown(kept, deltas)
        unchanged = [name for name, one in grown.items() if not one["writes"] and "seed" in one]
        held = head["values"] = [*head["values"], *unchanged]
        values = {name: kept.values[name] for name in held if name in kept.values}
        faces = {name: kept.faces[name] for name in held if name in kept.faces}
        values |= {name: pair[0] for name, pair in fresh.items() if name in held}
        faces |= {name: pair[1] for name, pair in fresh.items() if name in held}
        deltas_left = {name: one for name, one in grown.items() if one["writes"]}
        writes = kept.writes if same else {}
        self.spaces[ns] = Space(head=head, values=values, faces=faces, deltas=deltas_left, writes=writes)
        if not same:
            for child in [name for name in self.spaces if _is_done_with(ns, name)]:
                del self.spaces[child]
            self.ran = {name: ran for name, ran in self.ran.items() if name in self.spaces}

    def write(self, ns: str, checkpoint: str, task: str, path: str, writes: list[tuple[str, Json]]) -> bool:
        """Store what a task has written since a checkpoint; False if that is not the namespace's newest."""
        space = self.spaces.get(ns)
        if space is None or space.head["id"] != checkpoint:
            return False
        before = space.writes.get(task) or {"path": path, "at": {}}
        places: JsonObject = dict(before["at"])
        for index, (channel, stored) in enumerate(writes):
            place = SPECIAL.get(channel, index)
            if place < 0 or str(place) not in places:
                places[str(place)] = [channel, stored]
        space.writes[task] = {"path": path or before["path"], "at": places}
        return True

    # -- as JSON

    def body(self) -> JsonObject:
        """Return it as the body of a checkpoint."""
        position: JsonObject = {"format": FORMAT, "own": self._own()}
        state: JsonObject = {}
        if self.context is not None:
            position["context"] = self.context
        for ns, space in self.spaces.items():
            position[f"space{SEP}{ns}"] = space.head
            for name, stored in space.values.items():
                whole, key = is_shown_whole(stored), f"{SEP}{ns}{SEP}{name}"
                if not is_hidden(name) and not ns:
                    state[name] = space.faces[name]
                elif not whole and (name == OUTPUT or not is_hidden(name)):
                    position[f"face{key}"] = space.faces[name]
                if ns or is_hidden(name) or not whole:
                    position[f"value{key}"] = stored
            position |= {f"write{SEP}{ns}{SEP}{task}": one for task, one in space.writes.items()}
            position |= {f"delta{SEP}{ns}{SEP}{name}": one for name, one in space.deltas.items()}
        return {"state": state, "position": position}

    def _own(self) -> JsonObject:
        own = {"given": self.given, "breakpoint": self.breakpoint, "passed": self.passed, "ran": self.ran}
        more = {"parked": self.parked, "inputs": self.inputs, "doing": self.doing}
        return {name: value for name, value in {**own, **more}.items() if value}

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Thread:
        """Return what a checkpoint's body holds. ``Damaged`` if it is not one of a graph."""
        position, state = body.get("position"), body.get("state", {})
        if not (isinstance(position, dict) and isinstance(state, dict) and position.get("format") == FORMAT):
            raise Damaged("this checkpoint is not one of a LangGraph workflow")
        own = position.get("own", {})
        thread = cls(**{name: own[name] for name in own if name in cls.__slots__}, context=position.get("context"))
        for key, one in position.items():
            kind, _, rest = key.partition(SEP)
            ns, _, name = rest.partition(SEP)
            if kind == "space":
                thread._space(ns).head = one
            elif kind in {"value", "write", "delta", "face"}:
                table: JsonObject = getattr(thread._space(ns), f"{kind}s")
                table[name] = one
        if thread.root is not None:
            _add_state(thread.root, state)
        return thread

    def _space(self, ns: str) -> Space:
        return self.spaces.setdefault(ns, Space(head={}))


def _add_state(root: Space, state: Mapping[str, Json]) -> None:
    for name, face in state.items():
        root.faces[name] = face
        root.values.setdefault(name, {"json": face})
    if OUTPUT in root.values and is_shown_whole(root.values[OUTPUT]):
        root.faces[OUTPUT] = root.values[OUTPUT]["json"]


def is_shown_whole(stored: Json) -> bool:
    """Return whether what pages show of a value is all that is stored of it."""
    return isinstance(stored, dict) and "json" in stored


def _grown(before: Space, missing: frozenset[str]) -> JsonObject:
    """Return what rebuilds channels whose value a checkpoint does not hold: an earlier value and all writes since."""
    grown: JsonObject = {}
    for name in sorted(missing):
        found = before.deltas.get(name) or {"writes": []}
        if name in before.values:
            found = {"seed": before.values[name], "writes": []}
        since = [[task, stored] for task, channel, stored in before.pending() if channel == name]
        grown[name] = {**found, "writes": [*found["writes"], *since]}
    return grown


def _is_done_with(parent: str, child: str) -> bool:
    """Return whether a namespace is of a task of ``parent`` whose step has ended: it is not read again.

    A subgraph with a memory of its own (``checkpointer=True``) has no task in its namespace.
    """
    prefix = f"{parent}|" if parent else ""
    rest = child.removeprefix(prefix)
    return child != parent and child.startswith(prefix) and ":" in rest.partition("|")[0]


ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
ROLES |= {"system": "system", "developer": "system"}
"""The role or type of a message -> who speaks."""


def show(checkpoint: Checkpoint) -> Shown:
    """Return a checkpoint's state without what is LangGraph's own, its conversation, and what steps were given.

    The state of a subgraph in progress is under its name. ``ValueError`` for a checkpoint of another engine.
    """
    position = checkpoint.body.get("position")
    if not isinstance(position, dict) or position.get("format") != FORMAT:
        raise ValueError("its content is none of a LangGraph workflow")
    thread = Thread.of(checkpoint.body)
    state: JsonObject = {}
    for ns, space in thread.spaces.items():
        rest = {name: face for name, face in _faces(space).items() if not transcript_of(face)}
        if rest:
            state |= {path_of(ns): rest} if ns else rest
    return Shown(state=state, transcript=longest_transcript(thread), inputs=thread.inputs)


def longest_transcript(thread: Thread) -> tuple[Message, ...]:
    """Return the longest conversation: an agent in a subgraph has that of the graph around it, and adds to it."""
    spoken = (transcript_of(face) for space in thread.spaces.values() for face in _faces(space).values())
    return max(spoken, key=len, default=())


def all_said(thread: Thread) -> Iterator[Json]:
    """Yield what pages show of the items of all lists in a thread, of which some are messages."""
    for space in thread.spaces.values():
        for face in _faces(space).values():
            yield from face if isinstance(face, list) else ()


def _faces(space: Space) -> JsonObject:
    """Return what pages show of a namespace's channels; of plain JSON that is the value itself."""
    plain = {name: one["json"] for name, one in space.values.items() if isinstance(one, dict) and "json" in one}
    return {name: face for name, face in {**plain, **space.faces}.items() if not is_hidden(name)}


def in_flight(checkpoint: Checkpoint) -> InFlight:
    """Return the steps that had started and not ended at a checkpoint. Empty for a body of another engine."""
    position = checkpoint.body.get("position")
    own = position.get("own", {}) if isinstance(position, dict) else {}
    return InFlight(steps=tuple(dict.fromkeys(own.get("doing", {}).values())))


def transcript_of(face: Json) -> tuple[Message, ...]:
    """Return a list of messages as a transcript; empty for anything else."""
    if not isinstance(face, list) or not face:
        return ()
    found = [_message(one) for one in face if isinstance(one, dict) and one.get("role") in ROLES and "content" in one]
    return tuple(found) if len(found) == len(face) else ()


def _message(face: Mapping[str, Any]) -> Message:
    calls = face.get("tool_calls") or ()
    return Message(
        role=ROLES[face["role"]],
        text=text_of(face["content"]),
        name=str(face.get("name") or ""),
        calls=tuple(
            ToolUse(id=str(call.get("id") or ""), name=str(call.get("name") or ""), arguments=call.get("args"))
            for call in calls
            if isinstance(call, dict)
        ),
        call=str(face.get("tool_call_id") or ""),
        failed=face.get("status") == "error",
        model=str(face.get("model") or ""),
        input_tokens=_count(face.get("input_tokens")),
        output_tokens=_count(face.get("output_tokens")),
    )


def _count(value: Json) -> int | None:
    return value if type(value) is int else None


def text_of(content: Json) -> str:
    """Return the text of a message's content, whatever parts it has."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part if isinstance(part, str) else part.get("text", "") for part in parts if isinstance(part, (str, dict)))
    return "".join(text for text in texts if isinstance(text, str))
