"""What the leading worker does beside the runs: one look each second says which jobs have something to do."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings

from checkpoints.database import clock
from checkpoints.database.clock import database_now
from checkpoints.database.compiled import FirstValues
from checkpoints.database.high_water_mark import STATISTICS, WEBHOOKS, HighWaterMark
from checkpoints.models import Event, Snooze, TallyMark
from checkpoints.records import frozen
from wfdash.access.signin.links import forget_links
from wfdash.access.signin.sessions import forget_sessions
from wfdash.actions import audit, pacing, schedules, statistics
from wfdash.actions.hooks import webhooks
from wfdash.actions.hooks.incoming import forget_deliveries
from wfdash.actions.pacing import rest_after
from wfdash.actions.requests import announce, chat, deadlines, finalize, rules
from wfdash.actions.requests.answer_links import forget_used_links
from wfdash.actions.requests.collaboration import wake_snoozed
from wfdash.actions.retention import RunRemover
from wfdash.actions.runs import bulk, lifecycle, migrate, search_index, signals
from wfdash.actions.runs.bulk import forget_bulks
from wfdash.actions.schedules import announce_late
from wfdash.installation.stopping import waited
from wfdash.notifications.slack import socket_client
from wfdash.pubsub.transport import Outage
from wfdash.queries.statistics.gates import next_day_to_make
from wfdash.queries.workers import forget_unread
from wfdash.telemetry.logs import FailingLoop
from wfdash.worker import outbox
from wfdash.worker.db_thread import DbThread
from wfdash.worker.outbox import Senders

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""So often it looks, and sooner when the time of something is known to come sooner."""
FIRST_TIDY = 60.0
LATE = "What is due beside the runs waits: %s: %s: %s. Retrying each second"


@frozen
class Job:
    """Something to do whenever ``is_due``, but not within ``every`` seconds of the last time.

    ``do`` returns after how many seconds it is to be called again, whatever the look finds; 0: at once.
    """

    name: str
    do: Callable[[], float]
    is_due: Callable[[DueWork], bool] = lambda found: True
    every: float = 0.0
    first: float = 0.0
    """Seconds until it is done for the first time."""
    close: Callable[[], None] = lambda: None


def all_jobs() -> list[Job]:
    """Return the jobs of one leader."""
    sender, held, socket = Senders(), HeldRuns(), ChatSocket()
    return [
        Job(name="deadlines", do=sweep_deadlines, is_due=lambda found: found.has(*WITH_DEADLINES)),
        Job(name="scheduler", do=start_scheduled, is_due=lambda found: found.has("schedules")),
        Job(name="delivery", do=sender.dispatch, is_due=lambda found: found.has("notices"), close=sender.close),
        Job(
            name="webhooks",
            do=partial(feed_hooks, HighWaterMark()),
            is_due=lambda found: found.has("hooks") and found.has_events_after("fed"),
        ),
        Job(
            name="metrics",
            do=partial(count, HighWaterMark()),
            is_due=lambda found: found.has_events_after("counted"),
            every=COUNT_SECONDS,
        ),
        Job(name="held", do=held.release, is_due=lambda found: found.has("held"), every=HELD_SECONDS),
        Job(name="chat", do=chat.ChatFollower().look, is_due=lambda found: found.has("chat"), every=CHAT_SECONDS),
        Job(
            name="chat-socket",
            do=socket.keep,
            is_due=lambda _: bool(settings.WFDASH_SLACK_APP_TOKEN) and socket.client is None,
            every=SOCKET_SECONDS,
            close=socket.close,
        ),
        Job(name="tidy", do=tidy_requests, every=REQUEST_TIDY_SECONDS),
        Job(name="leftovers", do=Leftovers().remove_next, every=LEFTOVER_SECONDS, first=FIRST_TIDY),
        Job(name="retention", do=partial(remove_old_runs, RunRemover()), every=OLD_RUNS_SECONDS),
        Job(name="roll-ups", do=roll_up, every=ROLLUP_SECONDS),
        Job(name="decision-days", do=roll_up_decisions, every=ROLLUP_SECONDS),
        Job(name="tidy-metrics", do=tidy_metrics, every=METRICS_TIDY_SECONDS),
    ]


