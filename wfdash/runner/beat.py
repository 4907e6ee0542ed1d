"""Says every few seconds that this worker lives; once it ends gracefully, that it does no more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from wfdash.runner.lane import Lane

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
END_SECONDS = 2.0


async def beat_until(stopping: asyncio.Event, worker: str, driving: Callable[[], int]) -> None:
    """Beat until stopped. ``driving()`` says how many runs are in flight."""
    # Servers import their runner before Django has its models.
    from wfdash.desk import beats

    lane = Lane("wfdash-beat")
    try:
        await _try(lane, lambda: beats.begin_beat(worker))
        while not stopping.is_set():
            await _try(lane, lambda: _beat(worker, driving()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), BEAT_SECONDS)
    finally:
        # A database that is away must not hold up the end.
        await _try(lane, lambda: beats.end_beat(worker), patience=END_SECONDS)
        await lane.aclose(wait=False)


async def _try(lane: Lane, call: Callable[[], None], patience: float | None = None) -> None:
    try:
        await asyncio.wait_for(lane.call(call), patience)
    except Exception:
        log.exception("Could not say how this worker is; trying again")


def _beat(worker: str, runs: int) -> None:
    from wfdash.desk import beats, timers
    from wfdash.queries import readiness

    late = readiness.lateness(timers.database_now())
    beats.beat(worker, runs=runs, late=round(max(late.values(), default=0.0), 3))
