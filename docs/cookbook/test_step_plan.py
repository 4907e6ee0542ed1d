import pytest
from step_plan import step_plan

PLAN = {
    "goal": "Move the database",
    "tasks": [
        {"name": "backup", "command": "dump"},
        {"name": "stop", "command": "stop app", "needs": ["backup"], "risky": True},
        {"name": "copy", "command": "copy", "needs": ["stop"]},
        {"name": "tell", "command": "mail team"},
    ],
}
CHANGED = {"name": "stop", "command": "drain app", "needs": ["backup"], "risky": True}


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        ({"action": "approve"}, ["ran dump", "ran stop app", "ran copy", "ran mail team"]),
        ({"action": "edit", "edited": CHANGED}, ["ran dump", "ran drain app", "ran copy", "ran mail team"]),
        ({"action": "reject", "reason": "not today"}, ["ran dump", "not today", "needs stop", "ran mail team"]),
    ],
)
async def test_a_task_is_done_as_approved_and_what_needs_a_rejected_one_is_left_out(
    answer: dict[str, object], outcomes: list[str]
) -> None:
    waiting = await step_plan.run(message=PLAN)
    (request,) = waiting.requests
    assert request.card["subject"] == "stop: run 'stop app'?"
    finished = await step_plan.run(checkpoint=waiting.checkpoint, answers={request.key: answer})
    assert [one["note"] for one in finished.output] == outcomes
