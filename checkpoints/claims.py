"""Claims on runs: taking and giving back one without a worker, what their holder is called, the thread that renews.

A renewal makes an expired claim live again if no one has the run; it locks the run as a takeover does, so one of them
has it. A commit or a step that comes when the claim should have expired, by this machine's clock, waits for such a
renewal. A commit also extends a claim with less than half of its time left.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from checkpoints.errors import ClaimLost, Conflict
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Claim, Commit
from checkpoints.storage import Claims, Journal

# A run's claim without a worker: taken, given back, and left to functions that still run under it.

T = TypeVar("T")
Running = Callable[[], Sequence[str]]
"""Returns the names of the functions that still run."""
log = logging.getLogger(__name__)

LET_GO_SECONDS = 5.0
"""So long the next caller waits for a drive of this process that is being stopped."""
TAKING_POLL = 0.01
"""Seconds between two looks whether it has."""

_numbers = itertools.count(1)
_left: dict[str, tuple[Claim, Running]] = {}
"""Claims that are kept for functions that still run, by their holder."""
_ending: set[str] = set()
"""Holders that are being let go of."""
_unsure: deque[str] = deque(maxlen=1_000)
"""Holders whose claim may be stored, and that no one here has."""


def new_holder() -> str:
    """Return a name of this process for one claim. None begins with another."""
    return f"{process_name()}{next(_numbers)}."


async def begin(claims: Claims, journal: Journal, commit: Commit, worker: str) -> Claim:
    """Write a run's first checkpoint and take it: through a manager, if that is where commits go."""
    through = getattr(journal, "begin", claims.begin)
    return await _surely(claims, worker, through(commit, worker=worker, ttl=TTL))


async def take(claims: Claims, run: RunId, head: CheckpointId, worker: str, *, stopped: bool = False) -> Claim:
    """Take a run whose newest checkpoint is ``head``. ``Conflict`` says who has it, and what of it still runs here.

    Not waited for: the claim of a process of this machine that is gone, and one that this process lost track of. A
    drive that is being stopped is waited for.
    """
    try:
        return await _surely(claims, worker, claims.take(run, worker=worker, ttl=TTL, head=head, stopped=stopped))
    except Conflict as error:
        if not await _is_freed(claims, error):
            raise
    return await _surely(claims, worker, claims.take(run, worker=worker, ttl=TTL, head=head, stopped=stopped))


async def give_back(claims: Claims, claim: Claim) -> None:
    """Release a claim, also if the caller is cancelled. Where that fails, this process takes it again at any time."""
    try:
        await asyncio.shield(claims.release(claim))
    except Exception as error:
        _unsure.append(claim.worker)
        log.info("The claim of run %s could not be given back (%s); it will expire", claim.run, error)


def end_soon(worker: str) -> None:
    """Note that a drive of this process is being stopped: the next caller waits for it. From any thread."""
    _ending.add(worker)


def ended(worker: str) -> None:
    """Note that it has stopped."""
    _ending.discard(worker)


def leave(claim: Claim, running: Running) -> None:
    """Note that a claim is kept while functions run under it, which the next caller is to hear."""
    _left[claim.worker] = claim, running


def left(claim: Claim) -> None:
    """Note that it is kept no longer."""
    _left.pop(claim.worker, None)


async def _surely(claims: Claims, worker: str, taking: Awaitable[Claim]) -> Claim:
    """Await a claim that must not be left half done: it is given back if the caller is cancelled."""
    task = asyncio.ensure_future(taking)
    try:
        return await asyncio.shield(task)
    except Conflict:
        raise
    except asyncio.CancelledError:
        _unsure.append(worker)
        with contextlib.suppress(Exception):
            await give_back(claims, await task)
        raise
    except BaseException:
        _unsure.append(worker)
        raise


async def _is_freed(claims: Claims, error: Conflict) -> bool:
    """Return whether the claim that is in the way is gone now. ``Conflict`` if functions still run under it."""
    holder, until = str(error.facts.get("worker", "")), asyncio.get_running_loop().time() + LET_GO_SECONDS
    was_ending = holder in _ending
    while holder in _ending and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110 (threads know no loop)
        await asyncio.sleep(TAKING_POLL)
    if holder in _left:
        claim, running = _left[holder]
        if names := tuple(running()):
            said = f"the run was left here, but this still runs: {', '.join(names)}. Let it end"
            raise Conflict(said, **error.facts, running=names) from None
        await claims.release(claim)
        return True
    end = getattr(claims, "expire_claims", None)
    if end is None or not (holder in _unsure or is_gone(holder)):
        return was_ending
    await end(worker_prefix=holder)
    return True


