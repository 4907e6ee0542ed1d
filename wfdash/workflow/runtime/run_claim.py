"""A run's claim while it is driven: taken before its first step, renewed, released at its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from checkpoints.claims import taking
from checkpoints.claims.renewal import RENEW_SECONDS, TTL, ClaimRenewer
from checkpoints.errors import CheckpointsError, ClaimLost
from checkpoints.ids import CheckpointId, RunId
from checkpoints.recorder import BoundRecorder
from checkpoints.records import Claim, Commit
from checkpoints.storage import Claims, Journal
from wfdash.workflow.runtime.step.threads import still_running, when_ended

log = logging.getLogger(__name__)

LEFT_SECONDS = 0.1
"""Between two looks whether functions that were left behind have ended, where no thread renews their claim."""
_keeping: set[asyncio.Task[None]] = set()


class ClaimingRecorder(BoundRecorder):
    """Records one run in a journal, under a claim where the storage offers that. Belongs to one event loop."""

    def __init__(self, journal: Journal, claims: Claims | None, run: RunId) -> None:
        super().__init__(journal, run)
        self.journal = journal
        self._claims = claims
        renewer = getattr(claims, "renewer", None)
        self._renewer = renewer if isinstance(renewer, ClaimRenewer) else None
        self._worker = taking.new_holder()
        self._head: CheckpointId | None = None
        self._renewal = contextlib.AsyncExitStack()

    async def commit(self, commit: Commit) -> None:
        """Make it durable. The first commit of a new run takes it; the one that lets go gives it back."""
        if self._claims is not None and self.claim is None:
            await self._hold(taking.begin(self._claims, self.journal, commit, self._worker))
        elif self.claim is not None and self._renewer is not None:
            with self._renewer.committing(self.claim, ends=commit.standing is not None):
                await super().commit(commit)
        else:
            await super().commit(commit)
        if commit.checkpoint is not None:
            self._head = commit.checkpoint.id
        if self.claim is not None and commit.standing is not None:
            self.claim = None
            await self._renewal.aclose()
            if still_running(self.run):
                await self._take_again()

    async def take(self, head: CheckpointId) -> None:
        """Claim a run that continues from its newest checkpoint ``head``. ``Conflict``: who has it, or what changed.

        The claim of a process of this machine that is gone is not waited for.
        """
        self._head = head
        if self._claims is not None:
            await self._hold(taking.take(self._claims, self.run, head, self._worker))

    def end_soon(self) -> None:
        """Note that the drive is being stopped. From any thread."""
        if self.claim is not None:
            taking.end_soon(self._worker)

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

    async def _hold(self, claimed: Awaitable[Claim]) -> None:
        if self._claims is None:
            raise AssertionError("only a storage with claims gives one")
        self.claim = await claimed
        await self._renewal.enter_async_context(renewed(self._claims, self.claim))

    async def _take_again(self) -> None:
        """Keep others off a run that has ended, or waits, while functions of it still run."""
        if self._claims is not None and self._head is not None:
            try:
                self.claim = await taking.take(self._claims, self.run, self._head, self._worker, stopped=True)
            except CheckpointsError as error:
                log.info("Run %s has ended, but this still runs: %s (%s)", self.run, still_running(self.run), error)

    async def _give_back(self) -> None:
        """Release the claim; where functions of the run still run, once they have ended."""
        claim, self.claim = self.claim, None
        try:
            if claim is None or self._claims is None:
                return
            if still_running(self.run):
                self._keep(self._claims, claim)
            else:
                await taking.give_back(self._claims, claim)
        finally:
            taking.ended(self._worker)

    def _keep(self, claims: Claims, claim: Claim) -> None:
        running = partial(still_running, self.run)
        log.info("Run %s is left here, but this still runs: %s", self.run, ", ".join(running()))
        taking.leave(claim, running)
        if self._renewer is not None:
            self._renewer.keep(claim, running, partial(taking.left, claim))
            when_ended(self.run, self._renewer.renew_now)
        else:
            task = asyncio.create_task(keep_here(claims, claim))
            _keeping.add(task)
            task.add_done_callback(_keeping.discard)


async def keep_here(claims: Claims, claim: Claim) -> None:
    """Renew a claim from this event loop until nothing of its run runs any more, then release it."""
    try:
        async with renewed_here(claims, claim):
            while still_running(claim.run):  # noqa: ASYNC110 (threads know no loop)
                await asyncio.sleep(LEFT_SECONDS)
        await taking.give_back(claims, claim)
    except ClaimLost:
        log.info("Run %s was taken over", claim.run)
    taking.left(claim)


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
