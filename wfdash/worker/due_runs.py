"""Finds runs that are due and claims them for one worker: hinted ones at once, the others in batches, in their order.

A hint only makes it look sooner: every second it looks for what no hint named. While there is more than one batch it
continues as fast as the worker begins what it has. So no worker takes what others could begin sooner, and they share a
backlog by how fast each of them is. All workers look at the same moments of the database's clock: what became ready in
between is there for all of them at once.

A worker looks more seldom while nothing is due or will be soon, no run of any worker executes, every hint is heard
here, and another worker looks each second. If that one finds a backlog, it lets the others look at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import islice

from django.db import OperationalError

from checkpoints.claims import boottime
from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import RunId
from checkpoints.records import Claim
from checkpoints.rules import Priority
from checkpoints.sql.claims import DueLook
from checkpoints.storage import Serves
from wfdash.installation.stopping import waited

log = logging.getLogger(__name__)
RUNS_PER_CLAIM = 32
"""Runs that are claimed in one transaction."""
LOOK_SECONDS = 1.0
IDLE_SECONDS = 3.0
"""Between two looks that may be seldom: less than a claim lasts, so none that began in between has expired."""
CLAIM_SECONDS = 5.0
"""Seconds a look may take: the next one makes a connection pool retry a database that was unavailable.

