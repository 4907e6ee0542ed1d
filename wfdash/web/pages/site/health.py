"""Liveness and readiness probes without sign-in, and metrics for who may scrape them. No secrets."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from checkpoints.database.clock import database_now
from checkpoints.database.installation_key import content_flaws
from checkpoints.database.living_workers import HEARTBEAT_TIMEOUT
from checkpoints.database.schema import missing_migrations
from checkpoints.rules import NANOS
from checkpoints.sql.durability import BOUNDS, meter
from wfdash import __version__
from wfdash.access.viewer import EVERY, RIGHTS, Viewer
from wfdash.engines import catalog
from wfdash.installation.stopping import stopping
from wfdash.queries.statistics import gauges
from wfdash.queries.statistics.durations import Measure, up_to
from wfdash.queries.statistics.gauges import lateness
from wfdash.queries.workers import workers
from wfdash.web.page_threads import PageThreads
from wfdash.web.pages.site.decorators import viewer_of
from wfdash.web.pages.ui.times import duration
from wfdash.web.problems import with_retry

# ``/metrics``: all metrics, for a scraper with the token, or for a person who operates everything.

REFUSAL = (
    "These metrics cover all workflows. Scrape them with the header 'Authorization: Bearer ...' and the "
    "value of WFDASH_METRICS_TOKEN, or sign in as a user who can operate every workflow.\n"
)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics in the text format, or 403."""
    if not _may_scrape(request):
        return HttpResponse(REFUSAL, status=403, content_type="text/plain")
    registry = CollectorRegistry()
    registry.register(DatabaseCollector())
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _may_scrape(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    token: str = settings.WFDASH_METRICS_TOKEN
    if token and scheme.lower() == "bearer":
        return hmac.compare_digest(given.strip().encode(), token.encode())
    return "operate" in viewer_of(request).rights.get(EVERY, frozenset())


# Prometheus metrics, read from the database and this process when scraped.

MAX_SERIES = 200
"""Combinations of labels per metric; beyond them the smaller ones are ``(others)``."""
SHORT_TIMES = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3600.0)
LONG_TIMES = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 28_800.0, 86_400.0, 259_200.0, 604_800.0)
EVERYTHING = Viewer(user=None, name="", rights={EVERY: RIGHTS["viewer"]})
"""A viewer for the metrics of all workflows; the view checks the permission."""
Values = dict[tuple[str, ...], float]
"""By labels."""
LABEL_INDEX = {"workflow": 0, "step": 1, "error": 2, "model": 2}
WORKFLOW = ("workflow",)
STEP = ("workflow", "step")
MODEL = ("workflow", "model")
COUNTERS = (
    (Measure.STARTED, "wfdash_runs_started", "Runs started, including forks", WORKFLOW),
    (Measure.COMPLETED, "wfdash_runs_completed", "Runs that completed", WORKFLOW),
    (Measure.FAILED, "wfdash_runs_failed", "Times a run failed, by the class of its error", ("workflow", "error")),
    (Measure.CANCELLED, "wfdash_runs_cancelled", "Runs that were cancelled", WORKFLOW),
    (Measure.RECOVERED, "wfdash_runs_recovered", "Times a run was taken over from a lost worker", WORKFLOW),
    (Measure.STEP_FAILED, "wfdash_steps_failed", "Attempts of steps that failed", STEP),
    (Measure.STEP_RETRIED, "wfdash_steps_retried", "Attempts of steps after one that failed", STEP),
    (Measure.LAPSED, "wfdash_requests_lapsed", "Requests that a deadline answered", STEP),
    (Measure.TOKENS_IN, "wfdash_model_input_tokens", "Tokens given to models", MODEL),
    (Measure.TOKENS_OUT, "wfdash_model_output_tokens", "Tokens that models wrote", MODEL),
    (Measure.COST, "wfdash_model_cost", "What models cost, in the currency of the settings", MODEL),
)
HISTOGRAMS = (
    (
        Measure.RUN,
        "wfdash_run_duration_seconds",
        "From a run's creation to its completion, without stops",
        WORKFLOW,
        LONG_TIMES,
    ),
    (Measure.STEP, "wfdash_step_duration_seconds", "How long a step's function ran", STEP, SHORT_TIMES),
    (Measure.DECISION, "wfdash_decision_seconds", "From a request's opening to a person's decision", STEP, LONG_TIMES),
    (Measure.QUEUE, "wfdash_queue_seconds", "From a run's creation to its beginning", WORKFLOW, SHORT_TIMES),
)


