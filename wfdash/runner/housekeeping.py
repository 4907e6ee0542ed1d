"""Keeps the house's checkpoints to its policy: what a worker saves, and what it removes beside the runs it drives."""

from __future__ import annotations

import asyncio

from checkpoints.config import CheckpointConfig
from checkpoints.ids import RunId
from checkpoints.manager import CheckpointManager
from checkpoints.storage import CheckpointStorage

PRUNE_EVERY = 200
"""Steps of a run between two prunings while it goes on."""


class Housekeeper(CheckpointManager):
    """A manager that prunes in the background, one run at a time: no step and no end waits for it."""

    def __init__(self, storage: CheckpointStorage, config: CheckpointConfig) -> None:
        super().__init__(storage, config, prune_every=PRUNE_EVERY)
        self._turn = asyncio.Lock()
        self._due: set[RunId] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def tidy(self, run: RunId) -> None:
        """Have the run pruned soon, unless it is about to be already."""
        if self.config.limited and run not in self._due:
            self._due.add(run)
            task = asyncio.create_task(self._tidy(run), name=f"prune {run}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Stop. What was not done is done after the next save, or by ``manage.py prune``."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tidy(self, run: RunId) -> None:
        async with self._turn:
            self._due.discard(run)
            await super().tidy(run)
