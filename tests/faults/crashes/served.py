"""Workflows for the kill tests, served with ``wfdash up served.py``.

A step writes one line into ``log`` when it begins, then waits until the file ``gate`` exists: the test decides when
it may go on, and sees from the log how often it began.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import BaseModel

from wfdash.workflow import Context, Workflow


class Job(BaseModel):
    log: str
    gate: str


def write_line(job: Job, line: str) -> None:
    with Path(job.log).open("a") as file:
        file.write(line + "\n")


async def wait_for_gate(job: Job) -> None:
    while not Path(job.gate).exists():
        await asyncio.sleep(0.01)


killed = Workflow("killed", title="A run that is killed in mid-step")


@killed.step(start=True)
async def first(job: Job, ctx: Context) -> Job:
    write_line(job, "first")
    ctx.state["kept"] = "from the first step"
    return job


@killed.step(after=first)
async def second(job: Job, ctx: Context) -> Job:
    write_line(job, f"second with state {ctx.state['kept']}")
    await wait_for_gate(job)
    return job


@killed.step(after=second)
async def third(job: Job) -> str:
    write_line(job, "third")
    return "done"
