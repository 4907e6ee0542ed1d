"""Keeps the house's checkpoints to its policy: what a worker saves, and what it removes beside the runs it drives."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints.config import CheckpointConfig
from checkpoints.ids import RunId
from checkpoints.manager import CheckpointManager
from checkpoints.models import Run
from checkpoints.records import Phase
from checkpoints.storage import CheckpointStorage
from wfdash.installation.stopping import waited
from wfdash.worker.version_holds import in_thread

log = logging.getLogger(__name__)

PRUNE_EVERY = 200
"""Steps of a run between two prunings while it is open."""
LOOK_SECONDS = 60.0
"""How often runs that were cancelled while suspended are looked for, because no worker runs them."""
LOOK_BACK = timedelta(days=1)
"""A worker that starts looks for what was cancelled while there was none."""
SLACK = timedelta(seconds=30)
"""A cancellation is dated before it is committed."""


class BackgroundPruner(CheckpointManager):
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

    async def tidy_cancelled_until(self, stopping: asyncio.Event) -> None:
        """Prune runs that were cancelled, wherever that was, until stopped."""
        since = timezone.now() - LOOK_BACK
        while self.config.limited and not stopping.is_set():
            began = timezone.now()
            try:
                for run in await in_thread(cancelled_since, since):
                    await self.tidy(run)
                since = began - SLACK
            except Exception:
                log.exception("Could not look for cancelled runs; retrying")
            await waited(stopping, LOOK_SECONDS)

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


def cancelled_since(moment: datetime) -> list[RunId]:
    """Return the runs that were cancelled since then and have more than one checkpoint, oldest first."""
    rows = Run.objects.filter(phase=Phase.CANCELLED, finished__gte=moment, n__gt=1).order_by("finished")
    return [RunId(id_) for id_ in rows.values_list("id", flat=True)]
