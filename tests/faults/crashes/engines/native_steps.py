"""The four steps as a native workflow."""

from __future__ import annotations

from tests.faults.crashes.engines import steps
from wfdash.workflow import Context, Workflow

native_steps = Workflow("native_steps")


@native_steps.step(start=True)
async def first(folder: str) -> str:
    steps.write_line(folder, "first")
    return folder


@native_steps.step(after=first)
async def ask(folder: str, ctx: Context) -> str:
    await ctx.ask("Go ahead?", answer=bool)
    return folder


@native_steps.step(after=ask)
async def work(folder: str) -> str:
    await steps.work(folder)
    return folder


@native_steps.step(after=work)
async def last(folder: str) -> str:
    steps.write_line(folder, "last")
    return folder
