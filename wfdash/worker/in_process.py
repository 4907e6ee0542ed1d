"""The one worker of a process that serves: started by its command, or by its ASGI application."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

from django.conf import settings

from checkpoints.database.installation_key import check_keys
from wfdash.installation.data_directory import make_private
from wfdash.worker.embedded import EmbeddedWorker
from wfdash.worker.shutdown import SERVER_DRAIN_SECONDS, drain_seconds, stop_seconds

log = logging.getLogger(__name__)

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
