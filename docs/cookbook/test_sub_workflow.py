import pytest
from sub_workflow import advertisements, contracts

from wfdash.testing import RunFailed, bench
from wfdash.workflow import Workflow

PEOPLE = {"lea": ["legal"]}


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
    async with bench(workflow, people=PEOPLE) as t:
        run = await t.start(message)
        assert run.request.step == step
        await t.answer(run, "approve", by="lea")
        assert run.output == output


async def test_a_rejection_fails_the_run_with_its_reason() -> None:
    async with bench(contracts, people=PEOPLE) as t:
        run = await t.start("Rosa")
        await t.answer(run, "reject", reason="No price", by="lea")
        with pytest.raises(RunFailed, match="not signed: No price"):
            run.result()