class _Process:
    sockets: Callable[[], int] | None = None
    threads: PageThreads | None = None


_process = _Process()


def use_sockets(count: Callable[[], int]) -> None:
    """Set how to count open sockets. Called where the application is put together."""
    _process.sockets = count


class DatabaseCollector(Collector):
    """Collects all metrics on request (about fifteen queries)."""

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield _gauge("wfdash_info", "The version that answers", ("version",), {(__version__,): 1})
        yield from _current()
        yield from _watched()
        yield from _counters()
        yield from _here()


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for names, value in sorted(values.items()):
        family.add_metric(names, value)
    return family


def _current() -> Iterator[Metric]:
    runs: Values = {
        (name, status.value): float(count) for (name, status), count in gauges.count_by_status(EVERYTHING).items()
    }
    words = "Active and failed runs, by status"
    yield _gauge("wfdash_runs", words, ("workflow", "state"), largest(runs))
    unserved: Values = {(name,): float(count) for name, count in gauges.count_unserved().items()}
    yield _gauge("wfdash_runs_unserved", "Due runs that no running worker serves", WORKFLOW, largest(unserved))
    now, asked = database_now(), gauges.open_requests(EVERYTHING)
    counts: Values = {(name,): float(row.count) for name, row in asked.items()}
    yield _gauge("wfdash_open_requests", "Open requests", WORKFLOW, largest(counts))
    ages: Values = {(name,): max((now - row.since).total_seconds(), 0.0) for name, row in asked.items()}
    yield _gauge("wfdash_oldest_request_seconds", "For how long the oldest of them waits", WORKFLOW, largest(ages))


def largest(values: Values) -> Values:
    """Return the largest of them, at most as many as a metric may have."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    return dict(ordered[:MAX_SERIES])


def _watched() -> Iterator[Metric]:
    now = database_now()
    alive, late = workers(now), lateness(now)
    yield _gauge("wfdash_workers", "Worker processes that live", (), {(): len(alive)})
    yield _gauge("wfdash_runs_driven", "Runs they have in flight", (), {(): sum(row.runs for row in alive)})
    overdue: Values = {(kind,): late.get(kind, 0.0) for kind in ("answers", "deadlines", "naps", "schedules")}
    yield _gauge("wfdash_late_seconds", "Delay of overdue work", ("kind",), overdue)
    held: Values = {(state,): float(count) for state, count in gauges.claims().items()}
    yield _gauge("wfdash_claims", "Claims of runs", ("state",), held)
    yield _gauge("wfdash_events_uncounted", "Events that no counter shows yet", (), {(): gauges.count_pending()})


def _counters() -> Iterator[Metric]:
    ever = gauges.all_totals(EVERYTHING)
    for measure, name, words, labels in COUNTERS:
        counter = CounterMetricFamily(name, words, labels=labels)
        for names, total in sorted(_by(ever.get(measure, {}), labels).items()):
            counter.add_metric(names, total.count / NANOS if measure is Measure.COST else total.count)
        yield counter
    for measure, name, words, labels, bounds in HISTOGRAMS:
        histogram = HistogramMetricFamily(name, words, labels=labels)
        for names, total in sorted(_by(ever.get(measure, {}), labels).items()):
            histogram.add_metric(
                names, cumulative_buckets(bounds, up_to(total.buckets, bounds), total.count), total.seconds
            )
        yield histogram


def _by(totals: gauges.Totals, labels: Sequence[str]) -> gauges.Totals:
    return gauges.narrow(totals, lambda names: tuple(names[LABEL_INDEX[label]] for label in labels), MAX_SERIES)


def cumulative_buckets(bounds: Sequence[float], counts: Sequence[int], total: int) -> list[tuple[str, float]]:
    """Return a histogram's cumulative buckets: each bound, and how many are not above it."""
    return [*((str(bound), float(count)) for bound, count in zip(bounds, counts, strict=True)), ("+Inf", float(total))]


def _here() -> Iterator[Metric]:
    read = meter.read()
    words = "How long transactions of this process's storage took"
    histogram = HistogramMetricFamily("wfdash_commit_seconds", words)
    histogram.add_metric(
        (), cumulative_buckets(BOUNDS, list(accumulate(read.counts))[:-1], read.transactions), read.seconds
    )
    yield histogram
    yield CounterMetricFamily("wfdash_commit_scripts", "Writes that shared those transactions", value=read.scripts)
    if _process.sockets is not None:
        yield _gauge("wfdash_sockets", "Sockets open at this process", (), {(): _process.sockets()})


