"""Workflows that harm the process they run in, and one that runs beside them and does not."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from tests.faults.graphs import Job
from tests.faults.ledger import write_line
from wfdash.workflow import Context, Workflow

CALM_SECONDS = float(os.environ.get("UNRULY_CALM", "1.5"))
BLOCK_SECONDS = float(os.environ.get("UNRULY_BLOCK", "4"))
FUSE_SECONDS = 0.8
"""From the poisonous step's begin to the death of its process."""

calm = Workflow("calm")


@calm.step(start=True)
async def wait_calmly(job: Job, ctx: Context) -> int:
    write_line(job.ledger, kind="begin", key=str(job.number), step="calm")
    await asyncio.sleep(CALM_SECONDS)
    return job.number


poison = Workflow("poison")


@poison.step(start=True)
async def end_the_process(job: Job, ctx: Context) -> int:
    write_line(job.ledger, kind="begin", key=str(job.number), step="poison")
    await asyncio.sleep(FUSE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
    return job.number


blocker = Workflow("blocker")


@blocker.step(start=True)
async def block_the_loop(job: Job, ctx: Context) -> int:
    write_line(job.ledger, kind="begin", key=str(job.number), step="blocker")
    await asyncio.sleep(0.3)
    time.sleep(BLOCK_SECONDS)  # noqa: ASYNC251 (the point of it)
    return job.number


plain = Workflow("plain")


@plain.step(start=True)
def sleep_in_a_thread(job: Job) -> int:
    write_line(job.ledger, kind="begin", key=str(job.number), step="plain")
    time.sleep(BLOCK_SECONDS)
    write_line(job.ledger, kind="end", key=str(job.number), step="plain")
    return job.number
