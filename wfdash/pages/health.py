"""Two addresses for whoever watches the process: is it alive, and can it serve. No sign-in, no secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from wfdash.desk.timers import database_now
from wfdash.pages.timefmt import duration
from wfdash.queries.readiness import SILENT, lateness, workers

LATE = 30.0
"""Seconds by which something due at a time may be late."""
CAUSES = {
    "deadlines": "a deadline or reminder of a request",
    "answers": "an answer that is to take effect",
    "naps": "a run that slept, or waited to try again,",
    "schedules": "a schedule",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that must be so, and how it is, in words."""

    name: str
    good: bool
    words: str

    def __str__(self) -> str:
        return f"{'ok' if self.good else 'FAILED'} {self.name}: {self.words}"


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Answer 200 as long as the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 if all checks are good, else 503; the body names each, one a line (about nine small queries)."""
    checks = look()
    ready = all(check.good for check in checks)
    body = "\n".join(["ready" if ready else "not ready", *map(str, checks)])
    return HttpResponse(f"{body}\n", status=200 if ready else 503, content_type="text/plain")


def look() -> list[Check]:
    """Check the database, migrations, workers and timers; what needs one that failed is left out."""
    try:
        now = database_now()
    except DatabaseError:
        return [Check(name="database", good=False, words="it does not answer")]
    checks = [Check(name="database", good=True, words="it answers")]
    for check in (_check_migrations, _check_workers, _check_timers):
        checks.append(_safely(check, now))
        if not checks[-1].good and check is _check_migrations:
            break
    return checks


def _safely(check: Callable[[datetime], Check], now: datetime) -> Check:
    try:
        return check(now)
    except DatabaseError:
        name = check.__name__.removeprefix("_check_")
        return Check(name=name, good=False, words="the database did not answer when asked for it")


@lru_cache(maxsize=1)
def _last_migrations() -> frozenset[tuple[str, str]]:
    """The last migration of each app; read from the disk once, for code does not change under a process."""
    return frozenset((app, name) for app, name in MigrationLoader(None).graph.leaf_nodes())


def _check_migrations(now: datetime) -> Check:
    missing = sorted(_last_migrations() - MigrationRecorder(connection).applied_migrations().keys())
    words = ", ".join(f"{app}.{name}" for app, name in missing)
    return Check(name="migrations", good=not missing, words=f"not applied: {words}" if missing else "all applied")


def _check_workers(now: datetime) -> Check:
    found = workers(now)
    if not found:
        words = f"none was heard of for {SILENT.seconds} s: start one (wfdash up, or manage.py work)"
        return Check(name="worker", good=False, words=words)
    many = "one lives" if len(found) == 1 else f"{len(found)} live"
    return Check(name="worker", good=True, words=f"{many}, last heard of {duration(now - found[0].seen)} ago")


def _check_timers(now: datetime) -> Check:
    late = {name: seconds for name, seconds in lateness(now).items() if seconds > LATE}
    words = "; ".join(f"{CAUSES[name]} is {duration(seconds)} late" for name, seconds in late.items())
    return Check(name="timers", good=not late, words=words or "nothing is late")
