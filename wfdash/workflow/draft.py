"""The next moment in the making: copies what changes, shares what does not."""

from __future__ import annotations

from typing import Any

from checkpoints.records import EventDraft, Json, Reason
from wfdash.workflow.graph import Graph, Node
from wfdash.workflow.ticks import Command, Moment, Note, Packed, Run, Save

EMPTY: dict[str, Json] = {
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
"""A position before the start. ``docs``: see ``reduce``."""


def new_moment(graph: Graph | None = None) -> Moment:
    """Return the moment before a run's start; with sub-workflows it remembers which versions of them it began under."""
    marks: dict[str, Json] = {"levels": graph.marks} if graph is not None and graph.levels else {}
    return Moment(state={}, position=EMPTY | marks)


class Draft:
    """One tick's working copy. ``part`` and ``act`` give writable copies, made at most once."""

    def __init__(self, graph: Graph, moment: Moment, run: str) -> None:
        self.graph = graph
        self.run = run
        self.state = moment.state
        self.position = dict(moment.position)
        self.requests = dict(moment.requests) if moment.requests else {}
        self.commands: list[Command] = []
        self.opened: dict[str, str] = {}
        """Maps and sub-workflows entered by this tick: name -> prefix of the new group's scopes."""
        self._own: set[str] = set()

    def part(self, name: str) -> Any:
        """Return a writable copy of a part of the position."""
        if name not in self._own:
            self._own.add(name)
            self.position[name] = self.position[name].copy()
        return self.position[name]

    def act(self, act: str) -> dict[str, Any]:
        """Return a writable copy of an activation."""
        live = self.part("live")
        if act not in self._own:
            self._own.add(act)
            live[act] = dict(live[act])
        return live[act]  # type: ignore[no-any-return]

    def entry(self, act: str, index: int) -> dict[str, Any]:
        """Return a writable copy of a journal entry."""
        record = self.act(act)
        record["journal"] = list(record["journal"])
        record["journal"][index] = dict(record["journal"][index])
        return record["journal"][index]  # type: ignore[no-any-return]

    def node(self, act: str) -> Node:
        """Return the node an activation belongs to."""
        return self.graph.nodes[self.position["live"][act]["step"]]

    def spawn(self, node: Node, message: Packed, scope: str, rounds: dict[str, int] | None) -> str:
        """Add an activation; it still has to be started."""
        act = str(self.position["next"])
        self.position["next"] += 1
        record: dict[str, Any] = {"step": node.name, "message": message, "scope": scope, "journal": []}
        if rounds:
            record["rounds"] = rounds
        self.part("live")[act] = record
        self._own.add(act)
        return act

    def note(self, kind: str, act: str | None = None, /, **data: Json) -> None:
        """Add an event; those of hidden steps are nobody's business."""
        if act is None:
            self.commands.append(Note(EventDraft(kind=kind, data=data)))
            return
        record = self.position["live"][act]
        node = self.graph.nodes[record["step"]]
        if node.hidden:
            return
        facts: dict[str, Json] = {"activation": act, **data}
        if record["scope"] and (item := item_of(node.path, record["scope"])) is not None:
            facts["item"] = item
        self.commands.append(Note(EventDraft(kind=kind, step=node.name, data=facts)))

    def save(self, reason: Reason, step: str | None = None, label: str | None = None) -> None:
        """Ask for a commit."""
        self.commands.append(Save(reason, step, label))

    def begin(self, act: str) -> None:
        """Start an activation now, or queue it when its step has no free slot."""
        node = self.node(act)
        record = self.act(act)
        if node.concurrency is not None and self._busy(node.name, act) >= node.concurrency:
            record["queued"] = True
            return
        record.pop("queued", None)
        record["born"] = self.position["v"]
        self.note("step.started", act)
        self.commands.append(Run(act))

    def _busy(self, step: str, but: str) -> int:
        live = self.position["live"].items()
        return sum(1 for key, a in live if a["step"] == step and key != but and "queued" not in a)

    def begin_queued(self, node: Node) -> None:
        """Give the slots of a step that ended to those that queue for it."""
        if node.concurrency is None:
            return
        free = node.concurrency - self._busy(node.name, "")
        waiting = [key for key, a in self.position["live"].items() if a["step"] == node.name and "queued" in a]
        for act in waiting[: max(free, 0)]:
            self.begin(act)

    def finish(self) -> tuple[Moment, list[Command]]:
        """Freeze it."""
        return Moment(self.state, self.position, self.requests), self.commands


def group_prefix(scope: str, depth: int) -> str:
    """Return what the scopes of one group start with: the group at ``depth`` around ``scope``."""
    parts = scope.split("/")
    above = "".join(part + "/" for part in parts[:depth])
    return f"{above}{parts[depth].split('.')[0]}."


def parent_scope(prefix: str) -> str:
    """Return the scope in which a group was opened."""
    return prefix[: prefix.rfind("/") + 1]


def item_index(scope: str, prefix: str) -> int:
    """Return which item of the group a scope belongs to."""
    return int(scope[len(prefix) :].split("/", 1)[0])


def item_of(path: tuple[str, ...], scope: str) -> int | None:
    """Return the index of the innermost map item around a scope, None outside of maps."""
    parts = scope.split("/")
    for depth in range(len(path) - 1, -1, -1):
        if path[depth].startswith("each:"):
            return int(parts[depth].split(".")[1])
    return None
