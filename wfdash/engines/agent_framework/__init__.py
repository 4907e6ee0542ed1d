"""The engine for workflows of Microsoft Agent Framework, behind the contract. Importing it imports nothing of that.

Of the framework, nothing is imported before a workflow of it is described, in a module that imported it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint, Json, JsonObject, Request
from checkpoints.storage import Recorder
from wfdash.contract import Addressees, Carried, Description, InFlight, Outcome, RunInput, Shown
from wfdash.engines.agent_framework import describing, drive
from wfdash.engines.agent_framework.definitions import is_workflow, nested, workflow_for_drive
from wfdash.engines.agent_framework.describing import code_places, input_for
from wfdash.engines.agent_framework.position import carry, position_in, shown
from wfdash.engines.serving import Served

MOST_KEPT = 500
"""Workflows of which one is kept to look at."""


class AgentFrameworkEngine:
    """Runs workflows of Agent Framework: graphs, functions and orchestrations. Gets each as a ``Served``."""

    name = describing.ENGINE

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Served, Any]] = {}

    def accepts(self, definition: object) -> bool:
        """Return whether this object is a workflow of the framework."""
        return is_workflow(definition)

    def parts(self, served: Served) -> Iterable[object]:
        """Return the sub-workflows of a workflow: they are not served beside it."""
        return [] if served.factory else [inner for _, inner in nested(served.target)]

    def describe(self, definition: object) -> Description:
        """Return its description. An error says what cannot be served, and what to do about it."""
        return describing.describe(_as_served(definition))

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message. ``InvalidInput`` if the first executor cannot take it."""
        input_for(_as_served(definition), self._workflow(definition), message)
        return message

    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message that follows a finished run. ``InvalidInput``; ``Incompatible``: of another graph."""
        position_in(checkpoint)
        workflow = self._workflow(definition)
        if checkpoint.version != describing.version_of(workflow):
            raise Incompatible("The workflow has changed since this run ended: start a new run")
        input_for(_as_served(definition), workflow, message)
        return message

    def check_answer(self, definition: object, request: Request, value: Json) -> list[JsonObject]:
        """Return what the answer's own type rejects in a value that is valid by its schema."""
        found = describing.check_answer(self._workflow(definition), request, value)
        return found or _as_served(definition).check_answer(request, value)

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of the fields that were called secret where it is served."""
        return _as_served(definition).secrets

    def code_places(self, definition: object) -> tuple[tuple[str, str, int], ...]:
        """Return each step that is an author's function or class: its name, file and first line."""
        return tuple(code_places(self._workflow(definition)))

    def addressees(self, definition: object) -> Sequence[Addressees]:
        """Return whom the questions of each step that may ask are addressed to."""
        return describing.addressees(_as_served(definition), self._workflow(definition))

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under the current graph, if an operator says so. ``Incompatible``."""
        now = self.describe(definition)
        return carry(self._workflow(definition), now, checkpoint, old, override=override)

    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return the steps that run when the run continues: those of a superstep that a crash has cut off, too."""
        return InFlight(steps=position_in(checkpoint).next)

    def show(self, checkpoint: Checkpoint) -> Shown:
        """Return the state, the conversation and the inputs of waiting steps. ``Incompatible``: it is another's."""
        return shown(checkpoint)

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, suspended or failed. What cannot be committed ends it at once, with that error."""
        served = _as_served(definition)
        name = describing.name_of(served, self._workflow(definition))
        return await drive.drive(served, name, given, recorder)

    def _workflow(self, definition: object) -> Any:
        """Return the workflow to look at; it is never run."""
        served = _as_served(definition)
        if id(served) not in self._seen:
            if len(self._seen) >= MOST_KEPT:
                self._seen.clear()
            self._seen[id(served)] = (served, workflow_for_drive(served))
        return self._seen[id(served)][1]


def _as_served(definition: object) -> Served:
    if not isinstance(definition, Served):
        raise TypeError(f"not a served workflow of Agent Framework: {definition!r}")
    return definition
