"""Where a worker runs: in a process that serves no pages, until it is asked to end, or in a thread of a server.

The thread has a loop of its own, so that a step which blocks cannot stop the sockets' pings; a file lock, so that of
several server processes on one data directory exactly one drives runs.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any
from uuid import getnode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.claims import process_name
from checkpoints.database.installation_key import check_keys
from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import new_token
from wfdash.contract import DEFAULT_QUEUE
from wfdash.engines import catalog
from wfdash.installation.location import make_private, note_sources, noted_sources
from wfdash.installation.stopping import stopping
from wfdash.pubsub.process import signals
from wfdash.telemetry.error_hook import refuse_broken_hook
from wfdash.worker.db_thread import in_thread
from wfdash.worker.drive import Lease
from wfdash.worker.serving import stop_heartbeat
from wfdash.worker.worker import Worker


def serve_worker(
    say: Callable[[str], None],
    *,
    limit: int | None = None,
    workflows: Collection[str] = (),
    queues: Collection[str] = (),
) -> None:
    """Run workflows until SIGINT or SIGTERM, then let running steps end for a while, release all and end the process.

    A second signal ends it at once. A synchronous step function that takes longer does not hold it.
    ``ImproperlyConfigured`` where ``WFDASH_HOLD`` forbids it, one of the ``workflows`` is not loaded, or no workflow
    names one of the ``queues``. Those and ``limit``: see ``Worker``.
    """
    refuse_hold()
    refuse_broken_hook()
    check_served(workflows or settings.WFDASH_SERVES, queues or settings.WFDASH_QUEUES)
    with asyncio.Runner() as loop:
        loop.run(_serve(say, limit, workflows, queues))
        # Not by ``asyncio.run``: it waits for every thread, as long as it takes.
        exit_process(0)


def refuse_hold() -> None:
    """``ImproperlyConfigured`` where ``WFDASH_HOLD`` forbids to run workflows; asks no database."""
    if settings.WFDASH_HOLD:
        raise ImproperlyConfigured("WFDASH_HOLD=1: this copy runs no workflow and sends nothing. Remove it to do so")


def check_served(workflows: Collection[str], queues: Collection[str]) -> None:
    """``ImproperlyConfigured`` where a worker would wait for runs of what is not loaded here: a name that is wrong."""
    loaded = catalog.load().entries
    if missing := ", ".join(sorted({*workflows} - loaded.keys())):
        raise ImproperlyConfigured(
            f"Not loaded here: {missing}. --workflows (WFDASH_SERVES) takes: {', '.join(sorted(loaded))}"
        )
    named = {DEFAULT_QUEUE, *(entry.description.queue for entry in loaded.values())}
    if unknown := ", ".join(sorted({*queues} - named)):
        raise ImproperlyConfigured(
            f"No workflow that is loaded here names this queue: {unknown}. --queues (WFDASH_QUEUES) takes:"
            f" {', '.join(sorted(named))}"
        )


async def _serve(
    say: Callable[[str], None], limit: int | None, workflows: Collection[str], queues: Collection[str]
) -> None:
    signals.start()
    storage = DatabaseStorage()
    worker = Worker(storage, limit=limit, workflows=workflows, queues=queues, among_others=True, publishes=True)
    loop = asyncio.get_running_loop()

    drains = iter((drain_seconds(DRAIN_SECONDS),))

    def stop(*_: object) -> None:
        drain = next(drains, 0.0)
        exit_after(stop_seconds(drain), 0)
        loop.call_soon_threadsafe(stopping.begin)
        loop.call_soon_threadsafe(partial(worker.stop, drain=drain))

    for number in (signal.SIGINT, signal.SIGTERM):
        # Not by ``loop.add_signal_handler``: a step that blocks the loop would delay the signal.
        signal.signal(number, stop)
    say(f"Worker {worker.name} started")
    try:
        await worker.serve()
    finally:
        await storage.aclose()


# -- how a process that drives runs ends: soon, whatever still runs in its threads

DRAIN_SECONDS = 30.0
"""For running steps to end, in a worker process."""
SERVER_DRAIN_SECONDS = 5.0
"""The same in a server that runs workflows: with the rest less than the ten seconds many supervisors wait."""
RELEASE_SECONDS = 4.0
"""For a worker to let go of its runs after that."""
STOP_SECONDS = 7.0
"""For both at least, where there is a database to wait for."""
LEAVE_SECONDS = 2.0
"""For what sends or writes something when the process ends."""


def drain_seconds(default: float) -> float:
    """Return for how long running steps may end when the process is asked to: ``WFDASH_DRAIN``, else ``default``."""
    return default if settings.WFDASH_DRAIN is None else float(settings.WFDASH_DRAIN)


def stop_seconds(drain: float) -> float:
    """Return for how long a worker may take to stop that drains for so long."""
    return max(STOP_SECONDS, drain + RELEASE_SECONDS)


def exit_after(seconds: float, status: int) -> None:
    """End the process with this status then, even if its event loop is blocked until then."""
    impatience = threading.Timer(seconds, os._exit, [status])
    impatience.daemon = True
    impatience.start()


def exit_process(status: int) -> None:
    """End the process, whatever still runs in its threads: a plain function of a step, or a wait for the database.

    Not by ``sys.exit``: Python would wait for its threads, maybe forever, then look through all objects for garbage,
    which takes seconds on a busy machine, and no deadline holds any more while it does. The run of such a step was
    released, and repeats the step where it continues.
    """
    exit_after(LEAVE_SECONDS, status)
    atexit._run_exitfuncs()  # the log's, and those of telemetry, which send what they hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
LOCK_SECONDS = 0.25
"""Between two looks whether the process that runs the worker of the same data directory has ended."""


class EmbeddedWorker:
    """Starts and stops a ``Worker`` in a thread."""

    def __init__(self, lock_path: Path, *, lease: Lease | None = None) -> None:
        self._lock_path = lock_path
        self._lease = lease
        self._lock: IO[str] | None = None
        self._home = ""
        self._thread: threading.Thread | None = None
        self._waiting: threading.Thread | None = None
        self._stopped = threading.Event()
        self._ready: Future[tuple[asyncio.AbstractEventLoop, Worker]] = Future()

    @property
    def running(self) -> bool:
        """Whether this process drives runs right now."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def driving(self) -> int:
        """How many runs are in flight here."""
        return self._ready.result(timeout=0)[1].driving if self.running else 0

    def start(self) -> bool:
        """Start driving runs; False when another process on this data directory already does: then once that has ended.

        ``OSError`` where the lock's file cannot be written.
        """
        if lock := self._take_lock():
            self._begin(lock)
            return True
        folder = self._lock_path.parent
        files = noted_sources(folder).get("WFDASH_WORKFLOWS", "none of files")
        log.warning(
            "Another process runs the worker for %s (workflows: %s); until it ends this one only serves pages, and "
            "runs of other workflows wait",
            folder,
            files,
        )
        self._waiting = threading.Thread(target=self._wait_for_lock, name="wfdash-worker-lock", daemon=True)
        self._waiting.start()
        return False

    def _take_lock(self) -> IO[str] | None:
        lock = self._lock_path.open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock

    def _wait_for_lock(self) -> None:
        while not self._stopped.wait(LOCK_SECONDS):
            if lock := self._take_lock():
                log.warning("The other process has ended; this one runs the worker for %s now", self._lock_path.parent)
                self._begin(lock)
                return

    def _begin(self, lock: IO[str]) -> None:
        lock.seek(0)
        token = lock.read().strip()
        if not token:
            token = new_token()
            lock.write(token)
            lock.flush()
        found = os.fstat(lock.fileno())
        place = f"{_boot_id()}:{found.st_dev}:{found.st_ino}"
        self._lock, self._home = lock, f"{token}-{sha256(place.encode()).hexdigest()[:12]}"
        note_sources(self._lock_path.parent, os.environ)
        signals.start()
        self._thread = threading.Thread(target=self._main, name="wfdash-worker", daemon=True)
        self._thread.start()
        self._ready.result(timeout=30)

    def stop(self, timeout: float = 10.0, *, drain: float = 0.0) -> None:
        """Let go of every run, then return; waits at most ``timeout`` seconds. ``drain``: see ``Worker.stop``."""
        self._stopped.set()
        if self._waiting is not None:
            self._waiting.join(timeout)
        if self._thread is None:
            return
        loop, worker = self._ready.result(timeout=timeout)
        if not loop.is_closed():
            loop.call_soon_threadsafe(partial(worker.stop, drain=drain))
        self._thread.join(timeout)
        with _lock:  # Closing a file in two threads at once raises.
            if self._lock is not None:
                self._lock.close()

    def cut(self) -> None:
        """Let a worker that was asked to stop wait for nothing more. For signal handlers: returns at once."""
        if self.running and self._ready.done():
            loop, worker = self._ready.result()
            loop.call_soon_threadsafe(worker.stop)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("The embedded worker stopped; restart the server to resume runs")
            raise

    async def _serve(self) -> None:
        storage = DatabaseStorage()
        name = f"{self._home}:{process_name()}{new_token()[-6:]}"
        worker = Worker(storage, name=name, lease=self._lease, publishes=True)
        try:
            follows = await self._follow(storage)
            self._ready.set_result((asyncio.get_running_loop(), worker))
            while not (follows or self._stopped.is_set()):
                await asyncio.sleep(RETRY_SECONDS)
                follows = await self._follow(storage)
            await worker.serve()
        finally:
            await storage.aclose()

    async def _follow(self, storage: DatabaseStorage) -> bool:
        """End what the process left that held the lock before. Returns whether the database took that."""
        try:
            # It has ended, so the claims under this name can expire now.
            await storage.expire_claims(worker_prefix=f"{self._home}:")
            await in_thread(stop_heartbeat, f"{self._home}:")
        except Exception as error:
            if not storage.is_outage(error):
                raise
            log.exception("The embedded worker could not begin; retrying each second")
            return False
        return True