No one knows whether a claim that was given up then is stored, nor its token. What was stored when the look began has
expired by now, as it lasts for less; what came later does so within a claim's time, and this worker takes it again,
which counts as no takeover. To give it back instead would be one more write in what is an outage as a rule.
"""
BEGIN_SECONDS = 0.25
"""Until so long after a batch its runs count as begun: those that resume a long step commit nothing for a while."""
EXPIRED_SECONDS = 0.05
"""So long after a claim has expired a worker looks for its run, which may have been renewed."""
ROOM_SECONDS = 0.01
"""So long a worker that was full waits for more room: runs that end at the same time make room for one batch."""
TURNS = {8: Priority.STARTED, 16: Priority.TIMED}
"""Batches of a backlog, of each 16, that leave out what has a higher priority: no run waits forever for others."""


@asynccontextmanager
async def look_limit() -> AsyncIterator[None]:
    """Limit what the body asks the database to ``CLAIM_SECONDS``. ``OperationalError`` where no answer comes, which is
    an outage as a lost connection is.
    """
    began = boottime()
    try:
        async with asyncio.timeout(CLAIM_SECONDS):
            yield
    except TimeoutError:
        raise OperationalError(f"no answer for {boottime() - began:.0f} s") from None


class DueRuns:
    """What a worker finds. Use it on one event loop."""

    def __init__(
        self,
        storage: DatabaseStorage,
        *,
        worker: str,
        ttl: float,
        room: Callable[[], int],
        serves: Callable[[], Serves],
        takes_over: Callable[[], bool],
        begin: Callable[[Claim, float], None],
        may_be_seldom: Callable[[], bool] = lambda: False,
        share: Callable[[], None] = lambda: None,
    ) -> None:
        """``room()`` says how many more runs the worker takes, ``serves()`` which, and ``takes_over()`` whether also
        those whose claims have expired. ``begin(claim, since)`` gets each that was claimed, ``since`` being
        ``boottime()`` before that. ``may_be_seldom()`` says whether hints are heard, and another worker looks.
        ``share()`` is called once for each backlog that no other worker is known to have found.
        """
        self._storage = storage
        self._worker = worker
        self._ttl = ttl
        self._room = room
        self._serves = serves
        self._takes_over = takes_over
        self._begin = begin
        self._may_be_seldom = may_be_seldom
        self._share = share
        self._reserved = 0
        self._hinted: dict[RunId, None] = {}
        self._claiming: asyncio.Task[None] | None = None
        self._beginning: set[RunId] = set()
        self._begun_by = 0.0
        self._changed = asyncio.Event()
        self._backlog = self._shared = self._joins = False
        self._batches = 0
        self._found: DueLook | None = None
        self.is_idle = False
        """Whether the last look found nothing to do for any worker, and no hint came since."""

    def hint(self, run: RunId) -> None:
        """Claim this run at once if it is due and there is room."""
        if self.is_idle:
            # One that is locked at this moment is found by the next look: that is soon.
            self.is_idle = False
            self._changed.set()
        self._hinted[run] = None
        if self._claiming is None:
            self._claiming = asyncio.create_task(self._claim_hinted(), name="claim hinted runs")

    def begun(self, run: RunId) -> None:
        """Note that a run has made its first checkpoint here, or has ended."""
        self._beginning.discard(run)
        if self._backlog:
            self._changed.set()

    def wake(self) -> None:
        """Let ``rest`` see at once that it is to stop."""
        self._changed.set()

    def look_again(self) -> None:
        """Look again soon: a place of a workflow with a limit is free, which no hint says."""
        self._backlog = True
        self._changed.set()

    def join(self) -> None:
        """Look at once: another worker has found a backlog. Not a claim without a look, which says whether this worker
        was away.
        """
        if not (self._backlog or self._shared):
            self._shared = self._joins = True
            self._changed.set()

    async def look(self, found: DueLook) -> None:
        """Claim the first batch of what is due. While nothing is, nothing is written: a claim waits for other writers.

        ``found``: what has just been read.
        """
        self._found = found
        busy = self._backlog or self._free() < 1 or found.is_any_due
        wakes_soon = found.wake is not None and found.wake - found.now < timedelta(seconds=IDLE_SECONDS + LOOK_SECONDS)
        self.is_idle = not (busy or found.suspects or found.expiry or wakes_soon)
        if busy:
            await self._claim()
        if not (found.is_any_due and self._backlog):
            self._shared = False
        elif not self._shared:
            self._shared = True
            self._share()

    async def rest(self, stopping: asyncio.Event) -> None:
        """Return once it is time to look again, or a claim expires; until then claim what is left of a backlog."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._pause()
        while not stopping.is_set() and (left := until - loop.time()) > 0:
            if not self._backlog:
                self._changed.clear()
                await waited(self._changed, left)
                until = min(until, loop.time() + self._pause())
            elif self._free() < 1:
                self._changed.clear()
                await waited(self._changed, left)
                await asyncio.sleep(ROOM_SECONDS)
            elif self._beginning and (soon := self._begun_by - loop.time()) > 0:
                self._changed.clear()
                await waited(self._changed, min(left, soon))
            else:
                await self._claim_more()
        self._joins = False

    async def claim(self, run: RunId) -> None:
        """Claim and begin this run if it is due and there is room; returns once that is done."""
        await self._claim([run])

    async def take_over(self, runs: Sequence[RunId]) -> None:
        """Claim and begin those of these runs that are due, while there is room, also right after this worker
        was away: it is certain that theirs has ended.
        """
        for start in range(0, len(runs), RUNS_PER_CLAIM):
            await self._claim(runs[start : start + RUNS_PER_CLAIM], takeover=True)

    @contextmanager
    def reserving(self, most: int) -> Iterator[int]:
        """Keep room for so many runs while they are claimed, or for as many as there is room for, and yield how many.

        Several claims are made at once, and a worker must not take more than it may.
        """
        count = max(0, min(most, self._free()))
        self._reserved += count
        try:
            yield count
        finally:
            self._reserved -= count

    async def aclose(self) -> None:
        """Claim nothing more; what is being claimed is begun."""
        self._hinted.clear()
        if self._claiming is not None:
            await self._claiming

    def _free(self) -> int:
        return self._room() - self._reserved

    def _pause(self) -> float:
        """Return the seconds to the next look."""
        if self._joins:
            return 0.0
        now = self._storage.now()
        idle = self.is_idle and self._ttl > IDLE_SECONDS and self._may_be_seldom()
        every = IDLE_SECONDS if idle else LOOK_SECONDS
        pause = every - now.timestamp() % every
        if self._found is not None and (expiry := self._found.expiry) is not None:
            pause = min(pause, max((expiry - now).total_seconds() + EXPIRED_SECONDS, EXPIRED_SECONDS))
        return pause

    async def _claim(
        self, hinted: Sequence[RunId] | None = None, most: Priority | None = None, *, takeover: bool = False
    ) -> None:
        """Claim and begin one batch, of all that is due or of the hinted ones."""
        with self.reserving(RUNS_PER_CLAIM if hinted is None else len(hinted)) as limit:
            if limit < 1:
                self._backlog = True
                return
            since = boottime()
            claims = await self._storage.claim_due(
                worker=self._worker,
                ttl=self._ttl,
                limit=limit,
                runs=hinted,
                serves=self._serves(),
                most=most,
                takeover=takeover or self._takes_over(),
            )
        for claim in claims:
            self._beginning.add(claim.run)
            self._begin(claim, since)
        if hinted is None:
            self._begun_by = asyncio.get_running_loop().time() + BEGIN_SECONDS
            if most is None:
                self._backlog = len(claims) == limit

    async def _claim_more(self) -> None:
        self._batches = self._batches % max(TURNS) + 1
        try:
            async with look_limit():
                await self._claim(most=TURNS.get(self._batches))
        except Exception:
            self._backlog = False
            log.exception("Could not claim due runs; retrying")

    async def _claim_hinted(self) -> None:
        try:
            while self._hinted and (limit := min(RUNS_PER_CLAIM, self._free())) > 0:
                runs = list(islice(self._hinted, limit))
                for run in runs:
                    del self._hinted[run]
                async with look_limit():
                    await self._claim(runs)
            if self._hinted:
                self._backlog = True
        except Exception:
            log.exception("Could not claim runs that became due; they will be found")
        finally:
            self._hinted.clear()
            self._claiming = None


