"""A run's claim while it is driven: taken before its first step, renewed, released at its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from checkpoints.claims.holder import is_gone, process_name
from checkpoints.claims.renewal import RENEW_SECONDS, TTL, ClaimRenewer
from checkpoints.errors import ClaimLost, Conflict
from checkpoints.ids import CheckpointId, RunId
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Claim, Commit
from checkpoints.storage import Claims, Journal

T = TypeVar("T")
log = logging.getLogger(__name__)


class ClaimingRecorder(BoundRecorder):
    """Records one run in a journal, under a claim where the storage offers that. Belongs to one event loop."""

    def __init__(self, journal: Journal, claims: Claims | None, run: RunId) -> None:
        super().__init__(journal, run)
        self.journal = journal
        self._claims = claims
        renewer = getattr(claims, "renewer", None)
        self._renewer = renewer if isinstance(renewer, ClaimRenewer) else None
        self._worker = process_name()
        self._renewal = contextlib.AsyncExitStack()

    async def commit(self, commit: Commit) -> None:
        """Make it durable. The first commit of a new run takes it; the one that lets go gives it back."""
        if self._claims is not None and self.claim is None:
            await self._hold(begin(self._claims, self.journal, commit, self._worker))
        elif self.claim is not None and self._renewer is not None and commit.standing is not None:
            with self._renewer.giving_back(self.claim):
                await super().commit(commit)
        else:
            await super().commit(commit)
        if self.claim is not None and commit.standing is not None:
            self.claim = None
            await self._renewal.aclose()

    async def take(self, head: CheckpointId) -> None:
        """Claim a run that continues from its newest checkpoint ``head``. ``Conflict``: who has it, or what changed.

        The claim of a process of this machine that is gone is not waited for.
        """
        if self._claims is not None:
            await self._hold(take(self._claims, self.run, head, self._worker))

    async def confirm(self) -> None:
        """See ``Confirming``: after this process was stopped or slept, that takes a renewal."""
        claim, renewer = self.claim, self._renewer
        if claim is not None and renewer is not None and not renewer.is_held(claim):
            await renewer.confirm(claim)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep what was taken, and what the body takes, while the body runs. ``ClaimLost`` if it is lost."""
        try:
            async with self._renewal:
                yield
        finally:
            await self._give_back()

    async def _hold(self, taking: Awaitable[Claim]) -> None:
        if self._claims is None:
            raise AssertionError("only a storage with claims gives one")
        self.claim = await finished_anyway(taking, self._claims.release)
        await self._renewal.enter_async_context(renewed(self._claims, self.claim))

    async def _give_back(self) -> None:
        claim, self.claim = self.claim, None
        if claim is None or self._claims is None:
            return
        try:
            await asyncio.shield(self._claims.release(claim))
        except Exception:
            log.info("The claim of run %s could not be given back; it will expire", self.run)


async def begin(claims: Claims, journal: Journal, commit: Commit, worker: str) -> Claim:
    """Write a run's first checkpoint and take it: through a manager, if that is where commits go."""
    through = getattr(journal, "begin", claims.begin)
    claim: Claim = await through(commit, worker=worker, ttl=TTL)
    return claim


async def take(claims: Claims, run: RunId, head: CheckpointId, worker: str) -> Claim:
    """Take a run; once more if a process of this machine had it that is gone."""
    try:
        return await claims.take(run, worker=worker, ttl=TTL, head=head)
    except Conflict as error:
        holder, end = str(error.facts.get("worker", "")), getattr(claims, "expire_claims", None)
        if end is None or not is_gone(holder):
            raise
        await end(worker_prefix=holder)
    return await claims.take(run, worker=worker, ttl=TTL, head=head)


async def finished_anyway(making: Awaitable[T], undo: Callable[[T], Awaitable[None]]) -> T:
    """Await something that must not be left half done: it is undone if the caller is cancelled."""
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(Exception):
            await undo(await task)
        raise


def renewed(claims: Claims, claim: Claim) -> AbstractAsyncContextManager[None]:
    """Renew a claim while the body runs: from a thread where the storage has one, so that a blocked loop keeps it."""
    renewer = getattr(claims, "renewer", None)
    if isinstance(renewer, ClaimRenewer):
        return renewer.holding(claim)
    return renewed_here(claims, claim)


@asynccontextmanager
async def renewed_here(claims: Claims, claim: Claim) -> AsyncIterator[None]:
    """Renew a claim from this event loop; once it is lost the body is cancelled and ``ClaimLost`` raised."""
    body = asyncio.current_task()
    lost: list[ClaimLost] = []

    async def renew() -> None:
        while not lost:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await claims.renew(claim, ttl=TTL)
            except ClaimLost as error:
                lost.append(error)
                if body is not None:
                    body.cancel()
            except Exception:
                log.exception("Could not renew the claim of run %s; retrying", claim.run)

    task = asyncio.create_task(renew())
    try:
        yield
    except asyncio.CancelledError:
        if lost and body is not None and body.uncancel() == 0:
            raise lost[0] from None
        raise
    finally:
        task.cancel()