# Claim renewal in a thread of its own, so that a blocked event loop does not lose its runs.

TTL = 30.0
"""Seconds after which a run that is driven without a worker may be taken, unless it is renewed."""
RENEW_SECONDS = 10.0
"""Seconds between two renewals of it."""
RETRY_SECONDS = 0.5
"""Seconds until failed renewals are retried."""
RENEW_TIMEOUT = 5.0
"""Seconds a renewal may take, where half of the claims' time is not less."""
MIN_GAP = 0.2
"""Seconds between two renewals at least, however often one is requested."""
CONFIRM_POLL = 0.05
"""Seconds between two checks in ``confirm``."""


BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return seconds of a clock that keeps running while the process is stopped or the machine sleeps."""
    return time.clock_gettime(BOOTTIME)


@dataclass(kw_only=True)
class HeldClaim:
    """A claim that is renewed."""

    claim: Claim
    lost: Callable[[], None]
    """Called once it is gone: lost, or released because nothing is ``running`` any more."""
    good_until: float
    """By ``boottime``: until then no other worker can have it, whatever happened to this process."""
    gone: bool = False
    committing: bool = False
    """A commit under it is in progress: where there is one writer, a renewal waits for that."""
    ending: bool = False
    """A commit that gives it back is in progress."""
    running: Callable[[], Sequence[str]] | None = None
    """What still runs under it, where its drive has ended: nothing, and it is released."""


class Committing:
    """The time of a commit under a claim: see ``ClaimRenewer.committing``. A class, because each step has one."""

    __slots__ = ("_ends", "_held", "_renewer")

    def __init__(self, renewer: ClaimRenewer, held: HeldClaim | None, ends: bool) -> None:
        self._renewer, self._held, self._ends = renewer, held, ends

    def __enter__(self) -> None:
        if self._held is not None:
            self._held.committing, self._held.ending = True, self._ends

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._held is not None:
            if self._ends and kind is None:
                self._renewer.let_go(self._held.claim)
            self._held.committing = self._held.ending = False


class ClaimRenewer:
    """Renews the claims of a process and reports those that are lost; for any thread and event loop.

    A revoked claim is renewed too until it is let go: it blocks other workers while the run's code still executes here.

    Usage, in the coroutine that drives a run::

        renewer = ClaimRenewer(storage)              # one per process and storage is enough
        since = boottime()
        claim = await storage.claim(run, worker="me", ttl=renewer.ttl)
        async with renewer.holding(claim, since=since):
            ...                                      # cancelled, and ClaimLost raised, once the claim is lost
        renewer.close()                              # ends the thread; it starts again when a claim is held

    ``ttl`` and ``every`` are seconds: how long a claim lasts without renewal, and how often it is renewed. The storage
    must be usable from several event loops; ``renew_many`` is used where it has that, else ``renew`` for each claim.
    Whether a claim has expired is judged by the storage's time: no clock of this machine decides who has a run. A claim
    that expired while this process could not renew it is live again after the next renewal (``renew_many``), unless
    another worker has taken the run.
    """

    def __init__(self, storage: Claims, *, ttl: float = 10.0, every: float = 3.0, persistent: bool = True) -> None:
        """``persistent``: the thread lives until ``close``; else it ends soon after the last claim is let go."""
        self._persistent = persistent
        self.ttl = ttl
        self.every = every
        self._storage = storage
        self._held: dict[str, HeldClaim] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._now = threading.Event()
        self._closing = False
        self._failing = False
        self._process = os.getpid()

    @contextlib.asynccontextmanager
    async def holding(self, claim: Claim, *, since: float | None = None) -> AsyncIterator[None]:
        """Renew the claim while the body runs; once it is lost the body is cancelled and ``ClaimLost`` raised.

        ``since``: ``boottime()`` before the claim was taken; by default now.
        """
        body, loop = asyncio.current_task(), asyncio.get_running_loop()
        lost: list[bool] = []

        def cancel() -> None:
            if body is not None and not lost:
                lost.append(True)
                body.cancel()

        def notify_loop() -> None:
            with contextlib.suppress(RuntimeError):  # That loop has ended, and the body with it.
                loop.call_soon_threadsafe(cancel)

        self.hold(claim, notify_loop, since=since)
        try:
            yield
        except asyncio.CancelledError:
            if lost and body is not None and body.uncancel() == 0:
                raise ClaimLost(run=claim.run) from None
            raise
        finally:
            self.let_go(claim)
            lost.append(False)

    def hold(self, claim: Claim, lost: Callable[[], None], *, since: float | None = None) -> None:
        """Renew the claim from now on. ``lost`` is called once, in the renewer's thread, when it is gone."""
        good_until = (boottime() if since is None else since) + claim.ttl
        self._reset_after_fork()
        with self._lock:
            self._held[claim.token] = HeldClaim(claim=claim, lost=lost, good_until=good_until)
            self._keep_thread()

    def keep(self, claim: Claim, running: Callable[[], Sequence[str]], released: Callable[[], None]) -> None:
        """Renew a claim whose drive has ended until nothing of it runs any more, then release it.

        ``renew_now`` looks at once; ``released`` is called in the renewer's thread, also where the claim was lost.
        """
        self.hold(claim, released)
        self._held[claim.token].running = running
        self.renew_now()

    def let_go(self, claim: Claim) -> None:
        """Stop renewing the claim. No error if it was lost."""
        with self._lock:
            self._held.pop(claim.token, None)

    def committing(self, claim: Claim, *, ends: bool = False) -> Committing:
        """Return a context manager whose body is a commit under the claim: a renewal that waits for it is no outage.

        ``ends``: it gives the claim back, which is let go once the body has returned; if it fails, it is kept. Until
        then it is renewed, but no loss is reported: a renewal that comes after the commit finds no claim either, and
        the commit itself raises ``ClaimLost``.
        """
        return Committing(self, self._held.get(claim.token), ends)

    def renew_now(self) -> None:
        """Renew at once, because a run may have been taken over."""
        self._now.set()

    def is_held(self, claim: Claim) -> bool:
        """Return whether the last renewal guarantees that no other worker has the run."""
        held = self._held.get(claim.token)
        return held is not None and not held.gone and boottime() < held.good_until

    def has_lapsed(self, claim: Claim) -> bool:
        """Return whether a claim that is renewed here has expired since: a renewal says whether it is lost."""
        held = self._held.get(claim.token)
        return held is not None and not held.gone and boottime() >= held.good_until

    def is_late(self) -> bool:
        """Return whether any claim that is renewed here has expired since."""
        with self._lock:
            held = list(self._held.values())
        now = boottime()
        return any(now >= each.good_until and not each.gone for each in held)

    async def confirm(self, claim: Claim) -> None:
        """Return once it is sure that the claim is held: at once as a rule. ``ClaimLost`` if it is not.

        After this process was stopped or the machine slept, that takes a renewal: call it before code begins that
        must not run beside another worker's.
        """
        while not self.is_held(claim):
            held = self._held.get(claim.token)
            if held is None or held.gone:
                raise ClaimLost(run=claim.run)
            with self._lock:
                self._keep_thread()
            self.renew_now()
            await asyncio.sleep(CONFIRM_POLL)

    @property
    def runs(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None

    def close(self) -> None:
        """End the thread. Claims that are still held are renewed no more."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._closing = True
            self._held.clear()
        self._now.set()
        if thread is not None:
            thread.join()

    def _keep_thread(self) -> None:
        """Start the thread if there is none that lives. With the lock held."""
        if self._thread is None or not self._thread.is_alive():
            self._closing = False
            self._thread = threading.Thread(target=self._main, name="wfdash-claims", daemon=True)
            self._thread.start()

    def _reset_after_fork(self) -> None:
        """Hold nothing in a process that was forked: the claims are its parent's, and so is the thread."""
        if self._process != os.getpid():
            self._process, self._thread, self._held = os.getpid(), None, {}
            self._lock, self._now = threading.Lock(), threading.Event()

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            wait = self.every
            while not self._closing:
                if self._now.wait(wait) and not self._closing:
                    time.sleep(min(MIN_GAP, self.every))
                if self._may_end():
                    break
                self._now.clear()
                wait = self.every if self._closing else runner.run(self._renew())
            runner.run(close_loop(self._storage))

    def _may_end(self) -> bool:
        """Return whether the thread may end; a later ``hold`` starts another."""
        with self._lock:
            if self._persistent or self._held:
                return False
            if self._thread is threading.current_thread():
                self._thread = None
            return True

    async def _renew(self) -> float:
        """Renew all; returns the seconds until the next time."""
        await self._release_left()
        with self._lock:
            held = list(self._held.values())
        if not held:
            return self.every
        began = boottime()
        try:
            async with asyncio.timeout(min(RENEW_TIMEOUT, self.ttl / 2)):
                lost = await renew_many(self._storage, [each.claim for each in held], ttl=self.ttl)
        except Exception as error:
            waits = isinstance(error, TimeoutError) and any(each.committing for each in held)
            if not waits or any(boottime() >= each.good_until for each in held):
                self._log_failure(len(held), error)
            return min(RETRY_SECONDS, self.every)
        self._failing = False
        for each in held:
            if each.claim.token not in lost:
                each.good_until = began + self.ttl
            elif not each.gone and not each.ending and each.claim.token in self._held:
                each.gone = True
                each.lost()
        return self.every

    async def _release_left(self) -> None:
        """Release the claims of drives that have ended, once nothing runs under them."""
        for each in [held for held in self._held.copy().values() if held.running is not None and not held.running()]:
            try:
                await self._storage.release(each.claim)
            except Exception as error:
                self._log_failure(1, error)
            else:
                self.let_go(each.claim)
                each.lost()

    def _log_failure(self, count: int, error: Exception) -> None:
        """Log the first failure of an outage."""
        if not self._failing:
            log.warning("Could not renew %d claims, retrying: %s: %s", count, type(error).__name__, error)
        self._failing = True


async def renew_many(storage: Claims, claims: Sequence[Claim], *, ttl: float) -> frozenset[str]:
    """Extend claims that are still live, in one statement where the storage can; return the tokens that are lost."""
    together = getattr(storage, "renew_many", None)
    return frozenset(await (renew_each(storage, claims, ttl=ttl) if together is None else together(claims, ttl=ttl)))


async def renew_each(storage: Claims, claims: Sequence[Claim], *, ttl: float) -> frozenset[str]:
    """Extend claims that are still live one by one; return the tokens of those that are lost."""
    lost = set()
    for claim in claims:
        try:
            await storage.renew(claim, ttl=ttl)
        except ClaimLost:
            lost.add(claim.token)
    return frozenset(lost)


async def close_loop(storage: object) -> None:
    """Close what a storage keeps for this event loop, where it keeps something."""
    aclose_loop = getattr(storage, "aclose_loop", None)
    if aclose_loop is not None:
        await aclose_loop()


# The name of this process as a claim holder, and whether another holder on this machine has ended.

PROC = Path("/proc")
DEAD = frozenset("ZX")
"""States of a process that has ended and was not waited for by its parent."""


def process_name() -> str:
    """Return the unique name of this process: ``host:pid:place-start:``. Holders put other parts before and after."""
    pid = os.getpid()
    return f"{socket.gethostname()[:100]}:{pid}:{boot_and_namespace()}-{start_time(pid) or 0}:"


def process_of(worker: str) -> tuple[int, int] | None:
    """Return id and start of the process that has, or had, this name; None unless it is certain to be of this machine.

    Another process may have the id by now: only ``is_gone`` tells whether that one has ended.
    """
    *_, host, pid, origin = ("", "", "", *worker.split(":")[:-1])
    where, _, start = origin.partition("-")
    known = bool(where) and where == boot_and_namespace() and host == socket.gethostname()[:100]
    return (int(pid), int(start)) if known and pid.isdigit() and start.isdigit() else None


def is_gone(worker: str) -> bool:
    """Return whether the holder of that name was a process of this machine that has ended."""
    if (process := process_of(worker)) is None:
        return False
    pid, start = process
    if (PROC / str(pid) / "stat").exists():
        return start_time(pid) != start
    # /proc may hide the processes of other users, which can still be asked whether they exist.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@cache
def boot_and_namespace() -> str:
    """Return a digest of this machine's boot id and pid namespace; empty where they are unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text()
        return sha256(f"{boot}{os.readlink(PROC / 'self/ns/pid')}".encode()).hexdigest()[:12]
    except OSError:
        return ""


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None if it does not run."""
    try:
        facts = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if facts[0] in DEAD else int(facts[19])
