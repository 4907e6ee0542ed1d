"""A workflow of one step, which runs an agent of any library."""

from __future__ import annotations

from typing import Any

from tests.workflow.world import flow
from wfdash.agents import run_agent
from wfdash.workflow import Context, Workflow

APPROVE = {"action": "approve"}
CHANGED = 'A person changed this call before it was made, to these arguments: {"order": 8, "name": "ben"}'
ANSWERS = (
    (
        {"action": "edit", "arguments": {"order": 8, "name": "ben"}},
        [("refund", 8, "ben")],
        f"{CHANGED}\n\nrefunded 8 to ben",
    ),
    ({"action": "reject", "feedback": "Not this one"}, [], "Not this one"),
    ({"action": "respond", "response": "Done by hand"}, [], "Done by hand"),
)
"""Answers to a call of ``refund``, what is called then, and what the model reads."""


def serving(agent: Any, **options: Any) -> Workflow:
    """Return the workflow. Its output is that of the agent; ``options`` go to ``run_agent``."""

    async def answer(question: str, ctx: Context) -> Any:
        return (await run_agent(ctx, agent, question, **options)).output

    return flow(answer, name="serving", people=True)