async def sweep_until(stopping: asyncio.Event, thread: DbThread) -> None:
    """Look, and do what is due, until stopped."""
    running, outage = [_JobThread(job, stopping) for job in all_jobs()], Outage("The database", LATE)
    try:
        while not stopping.is_set():
            pause = LOOK_SECONDS
            try:
                found = await thread.repeat(look_for_work)
                for one in running:
                    one.consider(found)
                pause = min(pause, found.seconds_to_next())
                outage.end("look")
            except Exception as error:
                outage.begin("look", error)
            await waited(stopping, pause)
    finally:
        await close_all(running)


class _JobThread:
    """A job, one at a time in a thread of its own."""

    def __init__(self, job: Job, stopping: asyncio.Event) -> None:
        self._job, self._stopping = job, stopping
        self._loop = asyncio.get_running_loop()
        self._not_before = self._loop.time() + job.first
        self._thread: DbThread | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._failing = FailingLoop(log, "Could not do what is due (%s); retrying", job.name)

    def consider(self, found: DueWork) -> None:
        """Begin the job if it is due."""
        if self._loop.time() >= self._not_before and self._job.is_due(found):
            self._begin()

    def _begin(self) -> None:
        # A pause may end after this was closed, without an order to stop: its worker was cancelled.
        if self._task is None and not self._closed and not self._stopping.is_set():
            self._thread = self._thread or DbThread(f"wfdash-{self._job.name}")
            self._task = asyncio.create_task(self._work(self._thread), name=self._job.name)

    async def _work(self, thread: DbThread) -> None:
        pause = 0.0
        try:
            while not pause and not self._stopping.is_set():
                pause = await thread.call(self._job.do)
            self._failing.works()
        except Exception as error:
            self._failing.failed(error)
            pause = math.inf
        finally:
            self._task = None
        self._not_before = self._loop.time() + self._job.every
        if pause < LOOK_SECONDS:
            self._loop.call_later(pause, self._begin)

    async def aclose(self) -> None:
        """End; what the thread does at this moment is waited for."""
        self._closed = True
        self._job.close()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait({task})
        if self._thread is not None:
            await self._thread.aclose()


async def close_all(running: Iterable[_JobThread]) -> None:
    """End these jobs."""
    await asyncio.gather(*(one.aclose() for one in running))


# -- what there is to do, found by one statement: a look each second that mostly finds nothing

_look = FirstValues(
    snoozed=Snooze.objects.order_by("until").values_list("until"),
    answers=clock.SETTLING.values_list("settles"),
    alarms=clock.ALARMS.values_list("alarm"),
    schedules=clock.SCHEDULES.values_list("next_at"),
    notices=outbox.UNSENT.order_by("due").values_list("due"),
    unannounced=announce.UNANNOUNCED.values_list("pk"),
    ending=lifecycle.ENDING.values_list("pk"),
    receivable=signals.RECEIVABLE.values_list("pk"),
    unlisted=search_index.UNLISTED.values_list("pk"),
    failures=search_index.FAILURES.values_list("pk"),
    bulks=bulk.UNFINISHED.values_list("pk"),
    compared=rules.UNCOMPARED.values_list("pk"),
    expiring=rules.EXPIRING.values_list("expires"),
    held=migrate.HELD.values_list("pk"),
    chat=chat.FOLLOWED.values_list("pk"),
    hooks=webhooks.ACTIVE.values_list("pk"),
    fed=TallyMark.objects.filter(pk=WEBHOOKS).values_list("event"),
    counted=TallyMark.objects.filter(pk=STATISTICS).values_list("event"),
    event=Event.objects.order_by("-pk").values_list("pk"),
)


@dataclass(frozen=True)
class DueWork:
    """What a look found: the first of each kind, and the database's time."""

    now: datetime
    first: Mapping[str, Any]

    def has(self, *kinds: str) -> bool:
        """Return whether there is something of these kinds, whose time has come if it has one."""
        found = (self.first.get(kind) for kind in kinds)
        return any(one <= self.now if isinstance(one, datetime) else one is not None for one in found)

    def has_events_after(self, mark: str) -> bool:
        """Return whether there are events after a mark, ``counted`` or ``fed``."""
        return int(self.first.get("event", 0)) > int(self.first.get(mark, 0))

    def seconds_to_next(self) -> float:
        """Return the seconds until the time of something comes, infinity if nothing has one."""
        moments = (one for one in self.first.values() if isinstance(one, datetime) and one > self.now)
        return min(((at - self.now).total_seconds() for at in moments), default=math.inf)


