"""Durable steps per second of Agent Framework with its file storage, as JSON. Stands alone: for any Python with it.

    echo STEPS RUNS | python peer_agentframework.py

A step is a superstep: an executor replaces 1 KB of shared state, and a checkpoint is a file. The file is written and
renamed but not synced: unlike wfdash's, its checkpoints do not survive a power failure. Two executors take turns,
because a checkpoint copies what each executor of the graph keeps: in a row of 100 that would be most of the time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_framework import Executor, FileCheckpointStorage, Workflow, WorkflowBuilder, WorkflowContext, handler


class Step(Executor):
    """A node that sends to the other one until the last step is done."""

    def __init__(self, name: str, steps: int) -> None:
        super().__init__(id=name)
        self._steps = steps

    @handler
    async def advance(self, i: int, ctx: WorkflowContext[int]) -> None:
        """Replace 1 KB of state and go on."""
        ctx.set_state("blob", f"{i:08d}" + "x" * 1000)
        if i + 1 < self._steps:
            await ctx.send_message(i + 1)


def build_chain(steps: int, storage: Any) -> Workflow:
    """Return two executors that take turns, ``steps`` times."""
    ping, pong = Step("ping", steps), Step("pong", steps)
    builder = WorkflowBuilder(start_executor=ping, checkpoint_storage=storage, max_iterations=steps + 10)
    return builder.add_edge(ping, pong).add_edge(pong, ping).build()


async def rate(folder: Path, steps: int, runs: int) -> float:
    """Steps per second of ``runs`` workflows at once, each with a folder of its own."""
    chains = [build_chain(steps, FileCheckpointStorage(folder / str(run))) for run in range(runs)]
    started = time.perf_counter()
    await asyncio.gather(*(chain.run(0) for chain in chains))
    return steps * runs / (time.perf_counter() - started)


def main() -> None:
    """Answer each line ``STEPS RUNS`` with ``{"async": steps/s}``."""
    for line in sys.stdin:
        steps, runs = map(int, line.split())
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"async": asyncio.run(rate(Path(folder), steps, runs))}), flush=True)


if __name__ == "__main__":
    main()
