"""Prometheus metrics, read from the database and this process when scraped.

Counters come from the stored metrics (``wfdash.domain.histograms``): they survive restarts and are the same on every
server. Labels are workflows, steps and classes of errors; never a run, a person or a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from checkpoints.database.clock import database_now
from checkpoints.sql.durability import BOUNDS, meter
from wfdash import __version__
from wfdash.access.viewer import EVERY, RIGHTS, Viewer
from wfdash.domain.histograms import Measure, up_to
from wfdash.queries.statistics import gauges
from wfdash.queries.statistics.gauges import lateness
from wfdash.queries.workers import workers

SERIES = 200
"""Combinations of labels per metric; beyond them the smaller ones are ``(others)``."""
SHORT = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0, 3600.0)
LONG = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 28_800.0, 86_400.0, 259_200.0, 604_800.0)
EVERYTHING = Viewer(user=None, name="", rights={EVERY: RIGHTS["viewer"]})
"""A viewer for the metrics of all workflows; the view checks the permission."""
Values = dict[tuple[str, ...], float]
"""By labels."""
LABEL_INDEX = {"workflow": 0, "step": 1, "error": 2}
WORKFLOW = ("workflow",)
STEP = ("workflow", "step")
COUNTERS = (
    (Measure.STARTED, "wfdash_runs_started", "Runs started, including forks", WORKFLOW),
    (Measure.COMPLETED, "wfdash_runs_completed", "Runs that completed", WORKFLOW),
    (Measure.FAILED, "wfdash_runs_failed", "Times a run failed, by the class of its error", ("workflow", "error")),
    (Measure.CANCELLED, "wfdash_runs_cancelled", "Runs that were cancelled", WORKFLOW),
    (Measure.RECOVERED, "wfdash_runs_recovered", "Times a run was taken over from a lost worker", WORKFLOW),
    (Measure.STEP_FAILED, "wfdash_steps_failed", "Attempts of steps that failed", STEP),
    (Measure.STEP_RETRIED, "wfdash_steps_retried", "Attempts of steps after one that failed", STEP),
    (Measure.LAPSED, "wfdash_requests_lapsed", "Requests that a deadline answered", STEP),
)
HISTOGRAMS = (
    (Measure.RUN, "wfdash_run_duration_seconds", "From a run's creation to its completion", WORKFLOW, LONG),
    (Measure.STEP, "wfdash_step_duration_seconds", "How long a step's function ran", STEP, SHORT),
    (Measure.DECISION, "wfdash_decision_seconds", "From a request's opening to a person's decision", STEP, LONG),
    (Measure.QUEUE, "wfdash_queue_seconds", "From a run's creation to its beginning", WORKFLOW, SHORT),
)


@dataclass
class _SocketCounter:
    """How to count this process's sockets."""

    sockets: Callable[[], int] | None = None


_process = _SocketCounter()


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
    return dict(ordered[:SERIES])


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
            counter.add_metric(names, total.count)
        yield counter
    for measure, name, words, labels, bounds in HISTOGRAMS:
        histogram = HistogramMetricFamily(name, words, labels=labels)
        for names, total in sorted(_by(ever.get(measure, {}), labels).items()):
            histogram.add_metric(
                names, cumulative_buckets(bounds, up_to(total.buckets, bounds), total.count), total.seconds
            )
        yield histogram


def _by(totals: gauges.Totals, labels: Sequence[str]) -> gauges.Totals:
    return gauges.narrow(totals, lambda names: tuple(names[LABEL_INDEX[label]] for label in labels), SERIES)


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
