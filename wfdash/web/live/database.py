"""What live updates may cost: all their limits, of which tests pass smaller ones, and the threads of their few reads.

The threads are not asgiref's thread-sensitive executor: that is one for the whole process, and a slow page there would
delay every viewer. Reads are autocommit, so a kept connection pins no snapshot; a read that fails closes its
connection, and the next one opens a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import NamedTuple, ParamSpec, TypeVar

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.database.alias import connection
from checkpoints.database.direct import keep_limits, replies_within
from checkpoints.models import Event, Notice, Run
from checkpoints.records import ENDED, frozen


@frozen
class Limits:
    """What one socket, one person and one process may use. Times in seconds, sizes in bytes."""

    unacked_events: int = 500
    """Events sent to one socket and not yet acknowledged; beyond it the socket waits."""
    unacked_bytes: int = 1_000_000
    ack_timeout: float = 60.0
    """A socket that does not acknowledge for this long is closed (4408)."""
    unheard_text: int = 256_000
    """Streamed text sent since the client's last frame; beyond it text is dropped."""
    batch_events: int = 100
    """Events in one message."""
    batch_bytes: int = 256_000
    read_events: int = 500
    """Rows in one read."""
    read_chars: int = 1_000_000
    """Characters after which a read, and a batch, ends."""
    kept_events: int = 1_500
    """Rendered events a feed keeps for its viewers; more than ``snapshot_gap``, so that a replay reads once."""
    kept_chars: int = 8_000_000
    """The same in characters."""
    snapshot_gap: int = 1_000
    """A viewer further behind than this at connect is asked to reload instead of being sent everything."""
    poll_every: float = 1.0
    """The delay of an event whose update was lost."""
    pause_each: float = 0.0002
    """The more viewers a run has, the longer the pause between two messages to them: 0.1 s for 500."""
    stream_every: float = 0.1
    stream_chars: int = 16_000
    """Streamed text buffered per step between two messages; older text of the interval is dropped."""
    lists_every: float = 0.5
    workflows_every: float = 0.05
    """The pause between two looks for events of workflows that are followed."""
    mark_every: float = 0.02
    """The same while a transaction holds up what others have committed."""
    recheck_every: float = 60.0
    spread: float = 2.0
    """The period over which all sockets check their rights again, after a right of many has changed."""
    tick: float = 5.0
    """How often a socket checks its own timers."""
    sockets_per_person: int = 20
    """Sockets and event streams of one person in this process."""
    heartbeat: float = 15.0
    """How long an event stream is silent at most: proxies close connections that say nothing."""
    retry: float = 1.0
    """After how long a client of an event stream should come back."""
    frame_chars: int = 4_096
    frames_per_second: int = 20
    reader_threads: int = 2


P = ParamSpec("P")
T = TypeVar("T")
REPLY_SECONDS = 15.0
"""For the database's replies to one read."""


class DatabaseThreads:
    """A small pool of threads that keep their database connections between reads.

    A read fails if the database does not answer for ``REPLY_SECONDS``: all viewers share these few threads.
    """

    def __init__(self, threads: int) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="live", initializer=self._remember_connection)

    def _remember_connection(self) -> None:
        kept = connection()
        kept.inc_thread_sharing()  # so that ``close`` may close it from another thread
        self._connections.append(kept)
        keep_limits()

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function, called in one of the threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: _guarded(function, *args, **kwargs))

    def close(self) -> None:
        """Wait for reads in flight and close all connections. From any thread, also from one with a running loop."""
        closer = Thread(target=self._close, name="live-close")  # Django refuses to close where a loop runs
        closer.start()
        closer.join()

    def _close(self) -> None:
        self._pool.shutdown(wait=True)
        for kept in self._connections:
            kept.close()


def _guarded(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        with replies_within(REPLY_SECONDS):
            return function(*args, **kwargs)
    except Exception:
        connection().close()
        raise


def read_events(run: str, *, after: int, limit: int) -> Iterator[Event]:
    """Give the run's events with ``seq > after``, in order, at most ``limit``. They may be large: a part at a time."""
    return Event.objects.filter(run_id=run, seq__gt=after).order_by("seq")[:limit].iterator(chunk_size=100)


class Head(NamedTuple):
    """How far a run is: its last sequence number, and how it ended there; empty while it has not."""

    seq: int
    ended: str = ""


def read_heads(runs: Iterable[str]) -> dict[str, Head]:
    """Return run id -> how far it is, for those that exist."""
    rows = Run.objects.filter(id__in=list(runs)).values_list("id", "seq", "phase")
    return {run: Head(seq, phase if phase in ENDED else "") for run, seq, phase in rows}


def read_workflows(runs: Iterable[str]) -> set[str]:
    """Return the names of the workflows these runs belong to."""
    return set(Run.objects.filter(id__in=list(runs)).values_list("workflow", flat=True))


def read_newest(limit: int) -> list[tuple[int, str, str]]:
    """Return ``(id, workflow, kind)`` of the newest stored events of all runs, newest first."""
    rows = Event.objects.order_by("-id").values_list("id", "run__workflow", "kind")
    return list(rows[:limit])


def read_notified(limit: int) -> list[tuple[str, int]]:
    """Return ``(id, person)`` of the newest notifications, newest first: their ids are ordered by time."""
    rows = Notice.objects.filter(user_id__isnull=False).order_by("-id").values_list("id", "user_id")
    return [(notice, user) for notice, user in rows[:limit] if user is not None]
