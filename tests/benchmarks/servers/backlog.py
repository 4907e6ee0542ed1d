"""Workflows for the benchmark of a backlog: their output is the process that drove the run."""

from __future__ import annotations

import os

from wfdash.workflow import Context, Workflow

tiny = Workflow("tiny", title="One short step")


@tiny.step(start=True)
async def once(number: int) -> int:
    return os.getpid()


chain = Workflow("chain", title="Ten short steps")


@chain.step(start=True, after="again")
async def link(number: int, ctx: Context) -> int:
    return number - 1


@chain.step(after=link, when=lambda number: number > 0)
async def again(number: int) -> int:
    return number


@chain.step(after=link, when=lambda number: number <= 0)
async def done(number: int) -> int:
    return os.getpid()
