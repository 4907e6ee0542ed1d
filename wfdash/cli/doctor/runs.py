"""What is at work: workers, runs that no worker takes, what is late, what waits to be sent, signals that arrive."""

from __future__ import annotations

import time
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Min

from checkpoints.database.alias import connection
from checkpoints.database.clock import database_now
from checkpoints.database.installation_key import content_flaws
from checkpoints.database.living_workers import HEARTBEAT_TIMEOUT
from checkpoints.ids import new_token
from checkpoints.models import Claim, Notice
from wfdash.cli.doctor.findings import Examine, Findings, advice, ok, problem
from wfdash.pubsub.bus import Wake
from wfdash.pubsub.process import choose_bus
from wfdash.queries.statistics.gauges import count_unserved, lateness
from wfdash.queries.workers import workers
from wfdash.web.pages.site.health import CAUSES, LATE_SECONDS

SAMPLE = 20
"""Rows of each kind whose content is read, at either end."""
STUCK = timedelta(seconds=60)
"""An expired claim is found within a second or two."""
WAITING = timedelta(minutes=5)
DAY = timedelta(days=1)
PATIENCE_SECONDS = 3.0


def living_workers() -> Findings:
    """Say which workers live."""
    now = database_now()
    found = workers(now)
    if settings.WFDASH_HOLD:
        yield advice(
            "workers",
            f"WFDASH_HOLD is 1, and {len(found)} workers live",
            why="This process runs no workflow and sends nothing.",
            remedy="Remove WFDASH_HOLD when runs are to continue.",
        )
    elif not found:
        yield problem(
            "workers",
            f"none has said within {HEARTBEAT_TIMEOUT.seconds} s that it lives",
            why="No run is executed, no deadline passes, nothing is sent.",
            remedy="Start wfdash worker, or wfdash up.",
        )
    else:
        shown = ", ".join(f"{one.name} ({one.runs} runs)" for one in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        yield ok("workers", f"{len(found)}: {shown}{more}")
        for one in found:
            if one.late > LATE_SECONDS:
                yield advice(
                    "workers",
                    f"{one.name} reports that something was {one.late:.0f} s late",
                    why="Deadlines, schedules or sleeping runs wait longer than they should.",
                    remedy="Start another worker, or see what this one's log says.",
                )


def served_runs() -> Findings:
    """Find runs whose workflow no worker has. Nothing where no worker lives, which is a finding of its own."""
    if not workers(database_now()):
        return
    unserved = count_unserved()
    for workflow, count in sorted(unserved.items()):
        yield problem(
            "unserved",
            f"{count} run{'s wait' if count != 1 else ' waits'} for a worker: none has the workflow {workflow}",
            why="They wait until one has.",
            remedy=f"Start a worker that loads {workflow} (WFDASH_WORKFLOWS, --workflows).",
        )
    if not unserved:
        yield ok("unserved", "every run that is due is some worker's")


def claims() -> Findings:
    """Find claims that have expired long ago and that no worker has taken over."""
    stuck = Claim.objects.filter(expires__lt=database_now() - STUCK, run__phase="ready")
    found = stuck.aggregate(count=Count("pk"), first=Min("expires"))
    if found["count"]:
        yield problem(
            "claims",
            f"{found['count']} runs belong to workers that are gone, the first since {found['first']:%Y-%m-%d %H:%M}",
            why="A living worker takes over within seconds: none can, or none looks.",
            remedy="See that a worker has their workflows; their pages say more.",
        )
    else:
        yield ok("claims", f"{Claim.objects.count()} runs are being executed")


def timers() -> Findings:
    """Find what was due at a time and has not happened."""
    late = {name: seconds for name, seconds in lateness(database_now()).items() if seconds > LATE_SECONDS}
    for name, seconds in late.items():
        yield problem(
            "timers",
            f"{CAUSES[name]} is {timedelta(seconds=round(seconds))} late",
            why="No worker looks, or it fails each time.",
            remedy="Start a worker, or look in its log for what it says each second.",
        )
    if not late:
        yield ok("timers", "nothing is overdue")


def outbox() -> Findings:
    """Find notifications and webhooks that wait, and those that were given up."""
    now = database_now()
    unsent = Notice.objects.filter(sent__isnull=True, given_up__isnull=True, due__lt=now - WAITING).exclude(
        channel="browser"
    )
    if waiting := unsent.count():
        yield problem(
            "outbox",
            f"{waiting} notifications wait for more than 5 minutes",
            why="People do not hear of what is asked of them.",
            remedy="Start a worker; else its log says why none is sent.",
        )
    given_up = Notice.objects.filter(given_up__gt=now - DAY).exclude(error="").values_list("channel")
    for channel, count in given_up.annotate(Count("pk")).order_by("channel"):
        yield advice(
            "outbox",
            f"{count} by {channel} were given up within a day",
            why="After several attempts, or because their receiver is gone.",
            remedy="Settings, Notifications and Webhooks show each with its error.",
        )
    if not waiting:
        yield ok("outbox", "nothing waits for long")


def signals() -> Findings:
    """Send one over the bus and wait for it, as processes do for each other."""
    bus = choose_bus()
    if bus is None:
        one = connection().vendor == "sqlite"
        yield ok("signals", "one process needs none" if one else "off: processes look each second")
        return
    text, wake = f"doctor-{new_token()}", Wake()
    listener, sender = bus.open_listener(), bus.open_sender()
    try:
        began = time.monotonic()
        sender.send([text])
        while (passed := time.monotonic() - began) < PATIENCE_SECONDS:
            if text in listener.receive(wake, PATIENCE_SECONDS - passed):
                yield ok("signals", f"one sent by {bus.name} arrived after {(time.monotonic() - began) * 1000:.0f} ms")
                return
    finally:
        sender.close()
        listener.close()
        wake.close()
    yield problem(
        "signals",
        f"what is sent by {bus.name} does not arrive",
        why="Answers reach workers, and changes reach pages, only by looking each second.",
        remedy=bus.remedy,
    )


def hints() -> Findings:
    """Say how many jobs of Procrastinate wait."""
    if settings.WFDASH_HINTS != "procrastinate":
        return
    with connection().cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'wfdash.drive' AND status = 'todo'")
        (count,) = cursor.fetchone()
    yield ok("hints", f"{count:,} jobs of Procrastinate wait")


def readable_content() -> Findings:
    """Read the oldest and the newest content with the keys that there are."""
    if flaws := content_flaws(SAMPLE):
        yield problem(
            "keys",
            f"content cannot be read: {len(flaws)} flaws among the oldest and the newest rows",
            why=flaws[0],
            remedy="Set WFDASH_ENCRYPTION_KEYS as the other processes have it.",
        )
    else:
        yield ok("keys", "the oldest and the newest audit entries, requests and runs can be read")


def work() -> Findings:
    """Find what stands still, unless that is wanted."""
    yield from living_workers()
    if not settings.WFDASH_HOLD:
        for examine in (served_runs, claims, timers, outbox):
            yield from examine()


EXAMINATIONS: tuple[Examine, ...] = (work, signals, hints, readable_content)
