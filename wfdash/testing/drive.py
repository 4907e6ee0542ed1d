"""Drives a bench's runs as a worker does, until they park or end; a test may let the worker's process die."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from checkpoints.claims import ClaimRenewer, boottime
from checkpoints.ids import RunId
from checkpoints.records import Commit
from wfdash.testing.database import BenchStorage
from wfdash.testing.records import Call
from wfdash.worker.drive import ClaimedRecorder, advance
from wfdash.workflow.runtime.invoke import calls_replaced

TTL = 30.0
"""Seconds a claim lasts."""
DONE = "done"


class ProcessDied(BaseException):
    """The worker's process ends here."""


@dataclass(frozen=True, kw_only=True)
class Crash:
    """Where it ends: as soon as this call has happened, before or after that was recorded."""

    call: str
    recorded: bool


class CrashingRecorder(ClaimedRecorder):
    """A worker's recorder whose process dies at the first commit that a crash names."""

    def __init__(self, crashes: list[Crash], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._crashes = crashes

    async def commit(self, commit: Commit) -> None:
        """Write a commit, unless the process dies before; ``ProcessDied``."""
        done = {effect.name for effect in commit.effects if effect.state == DONE}
        crash = next((one for one in self._crashes if one.call in done), None)
        if crash is not None:
            self._crashes.remove(crash)
            if crash.recorded:
                await super().commit(commit)
            raise ProcessDied
        await super().commit(commit)


class Driver:
    """One worker. ``calls``: what really happened; ``replaced``: call name -> what is called instead."""

    def __init__(self, storage: BenchStorage) -> None:
        self.calls: list[Call] = []
        self.replaced: dict[str, Callable[..., Any]] = {}
        self.crashes: list[Crash] = []
        self._storage = storage
        self._renewer = ClaimRenewer(storage, ttl=TTL)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """End the thread that renews claims."""
        self._renewer.close()

    async def drive_due(self) -> bool:
        """Drive every run that is due until it parks or ends. False if there is none."""
        due = await self._storage.due()
        driven = await asyncio.gather(*(self._drive(run) for run in due))
        return any(driven)

    async def _drive(self, run: RunId) -> bool:
        since, worker = boottime(), f"bench {next(self._numbers)}."
        claim = await self._storage.claim(run, worker=worker, ttl=TTL)
        if claim is None:
            return False
        facts = await self._storage.read_run(run)
        recorder = CrashingRecorder(self.crashes, self._storage, claim, facts.workflow, clock=self._storage.now)
        recorder.renewer = self._renewer
        try:
            with calls_replaced(self._chosen):
                await advance(self._storage, recorder, facts, self._renewer, since)
        except ProcessDied:
            # As the next process does when it starts: the one that had these claims is gone.
            await self._storage.expire_claims(worker_prefix=worker)
        return True

    def _chosen(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return what a call of this name calls, noted when it does."""
        called = self.replaced.get(name, function)

        @wraps(called)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(Call(name=name, args=args, kwargs=kwargs))
            return called(*args, **kwargs)

        if asyncio.iscoroutinefunction(called):

            @wraps(called)
            async def noted_async(*args: Any, **kwargs: Any) -> Any:
                self.calls.append(Call(name=name, args=args, kwargs=kwargs))
                return await called(*args, **kwargs)

            return noted_async
        return noted
