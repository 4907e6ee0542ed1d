"""Drives a workflow as an application without a dashboard does: answer, and carry the checkpoint as JSON."""

from __future__ import annotations

from typing import Any

from checkpoints.records import Answer, Checkpoint, Request
from tests.workflow.world import finished
from wfdash.contract import Outcome, Waiting
from wfdash.workflow import Workflow


def waiting(outcome: Outcome) -> tuple[Request, ...]:
    """Return the open requests, after making sure that the run waits for people."""
    assert isinstance(outcome, Waiting), outcome
    return outcome.requests


output = finished


async def answer(workflow: Workflow, outcome: Outcome, values: dict[str, Any], *, by: str | None = None) -> Outcome:
    """Answer by request key in a run restored from JSON, as another process would."""
    checkpoint = Checkpoint.model_validate_json(outcome.checkpoint.model_dump_json())
    answers = {key: Answer(key=key, value=value, by=by) for key, value in values.items()}
    return await workflow.run(checkpoint=checkpoint, answers=answers)


async def answer_one(workflow: Workflow, outcome: Outcome, value: Any, *, by: str | None = None) -> Outcome:
    (request,) = waiting(outcome)
    return await answer(workflow, outcome, {request.key: value}, by=by)


async def cut_after_each_checkpoint(workflow: Workflow, **call: Any) -> Outcome:
    """Make the call, but stop at every new checkpoint and go on from its JSON, as after so many crashes."""
    begun = call["checkpoint"].n if "checkpoint" in call else 0
    async with workflow.run_stream(**call) as stream:
        async for _ in stream:
            found = stream.checkpoint
            if found is not None and found.n > begun:
                break
        else:
            return stream.outcome
    return await cut_after_each_checkpoint(workflow, checkpoint=Checkpoint.model_validate_json(found.model_dump_json()))
