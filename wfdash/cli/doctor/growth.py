"""How large the tables are, and whether the database keeps up with what is deleted and changed."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Min

from checkpoints.database.alias import connection
from checkpoints.models import Run
from wfdash.cli.doctor.findings import Examine, Findings, advice, ok, problem
from wfdash.queries.runs.retention import removal_stalled
from wfdash.retention.keeping import current_rules

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


EXAMINATIONS: tuple[Examine, ...] = (tables, vacuum, sqlite_file, kept_runs, archive)


def _pragma(cursor: object, name: str) -> int:
    cursor.execute(f"PRAGMA {name}")  # type: ignore[attr-defined]
    return int(cursor.fetchone()[0])  # type: ignore[attr-defined]


def _size(size: int) -> str:
    return f"{size / MEGABYTE:,.0f} MB" if size >= MEGABYTE else f"{size / 1024:,.0f} KB"
