"""Keeps the log readable: repeats are counted, and no record ends a line or moves the cursor.

There is one line when the database becomes unavailable and one when it is back, instead of one per loop, run and
request: a filter of the log, so that it covers every loop, library and page alike. Imports nothing of the product
before the first outage: logging is set up before everything else.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from typing import Any

from checkpoints.errors import StorageFailed, lost_its_server

# The log as JSON: one object a line, whatever the line says (``WFDASH_LOG=json``).

MAX_TEXT_CHARACTERS = 6_000
"""Characters of a message, and of a traceback: many collectors cut lines at 16 KB."""


class JsonFormatter(logging.Formatter):
    """Formats records as objects: ``time`` (UTC), ``level``, ``logger``, ``message``, then what ``log_context`` knows.

    ``error`` has ``type``, ``message`` and ``trace``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of ASCII."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(mask_secrets(record.getMessage())),
            **{name: mask_secrets(text) for name, text in current_facts().items()},
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.exc_info:
            message, trace = mask_secrets(_text(error)), mask_secrets(self.formatException(record.exc_info))
            line["error"] = {"type": type(error).__name__, "message": _cut(message), "trace": _end(trace)}
        if record.stack_info:
            line["stack"] = _end(mask_secrets(record.stack_info))
        # Masked before: in JSON a mask would take the backslash in front of a quotation mark, too.
        return json.dumps(line)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else text[: MAX_TEXT_CHARACTERS - 1] + "…"


def _end(text: str) -> str:
    """Return the end of a traceback: what was raised, and where."""
    return text if len(text) <= MAX_TEXT_CHARACTERS else "…" + text[1 - MAX_TEXT_CHARACTERS :]


PERIOD_SECONDS = 60.0
"""Seconds in which repeats are counted."""
MAX_RECORDS_PER_PERIOD = 5
"""Records of one kind that are logged per period."""
MAX_REMEMBERED_KINDS = 500
"""Kinds of records that are remembered; the least recent is forgotten first."""
SHOWN = ("request", "run", "step")
"""What a line of text is about that its message may not say. The worker is the same for the whole log."""
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal or a log viewer interprets instead of showing them. Tabs are harmless."""
INDENT = "    "


class LimitRepeats(logging.Filter):
    """Logs a few records of a kind per minute; the next one says how many were left out.

    Of one kind are records of one line of code at one level; errors also by their class, and refused requests by their
    status and method. Different ids or addresses do not matter. Records below WARNING are never limited.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[Any, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.levelno < logging.WARNING:
            return True
        passes, left_out = self._count_repeat(_kind(record))
        if passes and left_out:
            record.msg = f"{record.getMessage()} [{left_out:,} similar messages omitted]"
            record.args = ()
        return passes

    def _count_repeat(self, kind: Any) -> tuple[bool, int]:
        now = self._clock()
        with self._lock:
            began, count = self._seen.pop(kind, (now, 0))
            over = now - began >= PERIOD_SECONDS
            left_out = max(0, count - MAX_RECORDS_PER_PERIOD) if over else 0
            began, count = (now, 1) if over else (began, count + 1)
            self._seen[kind] = (began, count)
            if len(self._seen) > MAX_REMEMBERED_KINDS:
                self._seen.popitem(last=False)
        return count <= MAX_RECORDS_PER_PERIOD, left_out


def _kind(record: logging.LogRecord) -> Any:
    """Return what a record has in common with its repeats."""
    error = record.exc_info[0] if record.exc_info else None
    # Django logs everything it refuses at one place; what was requested is in the arguments.
    request = getattr(record, "request", None)
    refused = (getattr(record, "status_code", 0), getattr(request, "method", ""))
    return (record.name, record.levelno, record.pathname, record.lineno, error, refused)


class LineFormatter(logging.Formatter):
    """Formats records so that each starts one line: control characters are escaped, and a traceback is indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the first line, with the run, step and request that it is about."""
        text, known = super().formatMessage(record), current_facts()
        about = ", ".join(f"{name} {known[name]}" for name in SHOWN if name in known and known[name] not in text)
        return visible(f"{text} [{about}]" if about else text)

    def formatException(self, ei: Any) -> str:
        """Return a traceback, which may quote anything."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        """Return a stack."""
        return _indented(super().formatStack(stack_info))


def visible(text: str) -> str:
    r"""Return a text with its control characters written as ``\n``, ``\x1b`` and the like."""
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _indented(text: str) -> str:
    return "\n".join(INDENT + visible(line) for line in mask_secrets(text).split("\n"))


# Masks secrets in the log. Imports nothing: logging is set up before everything else.

SECRET = re.compile(r"(/(?:sign-in|answer)/|\bwfd_[a-z0-9]{8}_)[^/\s?\"']+")
"""After a link's path, and after the public part of a token."""


def mask_secrets(text: str) -> str:
    """Return a text without the secrets of links and tokens."""
    return SECRET.sub(r"\1…", text)


class MaskLinks(logging.Filter):
    """Masks the secret of sign-in and answer links, and of tokens: Django logs the URL of every request it refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for every record, after masking its secrets."""
        try:
            text = record.getMessage()
        except Exception:
            return True  # Its handler says so: an exception here would end what logs it.
        if SECRET.search(text):
            record.msg, record.args = mask_secrets(text), ()
        return True


# What a line of the log is about: the worker, the run, the step or the request in which it was written.

Facts = Mapping[str, str]
ORDER = ("worker", "request", "path", "workflow", "run", "step")
"""The facts there are, in the order in which they are shown."""

_bound: ContextVar[Facts] = ContextVar("wfdash_log_facts", default={})  # noqa: B039 (it is never changed)
_sources: list[Callable[[], Facts]] = []


def bind(**facts: str) -> None:
    """Add facts to what the current task logs from now on, with the tasks and threads that it starts."""
    _bound.set({**_bound.get(), **facts})


@contextmanager
def about(**facts: str) -> Iterator[None]:
    """Add facts to what is logged inside of the block."""
    token = _bound.set({**_bound.get(), **facts})
    try:
        yield
    finally:
        _bound.reset(token)


def add_source(source: Callable[[], Facts]) -> None:
    """Ask for more facts at each line. ``source`` must be fast and must not fail."""
    if source not in _sources:
        _sources.append(source)


def current_facts() -> dict[str, str]:
    """Return what the current line is about, in ``ORDER``; what is not known is left out."""
    found = dict(_bound.get())
    for source in _sources:
        found |= source()
    return {name: found[name] for name in ORDER if found.get(name)}


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
            # What is the same for all errors of one reason: empty where there is no connection.
            code = _code(error)
            if not (words := self._outage.note(code if code in REFUSALS else "")):
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
    return code not in PASSING and not any(words in str(error) for words in ("locked", "malformed JSON"))


def _code(error: BaseException) -> str:
    """Return PostgreSQL's code of an error, or of the one that it wraps; empty without one."""
    return getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None) or ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
