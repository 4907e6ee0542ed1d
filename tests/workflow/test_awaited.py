"""What a step asks, calls or sleeps has to be awaited: forgotten, no one would be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.workflow.world import failed, finished
from wfdash.workflow import Context, Workflow


@pytest.mark.parametrize("forgets", ["ask", "call", "sleep", "receive", "checkpoint"])
async def test_a_step_that_forgets_to_await_fails_and_says_so(forgets: str):
    wf = Workflow("forgets")
    args = {"ask": ("?",), "call": (len, "abc"), "sleep": (5,), "receive": ("letter",), "checkpoint": ("here",)}

    @wf.step(start=True)
    async def go(ctx: Context) -> str:
        getattr(ctx, forgets)(*args[forgets])
        return "done"

    assert f"write 'await ctx.{forgets}(...)'" in failed(await wf.run(None))


async def test_a_task_that_a_step_leaves_behind_is_not_called_forgotten():
    wf = Workflow("leaves")

    @wf.step(start=True)
    async def go(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.sleep(60)))
        return "done"

    tasks: list[Any] = []
    assert finished(await wf.run(None)) == "done"
