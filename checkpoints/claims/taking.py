"""A run's claim without a worker: taken, given back, and left to functions that still run under it.

The claims of one process have different names, so that what became of each is known: driven, being let go, left to
functions that no cancellation ends, or lost track of, because the storage failed before it said whether it was stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from checkpoints.claims.holder import is_gone, process_name
from checkpoints.claims.renewal import TTL
from checkpoints.errors import Conflict
from checkpoints.ids import CheckpointId, RunId
from checkpoints.records import Claim, Commit
from checkpoints.storage import Claims, Journal

T = TypeVar("T")
Running = Callable[[], Sequence[str]]
"""Returns the names of the functions that still run."""
log = logging.getLogger(__name__)

LET_GO_SECONDS = 5.0
"""So long the next caller waits for a drive of this process that is being stopped."""
POLL = 0.01
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
        await asyncio.sleep(POLL)
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
