"""``wfdash up --reload``: reads workflow files again when they change, in the process that serves and runs them.

The files are looked at a few times a second: they are few, and that works in containers and on network drives as well.
"""

from __future__ import annotations

import linecache
import logging
import sys
import time
from pathlib import Path
from threading import Thread
from traceback import TracebackException

from django.conf import settings
from django.db import connections

from checkpoints.errors import ErrorWithFacts
from wfdash import pubsub
from wfdash.access.viewer import EVERY
from wfdash.actions.runs.migrate import release_declared
from wfdash.engines import catalog
from wfdash.installation.workflow_sources import Stamps, author_modules, is_own, own_traceback, stamps
from wfdash.telemetry.logs import LineFormatter
from wfdash.values.errors import watch_failures

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.3
SETTLE_SECONDS = 0.05
"""Editors write in several steps: so long nothing more has to change."""
_said: set[str] = set()
"""Errors of steps that were printed since the files were read."""


def watch() -> None:
    """Start to watch the files of authors, until the process ends."""
    # A file saved twice within a second, with as many bytes, would be taken for the compiled one.
    sys.dont_write_bytecode = True
    if not settings.WFDASH_EMBED:
        print("  --reload concerns this process: restart workers elsewhere yourself", flush=True)
    watch_failures(_say_failure)
    Thread(target=_watch, name="wfdash-reload", daemon=True).start()


def _watch() -> None:
    known = _stamps()
    while True:
        time.sleep(LOOK_SECONDS)
        if (now := _stamps()) == known:
            continue
        known = _settled(now)
        try:
            _reload()
        except Exception:
            log.exception("Could not read the workflow files again; retrying when they change")
        finally:
            connections.close_all()
        known |= {path: stamp for path, stamp in _stamps().items() if path not in known}


def _settled(now: Stamps) -> Stamps:
    while True:
        time.sleep(SETTLE_SECONDS)
        if (later := _stamps()) == now:
            return now
        now = later


def _stamps() -> Stamps:
    modules = author_modules(catalog.roots(), but=settings.INSTALLED_APPS)
    failed = [Path(failure.where.rpartition(":")[0]) for failure in catalog.failures() if failure.where]
    return stamps(catalog.roots(), modules.values(), more=failed)


def _say_failure(error: BaseException, step: str) -> None:
    """Print a step's error with the author's lines: once, until files are read again."""
    text = _frames(error)
    if text not in _said:
        _said.add(text)
        print(f"  Step {step} failed:\n{text}", flush=True)


def _frames(error: BaseException) -> str:
    """Return an error with its traceback, of which only authors' lines where wfdash itself refuses something."""
    shown = TracebackException(type(error), error, own_traceback(error) or error.__traceback__)
    if isinstance(error, ErrorWithFacts):
        shown.stack[:] = (line for line in shown.stack if is_own(line.filename))
    return LineFormatter().formatStack("".join(shown.format()).rstrip())


def _reload() -> None:
    began = time.perf_counter()
    linecache.checkcache()
    _said.clear()
    known = {(failure.source, failure.traceback) for failure in catalog.failures()}
    found = catalog.reload()
    # Let held runs continue that the new code declares how to carry over; workers look for the others themselves.
    further: str | None = ""
    while further is not None:
        _, after = release_declared(further)
        further = after or None
    # Other processes have read nothing again.
    pubsub.requests_changed.deliver(EVERY, "code", str(found.number))
    if found.words or not found.failures:
        words = "; ".join(found.words) or "no change"
        print(f"  Reloaded in {time.perf_counter() - began:.2f} s: {words}", flush=True)
    for failure in found.failures:
        if (failure.source, failure.traceback) in known:
            continue
        kept = f" The last good version of {', '.join(failure.kept)} is still served." if failure.kept else ""
        print(f"  {failure.where or failure.source}: {failure.error}.{kept}", flush=True)
        if failure.raised is not None and failure.raised.__traceback__ is not None:
            print(_frames(failure.raised), flush=True)
