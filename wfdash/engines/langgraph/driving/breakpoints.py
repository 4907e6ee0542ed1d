"""Where a graph stands still because its author says so (``interrupt_before``, ``interrupt_after``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import StateSnapshot

from checkpoints.records import Json
from wfdash.engines.langgraph.definition.graphs import Graph, Ready
from wfdash.engines.langgraph.driving.questions import BREAKPOINT
from wfdash.engines.langgraph.stored.thread import Thread, path_of


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where one level of the graph is: its namespace and path, its checkpoint, and the nodes that come next."""

    ns: str
    path: str
    checkpoint: str
    nodes: tuple[str, ...]


class Breakpoints:
    """The breakpoints of one drive."""

    def __init__(self, ready: Ready, graph: Graph, thread: Thread, config: Mapping[str, Any]) -> None:
        self.hit = False
        """Whether the graph has stopped at one."""
        self._ready, self._graph, self._thread, self._config = ready, graph, thread, config

    @property
    def are_declared(self) -> bool:
        """Return whether the graph, or one in it, has breakpoints."""
        return any(graph.interrupt_before_nodes or graph.interrupt_after_nodes for graph in self._ready.levels.values())

    async def here(self) -> dict[str, Json] | None:
        """Return where the graph stands: ``nodes`` that come next, ``checkpoint``, and the ``key`` of the question."""
        stands = [stand for stand in await self._stands() if stand.nodes]
        return self._asked(stands) if stands else None

    async def missed(self) -> dict[str, Json] | None:
        """Return where the graph has to stand still before it continues, None if nowhere.

        A process that ends between a step and the question about it would otherwise run past the breakpoint:
        LangGraph takes each call without an input for a person's permission.
        """
        if self._thread.root is None or not self.are_declared:
            return None
        stands = [stand for stand in await self._stands() if self._stops(stand)]
        found = self._asked(stands) if stands else None
        return None if found is None or found["checkpoint"] == self._thread.passed else found

    def _asked(self, stands: list[_Stand]) -> dict[str, Json]:
        checkpoint = ".".join(stand.checkpoint for stand in stands)
        nodes = [f"{stand.path}/{name}" if stand.path else name for stand in stands for name in stand.nodes]
        steps = [self._ready.step_named(node) for node in nodes]
        return {"nodes": steps, "checkpoint": checkpoint, "key": f"{BREAKPOINT}.{stands[0].checkpoint}"}

    def _stops(self, stand: _Stand) -> bool:
        before = self._ready.breaks(stand.path, before=True)
        after = self._ready.breaks(stand.path, before=False)
        ran = frozenset(self._thread.ran.get(stand.ns, ()))
        stops_before = bool(stand.nodes) if before is None else not before.isdisjoint(stand.nodes)
        stops_after = bool(ran) if after is None else not after.isdisjoint(ran)
        return bool(stand.nodes) and (stops_before or stops_after)

    async def _stands(self) -> list[_Stand]:
        config: Any = self._config
        return list(_innermost(await self._graph.aget_state(config, subgraphs=True)))


def _innermost(snapshot: StateSnapshot) -> Iterator[_Stand]:
    """Yield where the levels stand that no other level is in progress in."""
    inner = [task.state for task in snapshot.tasks if isinstance(task.state, StateSnapshot) and task.state.next]
    if inner:
        for one in inner:
            yield from _innermost(one)
        return
    about = snapshot.config["configurable"]
    ns = str(about.get("checkpoint_ns") or "")
    yield _Stand(ns, path_of(ns), str(about.get("checkpoint_id")), tuple(snapshot.next))
