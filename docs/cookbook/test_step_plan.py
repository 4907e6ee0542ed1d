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
    ("action", "fields", "outcomes"),
    [
        ("approve", {}, ["ran dump", "ran stop app", "ran copy", "ran mail team"]),
        ("edit", {"edited": DRAIN}, ["ran dump", "ran drain app", "ran copy", "ran mail team"]),
        ("reject", {"reason": "not today"}, ["ran dump", "not today", "needs stop", "ran mail team"]),
    ],
)
async def test_a_task_is_done_as_approved_and_what_needs_a_rejected_one_is_left_out(
    action: str, fields: dict[str, Any], outcomes: list[str]
) -> None:
    async with bench(step_plan, people={"ana": ["operations"]}) as t:
        run = await t.start(PLAN)
        assert run.request.subject == "stop: run 'stop app'?"
        await t.answer(run, action, by="ana", **fields)
        assert [one["note"] for one in run.output] == outcomes
