"""The database, and what is at work in it.

Whether it answers, fits this code and this key, and has connections for all processes; workers, runs that no worker
takes, what is late, what waits to be sent, and signals that arrive.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Count, Min
from django.utils import timezone

from checkpoints.database.alias import alias, connection
from checkpoints.database.clock import database_now
from checkpoints.database.direct import direct_connection, is_pooled
from checkpoints.database.installation_key import REFUSAL, content_flaws, matches
from checkpoints.database.living_workers import HEARTBEAT_TIMEOUT, living
from checkpoints.database.schema import missing_migrations
from checkpoints.ids import new_token
from checkpoints.models import Claim, Notice, Run
from checkpoints.models.operations import Installation
from wfdash.cli.doctor import Examine, Findings, advice, ok, problem
from wfdash.installation.environment import is_loopback
from wfdash.pubsub.bus import Wake
from wfdash.pubsub.process import choose_bus
from wfdash.queries.runs.retention import current_rules, removal_stalled
from wfdash.queries.statistics.gauges import count_unserved, lateness
from wfdash.queries.workers import workers
from wfdash.web.pages.site.health import CAUSES, LATE_SECONDS

SLOW_SECONDS = 0.02
"""For the smallest question: a step commits once or twice."""
OFF_SECONDS = 2.0
MOST_OFF_SECONDS = 30.0
NEEDS = {"worker": 24, "web": 28, "up": 46}
"""What a process may open at most, by its role (docs/processes.md, PostgreSQL)."""
LEADING = 14
"""What the one of them that leads may open more."""
SPARE = 8
"""For migrations, psql and this command."""
FULL = 0.8
ROOM = "Raise max_connections{}, or put a pooler in between (docs/processes.md, PostgreSQL)."
VERIFYING = {"verify-ca", "verify-full"}


def reach() -> Findings:
    """Ask the smallest question."""
    current = connection()
    try:
        current.ensure_connection()
    except Exception as error:
        yield problem(
            "database",
            f"no connection: {str(error).strip().partition(chr(10))[0]}",
            why="Nothing works without it: pages answer 503 and runs wait.",
            remedy="Start it, or correct WFDASH_DATABASE.",
        )
        return
    seconds = min(_time() for _ in range(5))
    name = f"{current.display_name} {'.'.join(map(str, current.get_database_version()))}"
    if seconds > SLOW_SECONDS:
        yield advice(
            "database",
            f"{name} answers in {seconds * 1000:.1f} ms",
            why="Each step waits for it once or twice, and a page a few times.",
            remedy="Run servers and workers near the database.",
        )
    else:
        yield ok("database", f"{name} answers in {seconds * 1000:.1f} ms")


def migrations() -> Findings:
    """Compare the schema with the code."""
    if missing := missing_migrations():
        yield problem(
            "migrations",
            f"not applied: {', '.join(missing)}",
            why="Processes of this version wait for them.",
            remedy="wfdash migrate",
        )
    else:
        yield ok("migrations", "all applied")


def secret_key() -> Findings:
    """Compare the secret key with that of the other processes on this PostgreSQL."""
    row = Installation.objects.filter(pk=1).first() if _on_postgres() else None
    if row is None:
        return
    if matches(row.key, settings.SECRET_KEY):
        yield ok("keys", "the secret key is that of this database's servers and workers")
    else:
        why, _, remedy = REFUSAL.partition(": set ")
        yield problem("keys", "the secret key is another than this database's", why=why, remedy=f"Set {remedy}")


def pooler() -> Findings:
    """See whether a pooler is in between, and whether what needs the server itself reaches it."""
    if not _on_postgres():
        return
    pooled = is_pooled(connection())
    if pooled and not settings.WFDASH_DATABASE_DIRECT:
        yield problem(
            "pooler",
            "WFDASH_DATABASE leads through a pooler, and WFDASH_DATABASE_DIRECT is not set",
            why="Signals between processes and migrations need a connection of their own.",
            remedy="Set WFDASH_DATABASE_DIRECT to the PostgreSQL server's own address.",
        )
        return
    if settings.WFDASH_DATABASE_DIRECT:
        with direct_connection() as own:
            if is_pooled(own):
                yield problem(
                    "pooler",
                    "WFDASH_DATABASE_DIRECT leads through a pooler too",
                    why="Signals between processes and migrations need a connection of their own.",
                    remedy="Set it to the PostgreSQL server's own address.",
                )
                return
    yield ok("pooler", "a pooler, and the server's own address" if pooled else "none in between")


def encryption() -> Findings:
    """See whether what goes over a network is encrypted, and whether the server proves who it is."""
    if not _on_postgres():
        return
    raw: Any = connection().connection
    info = raw.info
    if not info.host or info.host.startswith("/") or is_loopback(info.host):
        yield ok("TLS", "the database is on this machine")
    elif not raw.pgconn.ssl_in_use:
        yield problem(
            "TLS",
            f"the connection to {info.host} is not encrypted",
            why="Content, and the password where it is sent, can be read on the way.",
            remedy="Add ?sslmode=verify-full&sslrootcert=/path/of/ca.pem to WFDASH_DATABASE.",
        )
    elif info.get_parameters().get("sslmode", "prefer") not in VERIFYING:
        yield advice(
            "TLS",
            f"the connection to {info.host} is encrypted, and the server is not verified",
            why="Who can pose as the server reads everything.",
            remedy="Add ?sslmode=verify-full&sslrootcert=/path/of/ca.pem to WFDASH_DATABASE.",
        )
    else:
        yield ok("TLS", f"encrypted, and {info.host} is verified")


def clock() -> Findings:
    """Compare this machine's clock with the database's, by which everything is due."""
    if not _on_postgres():
        return
    before = timezone.now()
    theirs = database_now()
    off = (theirs - before - (timezone.now() - before) / 2).total_seconds()
    if abs(off) < OFF_SECONDS:
        yield ok("clock", f"{off:+.1f} s from the database's")
        return
    yield (problem if abs(off) > MOST_OFF_SECONDS else advice)(
        "clock",
        f"this machine is {abs(off):.0f} s {'behind' if off > 0 else 'ahead of'} the database",
        why="Runs, claims and deadlines follow the database's; sessions, links and codes of authenticators this one.",
        remedy="Let NTP set the clock (timedatectl set-ntp true).",
    )


def connection_room() -> Findings:
    """Compare the connections that all processes may open with those that the server allows."""
    if not _on_postgres():
        return
    with connection().cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int"
        )
        allowed, reserved = cursor.fetchone()
        cursor.execute("SELECT application_name FROM pg_stat_activity WHERE backend_type = 'client backend'")
        names = [str(name).split() for (name,) in cursor.fetchall()]
    ours = [(words[-1], words[1]) for words in names if len(words) > 2 and words[0] == "wfdash" and words[1] in NEEDS]
    roles = Counter(role for _, role in set(ours))
    need, others, most = connections_needed(roles), len(names) - len(ours), allowed - reserved
    who = ", ".join(f"{count} {role}" for role, count in sorted(roles.items())) or "no process of wfdash"
    text = f"{len(names)} of {most} connections are open; {who} may open {need}"
    if len(names) > most * FULL:
        why = "The next process, or a busy one, is refused."
        yield problem("connections", text, why=why, remedy=ROOM.format(""))
    elif need + others > most:
        why = "If all are busy at once some are refused and try again."
        enough = math.ceil((need + max(others, SPARE) + reserved) / 10) * 10
        yield advice("connections", text, why=why, remedy=ROOM.format(f" to {enough}"))
    else:
        yield ok("connections", text)


def connections_needed(roles: Mapping[str, int]) -> int:
    """Return how many connections so many processes of each role may open together: one of them leads."""
    leads = any(count for role, count in roles.items() if role != "web")
    return sum(NEEDS[role] * count for role, count in roles.items()) + LEADING * leads


def _on_postgres() -> bool:
    return connections[alias()].vendor == "postgresql"


def _time() -> float:
    began = time.perf_counter()
    with connection().cursor() as cursor:
        cursor.execute("SELECT 1")
    return time.perf_counter() - began


# How large the tables are, and whether the database keeps up with what is deleted and changed.

MEGABYTE = 1024**2
MANY_RUNS = 100_000
MANY_ROWS = 10_000
LARGEST = 4
LONG = timedelta(minutes=10)
TABLES = """
    SELECT relname, n_live_tup, n_dead_tup, pg_total_relation_size(relid),
           coalesce(greatest(last_autovacuum, last_vacuum)::timestamp(0)::text, 'never')
    FROM pg_stat_user_tables WHERE relname LIKE 'checkpoints\\_%' AND schemaname = ANY(current_schemas(false))
    ORDER BY 4 DESC
