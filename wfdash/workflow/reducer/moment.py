"""Builds the next moment: copies the parts that change, shares the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Any, Literal, overload

from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.records import Checkpoint, Json, Reason
from wfdash.workflow.compiler.graph import Graph, Node
from wfdash.workflow.reducer.routing import label_of
from wfdash.workflow.reducer.ticks import Command, Moment, RunStep, SaveCheckpoint
from wfdash.workflow.stored import (
    Activation,
    Asker,
    GroupState,
    JoinState,
    JournalEntry,
    Packed,
    Position,
    Rounds,
)

EMPTY: Position = {
    "next": 1,
    "v": 0,
    "live": {},
    "joins": {},
    "asked": {},
    "outputs": [],
    "loose": None,
    "since": {},
    "past": {},
    "wrote": {},
}
"""The position before the start."""


def new_moment(graph: Graph | None = None) -> Moment:
    """Return the moment before a run's start, with the current versions of its sub-workflows."""
    position = EMPTY.copy()
    if graph is not None and graph.levels:
        position["levels"] = graph.marks
    return Moment(state={}, position=position)


def moment_of(checkpoint: Checkpoint) -> Moment:
    """Return the moment that a checkpoint holds."""
    requests = {request.key: request for request in checkpoint.requests}
    return Moment(state=checkpoint.body["state"], position=checkpoint.body["position"], requests=requests)


class MomentBuilder:
    """One tick's working copy of a moment. ``writable`` and ``activation`` give copies, made at most once."""

    def __init__(self, graph: Graph, moment: Moment, run: str) -> None:
        self.graph = graph
        self.run = run
        self.state = moment.state
        self.position = moment.position.copy()
        self.requests = dict(moment.requests) if moment.requests else {}
        self.commands: list[Command] = []
        self.opened: dict[str, str] = {}
        """Maps and sub-workflows entered by this tick: name -> prefix of the new group's scopes."""
        self._own: set[str] = set()

    @overload
    def writable(self, name: Literal["live"]) -> dict[str, Activation]: ...

    @overload
    def writable(self, name: Literal["joins"]) -> dict[str, JoinState | GroupState]: ...

    @overload
    def writable(self, name: Literal["asked"]) -> dict[RequestKey, Asker]: ...

    @overload
    def writable(self, name: Literal["outputs"]) -> list[Packed]: ...

    @overload
    def writable(self, name: Literal["labels"]) -> dict[str, str]: ...

    @overload
    def writable(self, name: Literal["since"]) -> dict[str, int]: ...

    def writable(self, name: Any) -> Any:
        """Return a writable copy of a part of the position."""
        if name not in self._own:
            self._own.add(name)
            self.position[name] = self.position[name].copy()  # type: ignore[literal-required]
        return self.position[name]  # type: ignore[literal-required]

    def activation(self, activation: str) -> Activation:
        """Return a writable copy of an activation."""
        live = self.writable("live")
        if activation not in self._own:
            self._own.add(activation)
            live[activation] = live[activation].copy()
        return live[activation]

    def entry(self, activation: str, index: int) -> JournalEntry:
        """Return a writable copy of a journal entry."""
        record = self.activation(activation)
        record["journal"] = journal = list(record["journal"])
        journal[index] = entry = journal[index].copy()
        return entry

    def node(self, activation: str) -> Node:
        """Return the node an activation belongs to."""
        return self.graph.nodes[self.position["live"][activation]["step"]]

    def add_activation(self, node: Node, message: Packed, scope: str, rounds: Rounds | None) -> str:
        """Add an activation and return its number; it still has to be started."""
        activation = str(self.position["next"])
        self.position["next"] += 1
        record: Activation = {"step": node.name, "message": message, "scope": scope, "journal": []}
        if rounds:
            record["rounds"] = rounds
        self.writable("live")[activation] = record
        self._own.add(activation)
        return activation

    def emit(self, kind: EventKind, activation: str | None = None, /, **data: Json) -> None:
        """Add an event; hidden steps have none."""
        if activation is None:
            self.commands.append(kind.draft(**data))
            return
        record = self.position["live"][activation]
        node = self.graph.nodes[record["step"]]
        if node.hidden:
            return
        if record["scope"] and (item := item_of(node.path, record["scope"])) is not None:
            data["item"] = item
        self.commands.append(kind.draft_of(node.name, {"activation": activation, **data}))

    def save(self, reason: Reason, step: str | None = None, label: str | None = None) -> None:
        """Request a commit."""
        self.commands.append(SaveCheckpoint(reason, step, label))

    def start(self, activation: str) -> None:
        """Start an activation now, or queue it when its step has no free slot."""
        node = self.node(activation)
        record = self.activation(activation)
        if node.concurrency is not None and self._busy(node.name, activation) >= node.concurrency:
            record["queued"] = True
            return
        record.pop("queued", None)
        record["born"] = self.position["v"]
        item = item_scope(node.path, record["scope"]) if record["scope"] and not node.hidden else None
        label = ""
        if item is not None:
            label = self.position.get("labels", {}).get(item) or label_of(self.graph, node, record["message"])
        self.emit(EventKind.STEP_STARTED, activation, **({"label": label} if label else {}))
        self.commands.append(RunStep(activation))

    def name_item(self, item: str, label: str) -> None:
        """Keep what an item of a map is called, for all its steps; the first name counts."""
        if label and item not in self.position.setdefault("labels", {}):
            self.writable("labels")[item] = label
        self._drop_empty_labels()

    def forget_items(self, ended: str) -> None:
        """Forget what the items around a scope are called, where nothing can happen any more."""
        if "labels" not in self.position:
            return
        for item in _scopes_around(ended):
            if item in self.position["labels"] and not self._continues(item):
                self.writable("labels").pop(item)
        self._drop_empty_labels()

    def _continues(self, item: str) -> bool:
        # What has just begun is the last: an item that continues is found at once, however many others there are.
        tokens = chain(reversed(self.position["live"].values()), self.position["joins"].values())
        return any(token["scope"].startswith(item) for token in tokens)

    def _drop_empty_labels(self) -> None:
        if not self.position.get("labels", True):
            self.position.pop("labels")

    def _busy(self, step: str, but: str) -> int:
        live = self.position["live"].items()
        return sum(1 for key, a in live if a["step"] == step and key != but and "queued" not in a)

    def start_queued(self, node: Node, most: int) -> None:
        """Give the free slots of a step to its queued activations."""
        free = most - self._busy(node.name, "")
        waiting = [key for key, a in self.position["live"].items() if a["step"] == node.name and "queued" in a]
        for activation in waiting[: max(free, 0)]:
            self.start(activation)

    def build(self) -> tuple[Moment, list[Command]]:
        """Return the moment and the commands."""
        return Moment(self.state, self.position, self.requests), self.commands


