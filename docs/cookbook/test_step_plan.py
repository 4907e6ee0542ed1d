from typing import Any

import pytest
from step_plan import step_plan

from wfdash.testing import bench

PLAN = {
    "goal": "Move the database",
    "tasks": [
        {"name": "backup", "command": "dump"},
        {"name": "stop", "command": "stop app", "needs": ["backup"], "risky": True},
        {"name": "copy", "command": "copy", "needs": ["stop"]},
        {"name": "tell", "command": "mail team"},
    ],
}
DRAIN = {"name": "stop", "command": "drain app", "needs": ["backup"], "risky": True}


@pytest.mark.parametrize(
    ("action", "fields", "then", "outcomes"),
    [
        ("approve", {}, "", ["ran dump", "ran stop app", "ran copy", "ran mail team"]),
        ("edit", {"edited": DRAIN}, "", ["ran dump", "ran drain app", "ran copy", "ran mail team"]),
        ("reject", {"reason": "not today"}, "continue", ["ran dump", "not today", "needs stop", "ran mail team"]),
        ("reject", {"reason": "not today"}, "abort", ["ran dump", "not today", "", ""]),
    ],
)
async def test_a_task_is_done_as_approved_and_after_a_rejection_the_rest_is_continued_or_aborted(
    action: str, fields: dict[str, Any], then: str, outcomes: list[str]
) -> None:
    async with bench(step_plan, people={"ana": ["operations"]}) as t:
        run = await t.start(PLAN)
        assert run.request.subject == "stop: run 'stop app'?"
        await t.answer(run, action, by="ana", **fields)
        if then:
            assert run.request.subject == "stop was rejected: what about the rest?"
            await t.answer(run, then, by="ana")
        assert [one["note"] for one in run.output] == outcomes
