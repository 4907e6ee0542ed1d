"""``WFDASH_ON_ERROR``: an installation's own function, called with each error of a step, a loop or a request.

Errors of loops and requests are taken from the log, those of steps from what the engines report. The function is called
in a thread of its own, one error after the other: it may be slow, and what it raises is logged and goes no further.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from queue import Full, Queue
from threading import Lock, Thread

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from wfdash.telemetry.logs import current_facts, database_outage, mask_secrets
from wfdash.values.errors import watch_failures

log = logging.getLogger(__name__)

OnError = Callable[[BaseException, Mapping[str, str]], object]
"""Gets the exception and a mapping: ``where`` (``step``, ``request`` or ``process``), and what is known of
``workflow``, ``run``, ``step``, ``worker``, ``request``, ``path``, ``logger`` and ``message``.
"""
MAX_PENDING_ERRORS = 100
"""Errors that wait for the function; further ones are dropped and counted."""
LEAVE_SECONDS = 2.0
"""For those that wait when the process ends."""
LOGGERS = ("wfdash", "checkpoints", "django.request")


class ErrorHook(logging.Handler):
    """Hands errors to the function. As a handler it takes records with an exception."""

    def __init__(self, load: Callable[[], OnError]) -> None:
        """``load`` returns the function; it is called with the first error."""
        super().__init__(logging.WARNING)
        self._load = load
        self._waiting: Queue[tuple[BaseException, Mapping[str, str]]] = Queue(MAX_PENDING_ERRORS)
        self._thread: Thread | None = None
        self._starting = Lock()
        self._busy = self._closed = False
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over the error of a record. An outage of the database counts once, as the log has it."""
        error = record.exc_info[1] if record.exc_info else getattr(record, "outage", None)
        if (
            error is None
            or record.name == log.name
            or (database_outage.covers(error) and not hasattr(record, "outage"))
        ):
            return
        where = "request" if record.name == "django.request" else "process"
        try:
            message = mask_secrets(record.getMessage())
        except Exception as problem:
            message = f"{record.msg} (cannot be written: {type(problem).__name__})"
        self.report(error, {"where": where, "logger": record.name, "message": message})

    def report(self, error: BaseException, facts: Mapping[str, str]) -> None:
        """Let the function have an error soon, with what the current task is about. From any thread; never waits."""
        if self._closed:
            return
        try:
            self._waiting.put_nowait((error, {**current_facts(), **facts}))
        except Full:
            self.dropped += 1
            return
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="wfdash-on-error", daemon=True)
                self._thread.start()

    def report_step(self, error: BaseException, step: str) -> None:
        """Report the error of a step."""
        self.report(error, {"where": "step", "step": step} if step else {"where": "step"})

    def flush(self) -> None:
        """Wait until all that waits was handed over, at most ``LEAVE_SECONDS``: ``logging.shutdown`` calls it."""
        until = time.monotonic() + LEAVE_SECONDS
        while (self._busy or not self._waiting.empty()) and time.monotonic() < until:
            time.sleep(0.01)

    def _serve(self) -> None:
        try:
            function = self._load()
        except ValueError as problem:
            self._closed = True
            log.error("%s", problem)
            return
        while True:
            self._hand_over(function, *self._waiting.get())
            if self.dropped:
                dropped, self.dropped = self.dropped, 0
                log.warning("WFDASH_ON_ERROR is slower than errors come: %d were not handed to it", dropped)

    def _hand_over(self, function: OnError, error: BaseException, facts: Mapping[str, str]) -> None:
        self._busy = True
        try:
            function(error, facts)
        except (Exception, SystemExit):
            log.exception("WFDASH_ON_ERROR failed at %s: %s", type(error).__name__, facts.get("message", ""))
        finally:
            self._busy = False


def load_hook(path: str) -> OnError:
    """Return the function at ``package.module:function``. ``ValueError`` with the reason if there is none."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"WFDASH_ON_ERROR must be package.module:function, not {path!r}")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        raise ValueError(f"WFDASH_ON_ERROR: {path} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError(f"WFDASH_ON_ERROR: {path} is no function")
    function: OnError = found
    return function


def refuse_broken_hook() -> None:
    """Raise ``ImproperlyConfigured`` if the settings name a function that cannot be called."""
    try:
        if settings.WFDASH_ON_ERROR:
            load_hook(settings.WFDASH_ON_ERROR)
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None


def install_hook(path: str) -> None:
    """Let the function at this path have errors from now on; nothing for an empty path. It is imported when needed."""
    if not path:
        return
    hook = ErrorHook(partial(load_hook, path))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not logger.hasHandlers() and logging.lastResort is not None:
            # With a handler set Python would print nothing of it any more.
            logger.addHandler(logging.lastResort)
        logger.addHandler(hook)
    watch_failures(hook.report_step)
