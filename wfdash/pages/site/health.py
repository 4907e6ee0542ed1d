"""Liveness and readiness probes. No sign-in, no secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from checkpoints.database.clock import database_now
from checkpoints.database.installation_key import content_flaws
from checkpoints.database.living_workers import HEARTBEAT_TIMEOUT
from checkpoints.database.schema import missing_migrations
from wfdash import catalog
from wfdash.installation.stopping import stopping
from wfdash.page_threads import PageThreads
from wfdash.pages.ui.times import duration
from wfdash.problems import with_retry
from wfdash.queries.statistics.gauges import lateness
from wfdash.queries.workers import workers

SECONDS = {"/readyz": 3.0, "/health": 10.0}
"""For the database's replies to all that a probe asks, by its path."""
LATE = 30.0
"""Seconds by which something that was due may be late."""
CAUSES = {
    "deadlines": "a deadline or reminder of a request",
    "answers": "an answer to be applied",
    "naps": "a sleeping or retrying run",
    "schedules": "a schedule",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """A readiness check and its result as text."""

    name: str
    good: bool
    words: str

    def __str__(self) -> str:
        return f"{'ok' if self.good else 'FAILED'} {self.name}: {self.words}"


@never_cache
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Return 200 as long as the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if this process can serve, else 503; the body names each check, one per line (six small queries)."""
    return _answer(("ready", "not ready"), check_process())


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 if the whole installation works, else 503; a line for each check (about thirteen small queries)."""
    return _answer(("healthy", "not healthy"), check_installation())


class _Process:
    threads: PageThreads | None = None


_process = _Process()


def use_threads(threads: PageThreads) -> None:
    """Set which threads ``/readyz`` judges. Called by who starts them."""
    _process.threads = threads


def no_answer(path: str, seconds: float) -> HttpResponse:
    """Return the response to a probe whose checks are not done after so many seconds. Makes no query."""
    database = Check(name="database", good=False, words=f"no response within {seconds:g} s")
    if path == "/health":
        return _answer(("healthy", "not healthy"), [database])
    return _answer(("ready", "not ready"), [*_check_itself(), database])


def _answer(words: tuple[str, str], checks: list[Check]) -> HttpResponse:
    good = all(check.good for check in checks)
    body = "\n".join([words[not good], *map(str, checks)])
    return with_retry(HttpResponse(f"{body}\n", status=200 if good else 503, content_type="text/plain"))


def check_process() -> list[Check]:
    """Return the checks of this process: does it stay, its workflows, and whether it can use the database."""
    return [*_check_itself(), _check_workflows(), *_check_database(())]


def _check_itself() -> list[Check]:
    """Return whether this process stays, and whether threads of pages hang, if some do."""
    checks = [Check(name="process", good=not stopping.begun, words="stopping" if stopping.begun else "running")]
    threads = _process.threads
    if threads is not None and threads.hanging:
        words = f"{threads.hanging} of {threads.many} hang"
        checks.append(Check(name="threads", good=threads.hanging * 2 < threads.many, words=words))
    return checks


def check_installation() -> list[Check]:
    """Return the checks of database, migrations, workers and timers; those that depend on a failed one are left out."""
    return _check_database((_check_workers, _check_timers))


def _check_database(further: tuple[Callable[[datetime], Check], ...]) -> list[Check]:
    try:
        now = database_now()
    except DatabaseError:
        return [Check(name="database", good=False, words="no response")]
    checks = [Check(name="database", good=True, words="responding"), _safely(_check_migrations, now)]
    return [*checks, *(_safely(check, now) for check in (_check_keys, *further) if checks[-1].good)]


def _check_workflows() -> Check:
    try:
        catalog.load()
    except Exception as error:
        return Check(name="workflows", good=False, words=f"cannot be loaded: {type(error).__name__}")
    return Check(name="workflows", good=True, words="loaded")


def _safely(check: Callable[[datetime], Check], now: datetime) -> Check:
    try:
        return check(now)
    except DatabaseError:
        name = check.__name__.removeprefix("_check_")
        return Check(name=name, good=False, words="the database did not respond")


def _check_migrations(now: datetime) -> Check:
    missing = missing_migrations()
    words = f"not applied: {', '.join(missing)}" if missing else "all applied"
    return Check(name="migrations", good=not missing, words=words)


def _check_keys(now: datetime) -> Check:
    """Read the newest content. What is wrong with it is for operators: ``wfdash doctor`` says it."""
    good = not content_flaws(1, oldest=False)
    return Check(name="keys", good=good, words="content can be read" if good else "content cannot be read")


def _check_workers(now: datetime) -> Check:
    found = workers(now)
    if not found:
        words = f"no heartbeat for {HEARTBEAT_TIMEOUT.seconds} s: start one (wfdash worker, or manage.py wfdash_worker)"
        return Check(name="worker", good=False, words=words)
    many = "1 running" if len(found) == 1 else f"{len(found)} running"
    return Check(name="worker", good=True, words=f"{many}, last heartbeat {duration(now - found[0].seen)} ago")


def _check_timers(now: datetime) -> Check:
    late = {name: seconds for name, seconds in lateness(now).items() if seconds > LATE}
    words = "; ".join(f"{CAUSES[name]} is {duration(seconds)} late" for name, seconds in late.items())
    return Check(name="timers", good=not late, words=words or "nothing is overdue")
