"""A ``Recorder`` over any journal: the interface of a running engine to the outside."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from checkpoints.ids import RequestKey, RunId
from checkpoints.records import Answer, Claim, Commit
from checkpoints.storage import Journal, claims_of

Stream = Callable[[str, str], None]


def drop_stream(step: str, text: str) -> None:
    """Drop streamed text."""


def utc_now() -> datetime:
    """Return this machine's current time, aware, UTC."""
    return datetime.now(UTC)


TakeTurn = Callable[[str, float], Awaitable[float]]
_next: dict[str, float] = {}
"""When the next turn of each name is, by ``time.monotonic()``, where no storage counts them."""


async def take_turn_here(name: str, every: float) -> float:
    """Take this process's turn, as ``BoundRecorder.take_turn`` does."""
    now = time.monotonic()
    if (wait := _next.get(name, now) - now) > 0:
        return wait
    _next[name] = now + every
    return 0


class BoundRecorder:
    """Records one run. Belongs to one event loop."""

    def __init__(
        self,
        journal: Journal,
        run: RunId,
        claim: Claim | None = None,
        *,
        stream: Stream = drop_stream,
        committed: Callable[[RunId, int], None] | None = None,
        clock: Callable[[], datetime] = utc_now,
        poll: float = 1.0,
    ) -> None:
        """``committed(run, seq)`` is called after each commit; ``poll`` seconds pass between checks for answers."""
        self.run = run
        self.claim = claim
        self.seq = 0
        self.stream = stream
        self.now = clock
        self.journal = journal
        self._committed = committed
        self._poll = poll
        self._handed_out: set[tuple[RequestKey, datetime | None]] = set()
        self._woken = asyncio.Event()
        self._interrupted = False

    async def commit(self, commit: Commit) -> None:
        """Store a commit durably; returns only once it is. ``ClaimLost`` ends the drive."""
        self.seq = await self.journal.commit(commit, claim=self.claim)
        if self._committed is not None:
            self._committed(self.run, self.seq)

    async def take_turn(self, name: str, every: float) -> float:
        """Return 0 if it was free, and is again in ``every`` seconds; else the seconds until then.

        Counted by the storage where it has such a method beside its claims.
        """
        take: TakeTurn = getattr(claims_of(self.journal), "take_turn", take_turn_here)
        return await take(name, every)

    def handed_out(self, answers: Mapping[RequestKey, Answer]) -> None:
        """Record answers the engine already has (those its ``RunInput`` carried)."""
        self._handed_out.update((key, answer.at) for key, answer in answers.items())

    async def answers(self) -> Mapping[RequestKey, Answer]:
        """Return answers that were not handed out yet, waiting without limit for the first."""
        while True:
            self._woken.clear()
            found = await self.journal.read_answers(self.run)
            fresh = {key: a for key, a in found.items() if (key, a.at) not in self._handed_out}
            if fresh or self._interrupted:
                self._interrupted = False
                self.handed_out(fresh)
                return fresh
            await self._woken_or_polled()

    def wake(self) -> None:
        """Check for answers now."""
        self._woken.set()

    def interrupt(self) -> None:
        """Let ``answers`` return once even if there are none, so that its caller looks what else has changed."""
        self._interrupted = True
        self._woken.set()

    async def _woken_or_polled(self) -> None:
        # Not by asyncio.wait_for: before Python 3.12 it loses a cancellation that comes as the event is set.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._poll):
                await self._woken.wait()