def group_prefix(scope: str, depth: int) -> str:
    """Return the prefix of a group's scopes: the group at ``depth`` around ``scope``."""
    parts = scope.split("/")
    above = "".join(part + "/" for part in parts[:depth])
    return f"{above}{parts[depth].split('.')[0]}."


def parent_scope(prefix: str) -> str:
    """Return the scope in which a group was opened."""
    return prefix[: prefix.rfind("/") + 1]


def item_index(scope: str, prefix: str) -> int:
    """Return the item of the group that a scope belongs to."""
    return int(scope[len(prefix) :].split("/", 1)[0])


def item_of(path: tuple[str, ...], scope: str) -> int | None:
    """Return the index of the innermost map item around a scope, None outside of maps."""
    item = item_scope(path, scope)
    return None if item is None else int(item[:-1].rpartition(".")[2])


def item_scope(path: tuple[str, ...], scope: str) -> str | None:
    """Return the scope of the innermost map item around a scope, None outside of maps."""
    around = list(_scopes_around(scope))
    return next((around[depth] for depth in range(len(path) - 1, -1, -1) if path[depth].startswith("each:")), None)


def scopes_in(position: Position) -> Iterator[str]:
    """Yield the scope of everything that is in progress or waits in a join."""
    for activation in position["live"].values():
        yield activation["scope"]
    for entry in position["joins"].values():
        yield entry["scope"]


def _scopes_around(scope: str) -> Iterator[str]:
    """Yield the scopes of which this one is a part, outermost first, and itself."""
    return accumulate(part + "/" for part in scope.split("/")[:-1])