def look_for_work() -> DueWork:
    """Look what there is to do (one statement)."""
    return DueWork(*_look.read())


# -- deadlines of requests: answers take effect, deadlines pass, openings are announced, each at its moment. Where
# several workers do it, each row is done by one of them, once

DEADLINE_SECONDS = 1.0
"""So often there is a sweep, and sooner when something is known to come up sooner."""


WITH_DEADLINES = (
    "snoozed",
    "answers",
    "alarms",
    "unannounced",
    "ending",
    "receivable",
    "unlisted",
    "failures",
    "bulks",
    "compared",
    "expiring",
)
"""What it deals with, as ``DueWork`` names the kinds."""
REQUEST_TIDY_SECONDS = 60.0
DEADLINE_BATCH = 100
"""What one sweep does of each kind; with more to do the next one follows at once."""


def sweep_deadlines() -> float:
    """Do what is due now; returns the seconds until there is more to do, or to look for."""
    began = database_now()
    counts = [
        _process(work)
        for work in (
            finalize.finalize_due,
            deadlines.fire_alarms,
            wake_snoozed,
            rules.compare_samples,
            rules.answer_opened,
            announce.announce_opened,
            lifecycle.end_abandoned,
            signals.match_waiting,
            search_index.index_runs,
            search_index.index_failures,
            bulk.finish_bulks,
        )
    ]
    if max(counts) >= DEADLINE_BATCH:
        return 0.0
    # After ``began``: what was due then and is not done could not be done, but what has become due since can.
    moments, now = (finalize.next_finalization(began), deadlines.next_alarm(began)), database_now()
    return max(0.0, min([DEADLINE_SECONDS, *((at - now).total_seconds() for at in moments if at is not None)]))


def tidy_requests() -> float:
    """Remove rows that are not needed any more; check undecidable requests again, schedules that are late, and rules
    whose day has ended. Returns the seconds until it is to be called again.
    """
    _process(audit.log_head)
    _process(announce.recheck_stuck)
    _process(announce_late)
    _process(rules.compare_samples)
    lifecycle.forget_claims()
    return math.inf


def _process(work: Callable[[int], int]) -> int:
    """One kind of work that fails does not keep the others from being done."""
    try:
        return work(DEADLINE_BATCH)
    except Exception:
        log.exception("Could not process what is due (%s); retrying", work.__name__)
        return 0


# -- runs of schedules are started when their time has come; where several workers do it, each time starts one run

SCHEDULE_SECONDS = 1.0
"""So often it looks, and sooner when a time is known to come sooner."""


def start_scheduled() -> float:
    """Start what is due now; returns the seconds until there is more to start, or to look for."""
    soonest = schedules.next_firing()
    if soonest is None:
        return SCHEDULE_SECONDS
    wait = (soonest - database_now()).total_seconds()
    if wait > 0:
        return min(SCHEDULE_SECONDS, wait)
    return 0.0 if schedules.fire_schedules() else SCHEDULE_SECONDS


# -- the chat service: messages follow their requests, and what people do there comes by a connection from here

CHAT_SECONDS = 2.0
SOCKET_SECONDS = 5.0


class ChatSocket:
    """Keeps the connection of Socket Mode: the leader alone has one. It reconnects by itself once it is there."""

    client: Any = None

    def keep(self) -> float:
        """Connect; returns infinity, as there is no time at which it is to be called."""
        self.client = socket_client(chat.hear)
        try:
            self.client.connect()
        except Exception:
            self.close()
            raise
        return math.inf

    def close(self) -> None:
        """Close it."""
        if self.client is not None:
            self.client.close()
            self.client = None


# -- what happened to runs is written to the outbox of webhooks


def feed_hooks(mark: HighWaterMark) -> float:
    """Write what webhooks are sent of a batch of events; returns the seconds until it is to be called again."""
    return 0.0 if webhooks.feed_webhooks(mark) >= webhooks.EVENTS_AT_ONCE else math.inf


# -- what happened is counted, in small portions

COUNT_SECONDS = 3.0
"""How far figures are behind."""


COUNT_REST = 0.02
"""Seconds between two portions, so that workers get the database in between."""
METRICS_TIDY_SECONDS = 3600.0
ROLLUP_SECONDS = 300.0
"""How soon roll-ups are made again after code that is older has counted."""