"""
OLDEST = """
    SELECT application_name, now() - xact_start FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL AND backend_type = 'client backend'
    ORDER BY xact_start LIMIT 1
"""


def tables() -> Findings:
    """Say how large the largest tables are, and which of them are not vacuumed."""
    if connection().vendor != "postgresql":
        return
    with connection().cursor() as cursor:
        cursor.execute(TABLES)
        rows = cursor.fetchall()
    total = sum(size for *_, size, _ in rows)
    largest = [(name.removeprefix("checkpoints_"), live, _size(size)) for name, live, _, size, _ in rows[:LARGEST]]
    shown = ", ".join(f"{name} {live:,} rows {size}" for name, live, size in largest)
    yield ok("tables", f"{_size(total)} in all: {shown}")
    for name, live, dead, _, vacuumed in rows:
        if dead > max(MANY_ROWS, live / 2):
            yield advice(
                "tables",
                f"{name} has {dead:,} dead rows beside {live:,}; vacuumed last: {vacuumed}",
                why="Queries read past them, and the table grows on the disk.",
                remedy=f"See that autovacuum is on and nothing holds it up; VACUUM (ANALYZE) {name} helps at once.",
            )


def vacuum() -> Findings:
    """See whether old row versions can be removed at all."""
    if connection().vendor != "postgresql":
        return
    with connection().cursor() as cursor:
        cursor.execute("SELECT current_setting('autovacuum')")
        (autovacuum,) = cursor.fetchone()
        cursor.execute(OLDEST)
        oldest = cursor.fetchone()
    if autovacuum != "on":
        yield problem(
            "vacuum",
            "autovacuum is off",
            why="Tables that change grow without end, and plans rest on old figures.",
            remedy="ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();",
        )
    elif oldest and oldest[1] > LONG:
        yield advice(
            "vacuum",
            f"a transaction of {oldest[0] or 'an unnamed client'} has been open for {str(oldest[1]).partition('.')[0]}",
            why="While it is open no row version since its begin can be removed.",
            remedy="Find it in pg_stat_activity by xact_start, and end it (pg_terminate_backend).",
        )
    else:
        yield ok("vacuum", "autovacuum is on, no transaction is old")


def sqlite_file() -> Findings:
    """Say how large the file, its log and its free pages are."""
    if connection().vendor != "sqlite":
        return
    with connection().cursor() as cursor:
        pages, free, size = (_pragma(cursor, name) for name in ("page_count", "freelist_count", "page_size"))
    path = Path(str(connection().settings_dict["NAME"]))
    log = path.with_name(f"{path.name}-wal")
    written = log.stat().st_size if log.exists() else 0
    sizes = f"{_size(pages * size)}, of which {_size(free * size)} are free"
    yield ok("tables", f"{sizes}; the log beside it {_size(written)}")
    if free > pages / 2 and free * size > 100 * MEGABYTE:
        yield advice(
            "tables",
            f"{_size(free * size)} of the file are free pages",
            why="They are used again for new rows, and not given back to the disk.",
            remedy="Stop the server and run: sqlite3 wfdash.sqlite3 VACUUM (it needs as much room as the file has).",
        )
    if written > 512 * MEGABYTE:
        yield advice(
            "tables",
            f"the log beside the file has {_size(written)}",
            why="A reader holds it: it can be cut only when no one reads an old state.",
            remedy="End other programs that have the file open (fuser wfdash.sqlite3).",
        )


def kept_runs() -> Findings:
    """Say how many runs there are, since when, and for how long they are kept."""
    count, first = Run.objects.count(), Run.objects.aggregate(first=Min("created"))["first"]
    rules = current_rules()
    text = f"{count:,} runs" + (f", the oldest of {first:%Y-%m-%d}" if first else "")
    if count > MANY_RUNS and not rules:
        yield advice(
            "retention",
            f"{text}; none is ever removed",
            why="The database grows without end.",
            remedy="Set WFDASH_KEEP_RUNS to the days for which ended runs are kept.",
        )
    elif removal_stalled():
        yield advice(
            "retention",
            f"{text}; some could have gone an hour ago, and in the last hour none was removed",
            why="Workers remove old runs by their own settings; the database grows.",
            remedy="Give workers the WFDASH_KEEP_RUNS and WFDASH_ARCHIVE of this environment, and read their logs.",
        )
    else:
        yield ok("retention", f"{text}; ended ones are kept: {rules}")


def archive() -> Findings:
    """See whether old runs can be archived, without which none is removed."""
    if not settings.WFDASH_ARCHIVE or not current_rules():
        return
    folder = Path(settings.WFDASH_ARCHIVE)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield problem(
            "archive",
            f"{folder} is not there, or this user cannot write to it",
            why="No old run is removed as long as it cannot be archived.",
            remedy="Mount or make the folder, for the user that workers run as.",
        )
    elif folder.stat().st_mode & stat.S_IWOTH:
        yield problem(
            "archive",
            f"every user of this machine can write to {folder}",
            why="Who makes the file of a day before wfdash does owns it, and reads the runs in it.",
            remedy=f"chmod o-w {folder}",
        )
    else:
        yield ok("archive", f"old runs are written to {folder}")


WITHOUT_TABLES: tuple[Examine, ...] = (pooler, encryption, clock, connection_room)


def _pragma(cursor: object, name: str) -> int:
    cursor.execute(f"PRAGMA {name}")  # type: ignore[attr-defined]
    return int(cursor.fetchone()[0])  # type: ignore[attr-defined]


def _size(size: int) -> str:
    return f"{size / MEGABYTE:,.0f} MB" if size >= MEGABYTE else f"{size / 1024:,.0f} KB"


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


def deploy() -> Findings:
    """Say which versions of workflows have open runs and who serves them, and which workers of an old one may go.

    A version is old where the worker that started last and has the workflow has another one of it.
    """
    rows = [(one.pk, one.serves or {}) for one in living(database_now()).order_by("started")]
    current = {name: version for _, serves in rows for name, version in serves.items()}
    open_runs = Run.objects.filter(finished__isnull=True).exclude(version="").order_by("workflow", "version")
    counted = open_runs.values_list("workflow", "version").annotate(runs=Count("*"))
    counts = {(name, version): runs for name, version, runs in counted}
    for (name, version), count in counts.items():
        by = [worker for worker, serves in rows if serves.get(name) == version]
        text = f"{name} {version[:8]}, open runs: {count}"
        if by:
            yield ok("versions", f"{text}, served by {', '.join(by)}")
        else:
            yield problem(
                "versions",
                f"{text}, and no running worker has this version",
                why="They wait for one, or are held where a worker has another version.",
                remedy="Start a worker of that release, or migrate its runs (docs/versions.md).",
            )
    for worker, serves in rows:
        old = {pair for pair in serves.items() if current[pair[0]] != pair[1]}
        others = {pair for other, theirs in rows if other != worker for pair in theirs.items()}
        if needed := [f"{counts[pair]} of {pair[0]} {pair[1][:8]}" for pair in sorted(old & counts.keys() - others)]:
            yield problem(
                "workers",
                f"{worker} must stay: open runs {', '.join(needed)}",
                why="No other worker has their version.",
                remedy="Let it run until they have ended, or migrate them (docs/versions.md).",
            )
        else:
            found = "may go: no open run needs its old versions" if old else "has current versions"
            yield ok("workers", f"{worker} {found}")


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


EXAMINATIONS: tuple[Examine, ...] = (
    secret_key,
    tables,
    vacuum,
    sqlite_file,
    kept_runs,
    archive,
    work,
    signals,
    hints,
    readable_content,
)
