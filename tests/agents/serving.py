"""A workflow of one step, which runs an agent of any library."""

from __future__ import annotations

from typing import Any

from wfdash.agents import run_agent
from wfdash.workflow import Context, Workflow

APPROVE = {"action": "approve"}


def serving(agent: Any, **options: Any) -> Workflow:
    """Return the workflow. Its output is that of the agent; ``options`` go to ``run_agent``."""
    wf = Workflow("serving")

    @wf.step(start=True, people=True)
    async def answer(question: str, ctx: Context) -> Any:
        return (await run_agent(ctx, agent, question, **options)).output

    return wf