def count(mark: HighWaterMark) -> float:
    """Count a portion of all runs' events; returns the seconds until it is to be called again."""
    return COUNT_REST if statistics.count_events(mark) >= statistics.EVENTS_AT_ONCE else math.inf


def roll_up() -> float:
    """Make roll-ups of an hour's figures where they lack some; returns the seconds until it is to be called again."""
    began = time.perf_counter()
    return rest_after(time.perf_counter() - began) if statistics.make_next(database_now()) else math.inf


def roll_up_decisions() -> float:
    """Add up a day's decisions where that was not done, or what was added up does not agree with them any more; returns
    the seconds until it is to be called again.
    """
    began = time.perf_counter()
    day = next_day_to_make(database_now())
    if day is None:
        return math.inf
    statistics.keep_day(
        day.since, day.until, day.data, count=day.count, reversed_by_now=day.reversed, groups=day.groups
    )
    return rest_after(time.perf_counter() - began)


def tidy_metrics() -> float:
    """Keep the figures small; returns the seconds until it is to be called again."""
    if saved := statistics.tidy(database_now()) + statistics.forget_decisions(database_now()):
        log.info("Put together or removed %d old figures", saved)
    return math.inf


# -- held runs whose code is here are released: another worker, with other code, may hold a run at any time

HELD_SECONDS = 5.0


class HeldRuns:
    """Looks again and again; at first also at runs that hooks may migrate, for this code is new here."""

    def __init__(self) -> None:
        self._after: str | None = ""

    def release(self) -> float:
        """Release those of one batch; returns the seconds until it is to be called again."""
        released = migrate.release_held()
        if self._after is not None:
            migrated, further = migrate.release_declared(self._after)
            released, self._after = released + migrated, further or None
        if released:
            log.info("Compatible code available, resuming runs: %s", ", ".join(released))
        return 0.0 if self._after else math.inf


# -- rows that are over are removed, each kind in small transactions: they belong to no run, or may go before theirs

LEFTOVER_SECONDS = 600.0


LEFTOVER_BATCH = 500
"""Rows removed in one transaction."""
LEFTOVER_REST = 0.05
"""Seconds between two full batches, for others to write."""
LEFTOVER_KINDS: Mapping[str, Callable[[int], int]] = {
    "old notifications": outbox.forget_old,
    "old deliveries of incoming webhooks": forget_deliveries,
    "idempotency keys": pacing.forget_keys,
    "expired sessions": forget_sessions,
    "expired sign-in links": forget_links,
    "used answer links": forget_used_links,
    "old bulk actions": forget_bulks,
    "questions to workers that no server waits for": forget_unread,
}
"""What is removed: at most so many, the oldest first; returns how many."""


class Leftovers:
    """Goes through all kinds, a batch per call."""

    def __init__(self) -> None:
        self._kinds: list[str] = []
        self._removed = 0

    def remove_next(self) -> float:
        """Remove a batch; returns the seconds until the next one, without end once nothing is left."""
        self._kinds = self._kinds or list(LEFTOVER_KINDS)
        if self._remove_some(self._kinds[0]):
            return LEFTOVER_REST
        self._kinds.pop(0)
        return 0.0 if self._kinds else math.inf

    def _remove_some(self, kind: str) -> bool:
        """Return whether there may be more of this kind. One that fails does not keep the others from being done."""
        try:
            count = LEFTOVER_KINDS[kind](LEFTOVER_BATCH)
        except Exception:
            log.exception("Could not remove %s; retrying in %d minutes", kind, LEFTOVER_SECONDS // 60)
            return False
        self._removed += count
        if count >= LEFTOVER_BATCH:
            return True
        if self._removed:
            log.info("Removed %d %s", self._removed, kind)
        self._removed = 0
        return False


# -- runs that ended long ago are removed

OLD_RUNS_SECONDS = 60.0
"""How often old runs are looked for once there were none."""


def remove_old_runs(remover: RunRemover) -> float:
    """Remove a batch of runs that ``WFDASH_KEEP_RUNS`` no longer keeps; returns the seconds until the next one, without
    end once nothing is left.
    """
    batch = remover.remove_next()
    return math.inf if batch.last else rest_after(batch.seconds)
