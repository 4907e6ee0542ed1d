"""The native engine behind the contract: makes exactly the calls that a library user makes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from checkpoints.records import Checkpoint, Json, JsonObject, Pairs, Request
from checkpoints.storage import Recorder
from wfdash.contract import (
    Addressees,
    Carried,
    Continue,
    Description,
    Edited,
    Edits,
    InFlight,
    LookAhead,
    Outcome,
    RunInput,
    Shown,
    Start,
    unpack_transcript,
)
from wfdash.domain.graph_diff import compare
from wfdash.workflow.answers import check_answer
from wfdash.workflow.describe import addressees, describe
from wfdash.workflow.edit import edit
from wfdash.workflow.flaws import await_flaws, flaws_of, loop_flaws, truth_flaws, type_notes
from wfdash.workflow.migration import carry, state_after
from wfdash.workflow.reducer.look_ahead import in_flight, look_ahead
from wfdash.workflow.reducer.routing import accept_json, plain
from wfdash.workflow.runtime.call import refuse_foreign
from wfdash.workflow.stored import position_in, secrets_of
from wfdash.workflow.workflow import Workflow


class NativeEngine:
    """Runs ``wfdash.workflow.Workflow`` definitions."""

    name = "native"

    def accepts(self, definition: object) -> bool:
        """Say whether this object is a native workflow."""
        return isinstance(definition, Workflow)

    def describe(self, definition: object) -> Description:
        """Return its description; ``InvalidWorkflow`` names the steps that are wrong."""
        return describe(_as_workflow(definition))

    def flaws(self, definition: object, error: Exception) -> Pairs:
        """Return each problem of an invalid definition, with file and line."""
        return flaws_of(_as_workflow(definition), error)

    def code_flaws(self, definition: object) -> Iterable[tuple[str, str]]:
        """Return each test of the truth of an answer, forgotten await and endless loop, with file and line."""
        workflow = _as_workflow(definition)
        return [*await_flaws(workflow.graph), *truth_flaws(workflow.graph), *loop_flaws(workflow)]

    def code_notes(self, definition: object) -> Iterable[tuple[str, str]]:
        """Return each step whose message has no type, with file and line."""
        return type_notes(_as_workflow(definition))

    def check_input(self, definition: object, message: Json) -> Json:
        """Return the message as the run will receive it; ``InvalidInput`` with errors per field."""
        return accept_json(_as_workflow(definition).graph, message)

    def check_follow_up(self, definition: object, checkpoint: Checkpoint, message: Json) -> Json:
        """Return the message as the run that follows will receive it. ``InvalidInput``, ``Incompatible``."""
        workflow = _as_workflow(definition)
        refuse_foreign(workflow.name, checkpoint)
        state_after(workflow.graph, checkpoint)
        return accept_json(workflow.graph, message, follow_up=True)

    def check_answer(self, definition: object, request: Request, value: Json) -> list[JsonObject]:
        """Return what the answer's own type rejects in a value that is valid by its schema."""
        return check_answer(_as_workflow(definition).graph, request, value)

    def secret_names(self, definition: object) -> frozenset[str]:
        """Return the names of the fields that a type of a message, of the state or of a question calls secrets."""
        return secrets_of(_as_workflow(definition).graph)

    def code_places(self, definition: object) -> tuple[tuple[str, str, int], ...]:
        """Return each step's name, file and first line, decorators included."""
        steps = [node for node in _as_workflow(definition).graph.nodes.values() if not node.hidden]
        codes = ((node.name, getattr(inspect.unwrap(node.function), "__code__", None)) for node in steps)
        return tuple((name, code.co_filename, code.co_firstlineno) for name, code in codes if code is not None)

    def addressees(self, definition: object) -> Sequence[Addressees]:
        """Return whom each step's questions are addressed to, as far as its source says."""
        return addressees(_as_workflow(definition).graph)

    def in_flight(self, definition: object, checkpoint: Checkpoint) -> InFlight:
        """Return what is in progress at a checkpoint."""
        position = position_in(checkpoint.body)
        return in_flight(_as_workflow(definition).graph, position) if position is not None else InFlight()

    def show(self, checkpoint: Checkpoint) -> Shown:
        """Return state, conversations and inputs of steps in progress. ``ValueError`` for a body of another engine."""
        state, position = checkpoint.body.get("state"), position_in(checkpoint.body)
        if not isinstance(state, dict):
            raise ValueError("it holds no state of a workflow")
        if position is None:
            return Shown(state=state)
        spoken = sorted(position.get("transcripts", {}).items(), key=lambda one: int(one[0]))
        return Shown(
            state=state,
            transcript=tuple(message for _, one in spoken for message in unpack_transcript(one["messages"])),
            inputs={activation: plain(one["message"]) for activation, one in position["live"].items()},
        )

    async def drive(self, definition: object, given: RunInput, recorder: Recorder) -> Outcome:
        """Run until finished, suspended or failed; answers to requests that are not pending here are ignored."""
        workflow = _as_workflow(definition)
        if isinstance(given, Start):
            return await workflow.run(given.message, storage=recorder, run_id=given.run)
        if isinstance(given, Continue):
            return await workflow.run(given.message, follows=given.checkpoint, storage=recorder, run_id=given.run)
        pending = {request.key for request in given.checkpoint.requests}
        answers: dict[Any, Any] = {key: answer for key, answer in given.answers.items() if key in pending}
        return await workflow.run(answers=answers, checkpoint=given.checkpoint, storage=recorder, run_id=given.run)

    def carry(
        self, definition: object, checkpoint: Checkpoint, old: Description | None, *, override: bool = False
    ) -> Carried:
        """Return the checkpoint's content under this graph; ``Incompatible`` with the reason."""
        workflow = _as_workflow(definition)
        difference = compare(old, describe(workflow)) if old is not None else None
        return carry(workflow.graph, workflow.hooks, checkpoint, difference, override=override)

    def look_ahead(self, definition: object, checkpoint: Checkpoint, now: datetime) -> LookAhead:
        """Return what happens when the run continues from it; ``Incompatible`` for another graph's."""
        return look_ahead(_as_workflow(definition).graph, checkpoint, now)

    def edit(self, definition: object, checkpoint: Checkpoint, edits: Edits) -> Edited:
        """Return its content with state and messages changed; ``InvalidInput`` with errors per field."""
        return edit(_as_workflow(definition).graph, checkpoint, edits)


def _as_workflow(definition: object) -> Workflow:
    if not isinstance(definition, Workflow):
        raise TypeError(f"not a native workflow: {definition!r}")
    return definition
