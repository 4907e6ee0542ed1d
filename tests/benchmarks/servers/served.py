"""Workflows for the latency benchmark; a step's first line is a line in a file: the monotonic clock, in ns."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

from wfdash.workflow import Approval, Context, Workflow


class Probe(BaseModel):
    log: str
    count: int = 1


def mark(probe: Probe) -> None:
    now = time.monotonic_ns()
    with Path(probe.log).open("a") as file:
        file.write(f"{now}\n")


asking = Workflow("asking", title="Ask, then mark the time")


@asking.step(start=True)
async def ask(probe: Probe, ctx: Context) -> Probe:
    await ctx.ask(Approval(subject="Go on?"))
    return probe


@asking.step(after=ask)
async def answered(probe: Probe) -> int:
    mark(probe)
    return 1


marking = Workflow("marking", title="Mark the time")


@marking.step(start=True)
async def note(probe: Probe) -> int:
    mark(probe)
    return 1


ticking = Workflow("ticking", title="An event every few milliseconds")


@ticking.step(start=True, after="again")
async def tick(probe: Probe) -> Probe:
    await asyncio.sleep(0.015)
    return probe.model_copy(update={"count": probe.count - 1})


@ticking.step(after=tick, when=lambda probe: probe.count > 0)
async def again(probe: Probe) -> Probe:
    return probe


lasting = Workflow("lasting", title="A step that lasts")


@lasting.step(start=True)
async def last(probe: Probe) -> int:
    mark(probe)
    await asyncio.sleep(3600)
    return 1


streaming = Workflow("streaming", title="Text, once a file exists")


@streaming.step(start=True)
async def write(probe: Probe, ctx: Context) -> int:
    while not Path(probe.log).exists():
        await asyncio.sleep(0.01)
    for number in range(probe.count):
        ctx.stream(f"{number};")
        await asyncio.sleep(0.01)
    return 1
