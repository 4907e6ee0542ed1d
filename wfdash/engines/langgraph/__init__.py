"""The engine for graphs of LangGraph behind the contract. Light: nothing of LangGraph is imported before a graph is."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from checkpoints.records import Checkpoint, Json, JsonObject, Request
from checkpoints.storage import Recorder
from wfdash.contract import Carried, Description, Edited, Edits, InFlight, LookAhead, Outcome, RunInput, Shown
from wfdash.engines.langgraph.thread import in_flight, show
from wfdash.engines.serving import Served
from wfdash.installation.workflow_sources import check_framework

if TYPE_CHECKING:
    from wfdash.engines.langgraph.graphs import Ready

MOST_KEPT = 256
"""Graphs that are kept ready."""


class LangGraphEngine:
    """Runs graphs of LangGraph as they are: compiled ones, builders, and entrypoints of the functional API."""

    name = "langgraph"

    def __init__(self) -> None:
        self._ready: OrderedDict[int, Ready] = OrderedDict()

    def accepts(self, definition: object) -> bool:
        """Return whether this object is a graph, a builder of one, or an entrypoint."""
        return is_graph(definition)

    def parts(self, served: Served) -> Iterable[object]:
        """Return a graph's builder, and the graphs in it: they are not served beside it."""
        from wfdash.engines.langgraph.graphs import parts_of

        return parts_of(served)

    def describe(self, definition: object) -> Description:
        """Return a graph's description; ``UnusableFramework``, ``NotServable``, or LangGraph's own error."""
        check_framework("langgraph")
        from wfdash.engines.langgraph.describe import describe

        return describe(self._ready_of(definition))

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will receive it; ``InvalidInput`` with errors per field."""
        from wfdash.engines.langgraph.schemas import input_of

        input_of(self._ready_of(definition)).check(message)
        return message

    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message that continues a conversation; ``InvalidInput`` with errors per field."""
        from wfdash.engines.langgraph.schemas import check_follow_up

        return check_follow_up(self._ready_of(definition), checkpoint, message)

    def show(self, checkpoint: Checkpoint) -> Shown:
        """Return the state, the conversation and what steps were given. ``ValueError`` for a body of another engine."""
        return show(checkpoint)

    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return the steps that had started and not ended at a checkpoint."""
        return in_flight(checkpoint)

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return a checkpoint's content with values of channels replaced; ``InvalidInput`` with errors per field."""
        from wfdash.engines.langgraph.changes import edit

        return edit(self._ready_of(definition), checkpoint, edits)

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return which steps are in progress at a checkpoint; ``Incompatible`` for one of another graph."""
        from wfdash.engines.langgraph.changes import look_ahead

        return look_ahead(self._ready_of(definition), checkpoint)

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the current graph, if an operator says so. ``Incompatible``."""
        from wfdash.engines.langgraph.changes import carry

        return carry(self._ready_of(definition), checkpoint, old, override=override)

    def check_answer(self, definition: object, request: Request, value: Json) -> list[JsonObject]:
        """Return what the type given with ``serve(answers=)`` rejects in a value that is valid by its schema."""
        return definition.check_answer(request, value) if isinstance(definition, Served) else []

    def code_places(self, definition: object) -> tuple[tuple[str, str, int], ...]:
        """Return the name, file and first line of each node that is a Python function."""
        from wfdash.engines.langgraph.describe import code_places

        return code_places(self._ready_of(definition))

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the fields that ``serve(secrets=)`` names, and those that the types of the state call secrets."""
        from wfdash.engines.langgraph.describe import secrets_of

        return secrets_of(self._ready_of(definition))

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, suspended or failed; answers to requests that are not pending here are ignored."""
        from wfdash.engines.langgraph.describe import describe
        from wfdash.engines.langgraph.drive import GraphDrive
        from wfdash.engines.langgraph.schemas import message_of

        about, ready = describe(self._ready_of(definition)), self._ready_of(definition, fresh=True)
        drive = GraphDrive(ready, about.workflow, about.version, given, recorder)
        return await drive.go(message_of(ready, given))

    def _ready_of(self, definition: object, *, fresh: bool = False) -> Ready:
        """Return a graph ready to be run. ``fresh``: a new one of those that a function makes for each use."""
        from wfdash.engines.langgraph.graphs import ready

        served = definition if isinstance(definition, Served) else Served(target=definition)
        if fresh and served.factory:
            return ready(served)
        found = self._ready.get(id(served.target))
        if found is None or (found.served is not served and found.served != served):
            found = self._ready[id(served.target)] = ready(served)
            while len(self._ready) > MOST_KEPT:
                self._ready.popitem(last=False)
        return found


PLACES = (("langgraph.pregel", "Pregel"), ("langgraph.graph.state", "StateGraph"))


def is_graph(value: object) -> bool:
    """Return whether an object is a compiled graph, a builder of one, or an entrypoint of the functional API."""
    return any(isinstance(value, kind) for kind in _kinds())


def _kinds() -> Iterator[type]:
    for module, name in PLACES:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            yield kind