def _boot_id() -> str:
    """Return what tells this start of this machine from every other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{getnode():x}"


# -- the one worker of a process that serves: started by its command, or by its ASGI application

_lock = Lock()
_worker: EmbeddedWorker | None = None


def start_worker() -> None:
    """Run workflows in this process from now on, unless it does, or ``WFDASH_EMBED`` or ``WFDASH_HOLD`` forbids it.

    Another process on the same data directory that does keeps doing it alone. ``OSError``, ``ValueError`` if the
    directory cannot be used; ``ImproperlyConfigured`` if the database was used with other keys.
    """
    global _worker
    with _lock:
        if _worker is None and settings.WFDASH_EMBED and not settings.WFDASH_HOLD:
            check_keys()
            make_private(settings.WFDASH_DATA_DIR)
            worker = EmbeddedWorker(settings.WFDASH_DATA_DIR / "worker.lock")
            worker.start()
            _worker = worker


def stop_worker() -> None:
    """Let running steps end for a moment, then let go of every run."""
    global _worker
    with _lock:
        worker, _worker = _worker, None
    if worker is not None:
        drain = drain_seconds(SERVER_DRAIN_SECONDS)
        worker.stop(stop_seconds(drain), drain=drain)


def try_start_worker() -> None:
    """Run workflows in this process if that is possible; else the log says why it is not, and pages are served."""
    try:
        start_worker()
    except Exception:
        log.exception("This process serves pages and cannot run workflows: run them by manage.py wfdash_worker")


def follow_daphne() -> None:
    """Start and stop the worker with daphne, where that is what serves: it sends no lifespan."""
    if "daphne.server" in sys.modules:
        # Importing it installs a reactor, which is daphne's once that has been imported.
        from twisted.internet import reactor

        start: Callable[[], None] = Thread(target=try_start_worker, name="wfdash-start").start
        server: Any = reactor
        server.callWhenRunning(start)
        server.addSystemEventTrigger("before", "shutdown", lambda: hold_shutdown(server, stop_worker))


def hold_shutdown(reactor: Any, stop: Callable[[], None]) -> Any:
    """Call ``stop`` off the reactor's thread; the returned ``Deferred`` holds its shutdown until that is done."""
    from twisted.internet.defer import Deferred

    done: Deferred[None] = Deferred()

    def call() -> None:
        try:
            stop()
        finally:
            reactor.callFromThread(done.callback, None)

    Thread(target=call, name="wfdash-drain").start()
    return done
