import pytest
from sub_workflow import advertisements, contracts

from wfdash.workflow import Failed, Workflow


@pytest.mark.parametrize(
    ("workflow", "message", "step", "output"),
    [
        (contracts, "Rosa", "sign/review", "Contract with Rosa: sent"),
        (advertisements, {"title": "Poster", "text": "Tea!"}, "checked/review", "Poster: published"),
    ],
)
async def test_a_request_of_the_sub_workflow_is_one_of_the_run(
    workflow: Workflow, message: object, step: str, output: str
) -> None:
    waiting = await workflow.run(message=message)
    (request,) = waiting.requests
    assert (request.step, request.by) == (step, ("legal",))
    finished = await workflow.run(checkpoint=waiting.checkpoint, answers={request.key: {"action": "approve"}})
    assert finished.output == output


async def test_a_rejection_fails_the_run_with_its_reason() -> None:
    waiting = await contracts.run(message="Rosa")
    answers = {waiting.requests[0].key: {"action": "reject", "reason": "No price"}}
    failed = await contracts.run(checkpoint=waiting.checkpoint, answers=answers)
    assert isinstance(failed, Failed)
    assert failed.error.message == "not signed: No price"
