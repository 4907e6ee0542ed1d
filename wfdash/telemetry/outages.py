"""One line when the database becomes unavailable and one when it is back, instead of one per loop, run and request.

A filter of the log, so that it covers every loop, library and page alike. Imports nothing of the product before the
first outage: logging is set up before everything else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock, Thread

from checkpoints.errors import StorageFailed, lost_its_server

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks whether the database is back."""
QUIET_SECONDS = 2.5
"""For so long no error may have come when an outage ends: a database that answers may still refuse to write."""
PASSING = {"40001", "40P01", "55P03", "57014"}
"""SQLSTATEs of what a busy database does: conflicts, deadlocks, time limits. They are no outage."""
READ_ONLY = "25006"
REFUSALS = {READ_ONLY, "53100", "53200", "53300"}
"""A server that answers and refuses: read-only, disk full, out of memory, too many connections."""
BEGUN = (
    "The database is unavailable: %s: %s. What needs it waits and is retried; until it is back its errors are counted "
    "and not logged. First: %s"
)
FURTHER = "The database is still unavailable, for another reason: %s: %s. First: %s"
OVER = "The database is available again after %.0f s. Not logged: %s and %s answered with 503"


class DatabaseOutage:
    """Whether the database is unavailable, and what was left out of the log since.

    ``look`` raises while the database does not respond; it is called in a thread that runs during outages alone.
    """

    def __init__(self, look: Callable[[], None], *, every: float = LOOK_SECONDS, quiet: float = QUIET_SECONDS) -> None:
        self._look, self._every, self._quiet = look, every, quiet
        self._lock = Lock()
        self._since = self._latest = 0.0
        self._errors = self._requests = 0
        self._reasons: set[str] = set()
        self.over = Event()
        """Cleared during an outage."""
        self.over.set()

    def note(self, reason: str = "") -> str:
        """Note an error of the database and return the line to log: of an outage that begins, or of a further reason.

        Empty for an error that says nothing new.
        """
        with self._lock:
            self._latest = time.monotonic()
            begins = self.over.is_set()
            if not begins:
                if reason not in self._reasons:
                    self._reasons.add(reason)
                    return FURTHER
                self._errors += 1
                return ""
            self._since, self._errors, self._requests, self._reasons = self._latest, 0, 0, {reason}
            self.over.clear()
        Thread(target=self._await_end, name="wfdash-outage", daemon=True).start()
        return BEGUN

    def covers(self, error: BaseException | None) -> bool:
        """Return whether an error is the database's, or may come of an outage that has begun: a connection hangs.

        Of a group, whether each of its errors is.
        """
        if error is None:
            return False
        if isinstance(error, BaseExceptionGroup):
            return all(map(self.covers, error.exceptions))
        return is_outage(error) or (not self.over.is_set() and isinstance(error, TimeoutError | ConnectionError))

    def note_request(self) -> None:
        """Note a request that was answered with 503."""
        with self._lock:
            self._requests += 1

    def _await_end(self) -> None:
        back = 0.0
        while not back or time.monotonic() - self._latest < self._quiet:
            if not self._responds():
                back = 0.0
            elif back <= self._latest:
                back = time.monotonic()
            time.sleep(self._every)
        with self._lock:
            self.over.set()
            seconds, errors, requests = back - self._since, self._errors, self._requests
        log.warning(OVER, seconds, _count(errors, "error"), _count(requests, "request"))

    def _responds(self) -> bool:
        try:
            self._look()
        except Exception:
            with self._lock:
                self._latest = time.monotonic()
            return False
        return True


def look_at_database() -> None:
    """Raise if the database does not answer; leaves no connection."""
    from checkpoints.database.alias import connection

    current = connection()
    try:
        current.close_if_unusable_or_obsolete()
        with current.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        current.close()


database_outage = DatabaseOutage(look_at_database)
"""The one of this process."""


class FoldOutages(logging.Filter):
    """Lets one record of an outage of the database pass, as a warning in one line, and counts the others."""

    def __init__(self, outage: DatabaseOutage = database_outage) -> None:
        super().__init__()
        self._outage = outage

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.levelno < logging.WARNING or hasattr(record, "outage"):
            return True
        error = error_of(record)
        if error is not None and self._outage.covers(error):
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            if not (words := self._outage.note(_reason(error))):
                return False
            text = str(error).strip().partition("\n")[0]
            first = record.getMessage().partition("\n")[0].partition(f": {text}")[0]
            record.msg, record.args = words, (type(error).__name__, text, first)
            record.name, record.levelno, record.levelname = log.name, logging.WARNING, "WARNING"
            record.exc_info = record.exc_text = None
            record.outage = error
            return True
        if self._outage.over.is_set():
            return True
        if getattr(record, "status_code", 0) == 503:
            self._outage.note_request()
            return False
        # What the driver says of connections that it closes.
        return not record.name.startswith("psycopg")


class FailingLoop:
    """Logs what fails in a loop once, with its traceback, until something else fails or it works again."""

    def __init__(self, log: logging.Logger, words: str, *args: object) -> None:
        """``words`` with places for ``args`` are what is logged."""
        self._log, self._words, self._args = log, words, args
        self._last: tuple[str, str] | None = None

    def failed(self, error: Exception) -> None:
        """Note that it has failed."""
        from wfdash.values.errors import message_of

        now = type(error).__name__, message_of(error)
        if now != self._last:
            self._log.error(self._words, *self._args, exc_info=error)
        self._last = now

    def works(self) -> None:
        """Note that it has worked."""
        self._last = None


def error_of(record: logging.LogRecord) -> BaseException | None:
    """Return the error that a record is about: its traceback's, or one among its arguments."""
    if record.exc_info and record.exc_info[1] is not None:
        return record.exc_info[1]
    given = record.args if isinstance(record.args, tuple) else ()
    return next((one for one in given if isinstance(one, BaseException)), None)


def is_outage(error: BaseException) -> bool:
    """Return whether an error, a storage's, Django's or a driver's, means that the database is away, full or
    read-only.
    """
    if isinstance(error, StorageFailed) and error.__cause__ is not None:
        error = error.__cause__
    if lost_its_server(error):
        return True
    own = type(error).__module__.partition(".")[0] in {"django", "psycopg", "psycopg_pool", "sqlite3"}
    kinds = {one.__name__ for one in type(error).__mro__}
    if not own or kinds.isdisjoint({"OperationalError", "InterfaceError", "InternalError"}):
        return False
    code = _code(error)
    if "InternalError" in kinds:
        return code == READ_ONLY
    return code not in PASSING and "locked" not in str(error)


def _code(error: BaseException) -> str:
    """Return PostgreSQL's code of an error, or of the one that it wraps; empty without one."""
    return getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None) or ""


def _reason(error: BaseException) -> str:
    """Return what is the same for all errors of one reason: empty where there is no connection."""
    return code if (code := _code(error)) in REFUSALS else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
