"""The database: whether it answers, fits this code and this key, and has connections for all processes."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils import timezone

from checkpoints.database.alias import alias, connection
from checkpoints.database.clock import database_now
from checkpoints.database.direct import direct_connection, is_pooled
from checkpoints.database.installation_key import REFUSAL, matches
from checkpoints.database.schema import missing_migrations
from checkpoints.models.operations import Installation
from wfdash.cli.doctor.findings import Examine, Findings, advice, ok, problem
from wfdash.installation.environment import is_loopback

SLOW_SECONDS = 0.02
"""For the smallest question: a step commits once or twice."""
OFF_SECONDS = 2.0
MOST_OFF_SECONDS = 30.0
NEEDS = {"worker": 24, "web": 28, "up": 46}
"""What a process may open at most, by its role (docs/operating.md, PostgreSQL)."""
LEADING = 14
"""What the one of them that leads may open more."""
SPARE = 8
"""For migrations, psql and this command."""
FULL = 0.8
ROOM = "Raise max_connections{}, or put a pooler in between (docs/operating.md, PostgreSQL)."
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


WITHOUT_TABLES: tuple[Examine, ...] = (pooler, encryption, clock, connection_room)
EXAMINATIONS: tuple[Examine, ...] = (secret_key,)


def _on_postgres() -> bool:
    return connections[alias()].vendor == "postgresql"


def _time() -> float:
    began = time.perf_counter()
    with connection().cursor() as cursor:
        cursor.execute("SELECT 1")
    return time.perf_counter() - began