# -- when a worker may take over runs whose claims have expired: not right after it was away itself, or has begun.
# Claims expire because their worker is gone, or because no worker could reach the database, or because the machine
# was paused. One that was away as well cannot tell which: it gives the others time to renew what is theirs. Where there
# was no claim at its last look it may have been away for longer: none that began since can have expired.


class Takeovers:
    """Whether takeovers are ``allowed``, by the times at which this worker looked for runs (seconds, ``boottime``)."""

    def __init__(self, *, grace: float, absence: float) -> None:
        """``absence``: seconds without a look after which takeovers are put off, for ``grace`` seconds: so long a claim
        lasts.
        """
        self.allowed = False
        """Not before the first look: a hint may come sooner."""
        self._grace = grace
        self._absence = absence
        self._last: float | None = None
        self._was_idle = False
        self._off_until: float | None = None

    def begun(self, now: float, *, among_others: Callable[[], bool] = lambda: False) -> None:
        """Note that a look has begun, and the database has answered. ``among_others()``, asked at the first: whether
        there are workers that may live, whose claims may have expired in an outage right before.

        After the grace one look is allowed whatever happened in the meantime: on a machine so slow that each look is an
        absence, too, the runs of workers that are gone are taken over in the end.
        """
        if self._off_until is not None:
            self.allowed = now >= self._off_until
            if self.allowed:
                self._off_until = None
        elif among_others() if self._last is None else self._was_away(now, self._last):
            self.allowed, self._off_until = False, now + self._grace
        else:
            self.allowed = True

    def ended(self, now: float, *, idle: bool = False) -> None:
        """Note that a look has ended well; however long it took, the worker was not away.

        ``idle``: it found nothing to do, and no claim of any worker.
        """
        self._last, self._was_idle = now, idle

    def _was_away(self, now: float, last: float) -> bool:
        return now - last > (self._grace if self._was_idle else self._absence)


# -- runs that may be what ends their workers: a worker takes one at a time, so that its death tells which it was

SURVIVED_SECONDS = 300.0
"""Seconds of running after which a suspect is none any more: one that runs for hours must not keep others waiting."""


CANDIDATE_SUSPECTS = 50
"""Suspects of which one is chosen."""


class SuspectSlot:
    """The one place for a suspect (``checkpoints.rules.is_suspect``) in a worker. ``run`` is empty while it is free."""

    def __init__(self, *, steady_after: float) -> None:
        """``steady_after``: seconds that the worker must have lived before it takes its first suspect.

        Where a process ends again and again for another reason, no run is blamed for it.
        """
        self.run = ""
        self._steady_at = time.monotonic() + steady_after
        self._since = 0.0

    def wanted(self) -> int:
        """Return from how many suspects one is to be chosen now; 0 if none may be taken."""
        return 0 if self.run or time.monotonic() < self._steady_at else CANDIDATE_SUSPECTS

    def take(self, run: str) -> None:
        """Put a run into the slot."""
        self.run, self._since = run, time.monotonic()

    def is_survivor(self) -> bool:
        """Say whether the run in it has been there long enough to be no suspect any more."""
        return bool(self.run) and time.monotonic() - self._since >= SURVIVED_SECONDS

    def clear(self, run: str) -> None:
        """Free the slot if this run is in it: it ended, parked, or has made a step."""
        if self.run == run:
            self.run = ""
