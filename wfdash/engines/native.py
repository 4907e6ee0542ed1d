"""The native engine behind the contract: makes exactly the call a library user makes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from checkpoints.records import Checkpoint, Json, Request
from checkpoints.storage import Recorder
from wfdash.contract import Carried, Description, Outcome, RunInput, Start, UnderWay
from wfdash.edits import Edited, Edits, Outlook
from wfdash.hidden import secret_names
from wfdash.skew import compare
from wfdash.workflow.ahead import look_ahead
from wfdash.workflow.answertypes import check_answer
from wfdash.workflow.carry import carry
from wfdash.workflow.describe import describe
from wfdash.workflow.edit import edit
from wfdash.workflow.underway import under_way
from wfdash.workflow.workflow import Workflow


class NativeEngine:
    """Runs ``wfdash.workflow.Workflow`` definitions."""

    name = "native"

    def accepts(self, definition: object) -> bool:
        """Say whether this object is a native workflow."""
        return isinstance(definition, Workflow)

    def describe(self, definition: object) -> Description:
        """Draw it; ``InvalidWorkflow`` names the steps that are wrong."""
        return describe(_own(definition))

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will get it; ``InvalidInput`` with errors per field."""
        return _own(definition).check_input(message)

    def check_answer(self, definition: object, request: Request, value: Json) -> list[dict[str, Json]]:
        """Return what the answer's own type has against a value that fits its schema."""
        return check_answer(_own(definition).graph, request, value)

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of the fields that a type of a message or of the state calls secrets."""
        graph = _own(definition).graph
        codecs = [codec for node in graph.nodes.values() for codec in (*(node.accepts or ()), *(node.produces or ()))]
        schemas = [codec.schema() for codec in (*codecs, *graph.state.codecs.values())]
        return frozenset[str]().union(*map(secret_names, schemas))

    def under_way(self, definition: object, checkpoint: Checkpoint) -> UnderWay:
        """Return what a checkpoint was in the middle of."""
        return under_way(_own(definition).graph, checkpoint.body.get("position", {}))

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, parked or failed; answers to requests that are not pending here are left alone."""
        workflow = _own(definition)
        if isinstance(given, Start):
            return await workflow.run(given.message, storage=recorder, run_id=given.run)
        pending = {request.key for request in given.checkpoint.requests}
        answers: dict[Any, Any] = {key: answer for key, answer in given.answers.items() if key in pending}
        return await workflow.run(answers=answers, checkpoint=given.checkpoint, storage=recorder, run_id=given.run)

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under this graph; ``Incompatible`` says why not."""
        workflow = _own(definition)
        skew = compare(old, describe(workflow)) if old is not None else None
        return carry(workflow.graph, workflow.hooks, checkpoint, skew, override=override)

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> Outlook:
        """Return what happens when the run goes on from it; ``Incompatible`` for another graph's."""
        return look_ahead(_own(definition).graph, checkpoint, now)

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return its content with state and messages changed; ``InvalidInput`` with errors per field."""
        return edit(_own(definition).graph, checkpoint, edits)


def _own(definition: object) -> Workflow:
    if not isinstance(definition, Workflow):
        raise TypeError(f"not a native workflow: {definition!r}")
    return definition