PROBE_SECONDS = {"/readyz": 3.0, "/health": 10.0}
"""For the database's replies to all that a probe asks, by its path."""
LATE_SECONDS = 30.0
"""Seconds by which something that was due may be late."""
CAUSES = {
    "deadlines": "a deadline or reminder of a request",
    "answers": "an answer to be applied",
    "naps": "a sleeping or retrying run",
    "schedules": "a schedule",
}


@dataclass(frozen=True)
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
    return _answer("ready", check_process())


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Return 200 if the whole installation works, else 503; a line for each check (about thirteen small queries)."""
    return _answer("healthy", check_installation())


def use_threads(threads: PageThreads) -> None:
    """Set which threads ``/readyz`` judges. Called by who starts them."""
    _process.threads = threads


def no_answer(path: str, seconds: float) -> HttpResponse:
    """Return the response to a probe whose checks are not done after so many seconds. Makes no query."""
    database = Check("database", good=False, words=f"no response within {seconds:g} s")
    if path == "/health":
        return _answer("healthy", [database])
    return _answer("ready", [*_check_itself(), database])


def _answer(word: str, checks: list[Check]) -> HttpResponse:
    good = all(check.good for check in checks)
    body = "\n".join([f"{'' if good else 'not '}{word}", *map(str, checks)])
    return with_retry(HttpResponse(f"{body}\n", status=200 if good else 503, content_type="text/plain"))


def check_process() -> list[Check]:
    """Return the checks of this process: does it stay, its workflows, and whether it can use the database."""
    return [*_check_itself(), _check_workflows(), *_check_database(())]


def _check_itself() -> list[Check]:
    """Return whether this process stays, and whether threads of pages hang, if some do."""
    checks = [Check("process", good=not stopping.begun, words="stopping" if stopping.begun else "running")]
    threads = _process.threads
    if threads is not None and threads.hanging:
        words = f"{threads.hanging} of {threads.many} hang"
        checks.append(Check("threads", good=threads.hanging * 2 < threads.many, words=words))
    return checks


def check_installation() -> list[Check]:
    """Return the checks of database, migrations, workers and timers; those that depend on a failed one are left out."""
    return _check_database((_check_workers, _check_timers))


def _check_database(further: tuple[Callable[[datetime], Check], ...]) -> list[Check]:
    try:
        now = database_now()
    except DatabaseError:
        return [Check("database", good=False, words="no response")]
    checks = [Check("database", good=True, words="responding"), _safely(_check_migrations, now)]
    return [*checks, *(_safely(check, now) for check in (_check_keys, *further) if checks[-1].good)]


def _check_workflows() -> Check:
    try:
        catalog.load()
    except Exception as error:
        return Check("workflows", good=False, words=f"cannot be loaded: {type(error).__name__}")
    return Check("workflows", good=True, words="loaded")


def _safely(check: Callable[[datetime], Check], now: datetime) -> Check:
    try:
        return check(now)
    except DatabaseError:
        name = check.__name__.removeprefix("_check_")
        return Check(name, good=False, words="the database did not respond")


def _check_migrations(now: datetime) -> Check:
    missing = missing_migrations()
    words = f"not applied: {', '.join(missing)}" if missing else "all applied"
    return Check("migrations", good=not missing, words=words)


def _check_keys(now: datetime) -> Check:
    """Read the newest content. What is wrong with it is for operators: ``wfdash doctor`` says it."""
    good = not content_flaws(1, oldest=False)
    return Check("keys", good=good, words="content can be read" if good else "content cannot be read")


def _check_workers(now: datetime) -> Check:
    found = workers(now)
    if not found:
        words = f"no heartbeat for {HEARTBEAT_TIMEOUT.seconds} s: start one (wfdash worker, or manage.py wfdash_worker)"
        return Check("worker", good=False, words=words)
    many = "1 running" if len(found) == 1 else f"{len(found)} running"
    return Check("worker", good=True, words=f"{many}, last heartbeat {duration(now - found[0].seen)} ago")


def _check_timers(now: datetime) -> Check:
    late = {name: seconds for name, seconds in lateness(now).items() if seconds > LATE_SECONDS}
    words = "; ".join(f"{CAUSES[name]} is {duration(seconds)} late" for name, seconds in late.items())
    return Check("timers", good=not late, words=words or "nothing is overdue")
