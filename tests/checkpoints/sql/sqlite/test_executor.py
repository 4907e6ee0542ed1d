"""A file has one writer at a time, and the columns that its records need."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from django.apps import apps
from django.db import connections, transaction

from checkpoints import models
from checkpoints.database.storage import DatabaseStorage, write
from checkpoints.errors import StorageFailed
from checkpoints.events import EventKind
from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from checkpoints.records import CheckpointInfo, Commit
from checkpoints.sql import sqlite, tables
from checkpoints.sql.sqlite import QUICK, FairLock, InlineWriter, QueuedScript, SqliteWriter, WriteLatency, connect
from checkpoints.sql.sqlite_schema import UPGRADES, VERSION, create_tables, run_all
from tests.conformance.worlds import checkpoint, started


@pytest_asyncio.fixture
async def storage(sqlite_alias: str) -> AsyncIterator[DatabaseStorage]:
    storage = DatabaseStorage(sqlite_alias)
    yield storage
    await storage.aclose()


def test_the_gate_lets_in_one_at_a_time_in_order() -> None:
    lock, order, inside = FairLock(), [], []
    ready = [threading.Event() for _ in range(8)]

    def enter(place: int) -> None:
        ready[place].set()
        with lock:
            inside.append(place)
            assert inside == [place]
            order.append(place)
            inside.clear()

    lock.acquire()
    threads = [threading.Thread(target=enter, args=(place,)) for place in range(8)]
    for place, thread in enumerate(threads):
        thread.start()
        ready[place].wait()
        while len(lock._waiting) <= place:
            pass
    lock.release()
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_the_gate_may_be_entered_again_by_its_holder() -> None:
    lock = FairLock()
    with lock, lock:
        assert lock._depth == 2
    assert lock._owner is None


async def test_verbs_of_the_orm_never_find_the_database_locked(storage: DatabaseStorage, sqlite_alias: str) -> None:
    runs = [new_run_id() for _ in range(8)]
    for run in runs:
        await storage.commit(started(run))

    def verb(run: str) -> None:
        try:
            for _ in range(25):
                with write(sqlite_alias), write(sqlite_alias):
                    row = models.Run.objects.using(sqlite_alias).get(id=run)
                    models.Run.objects.using(sqlite_alias).filter(id=run).update(title=row.title + "x")
        finally:
            connections[sqlite_alias].close()

    async def drive(run: Any) -> None:
        for n in range(1, 60):
            await storage.commit(Commit(run=run, checkpoint=checkpoint(run, n), events=(EventKind.CUSTOM.draft(),)))

    people = [asyncio.to_thread(verb, run) for run in runs]
    await asyncio.gather(*people, *(drive(run) for run in runs))
    assert await asyncio.to_thread(titles, sqlite_alias, runs) == {"x" * 25}


async def test_writes_outside_of_a_verb_wait_their_turn_too(storage: DatabaseStorage, sqlite_alias: str) -> None:
    runs = [new_run_id() for _ in range(4)]
    for run in runs:
        await storage.commit(started(run))
    busy = asyncio.gather(*(keep_committing(storage, new_run_id()) for _ in range(20)))
    done = await asyncio.gather(*(asyncio.to_thread(rename, sqlite_alias, run) for run in runs))
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    assert done == [40] * 4


async def keep_committing(storage: DatabaseStorage, run: Any) -> None:
    n = 0
    while True:
        n += 1
        await storage.commit(Commit(run=run, checkpoint=checkpoint(run, n)))


def rename(alias: str, run: str) -> int:
    """Write 40 times, each in a transaction of its own or none, and return how many rows that changed."""
    rows = models.Run.objects.using(alias).filter(id=run)
    try:
        changed = sum(rows.update(title=str(i)) for i in range(20))
        for i in range(20):
            with transaction.atomic(alias):
                changed += rows.update(title=str(i))
        return changed
    finally:
        connections[alias].close()


def titles(alias: str, runs: list[Any]) -> set[str]:
    try:
        return set(models.Run.objects.using(alias).filter(id__in=runs).values_list("title", flat=True))
    finally:
        connections[alias].close()


async def test_one_storage_serves_several_loops(storage: DatabaseStorage) -> None:
    async def work() -> int:
        run = new_run_id()
        await storage.save(checkpoint(run))
        return len(await storage.list_checkpoint_ids(run))

    others = [asyncio.to_thread(lambda: asyncio.run(work())) for _ in range(3)]
    assert await asyncio.gather(work(), *others) == [1, 1, 1, 1]


async def test_closing_ends_the_threads_and_use_opens_them_again(storage: DatabaseStorage) -> None:
    run, of_others = new_run_id(), writers()
    for _ in range(2):
        await storage.commit(started(run))
        assert len(writers() - of_others) == 1
        await storage.aclose()
        assert not writers() - of_others
    assert len(await storage.read_events(run)) == 2


async def test_a_database_that_cannot_be_opened_fails_each_call(tmp_path: Any) -> None:
    writer = SqliteWriter(str(tmp_path / "nowhere" / "runs.sqlite3"))
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError):
            await writer.submit(QueuedScript(select_one))
    writer.close()
    with pytest.raises(RuntimeError, match="closed"):
        writer.submit(QueuedScript(select_one))


async def test_a_file_that_could_not_be_written_when_it_was_opened_is_opened_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path, latency = str(tmp_path / "runs.sqlite3"), WriteLatency()
    connect(path).close()
    kept = {"isolation_level": None, "check_same_thread": False}
    first = [sqlite3.connect(f"file:{path}?mode=ro", uri=True, **kept) for _ in range(2)]
    monkeypatch.setattr(sqlite, "connect", lambda *given, **more: first.pop() if first else connect(*given, **more))
    writer, inline = SqliteWriter(path), InlineWriter(path, FairLock(), latency)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await writer.submit(QueuedScript(create_and_fail))
    assert inline.write(hurried(latency, job := QueuedScript(create_and_fail)))
    assert "readonly" in str(job.error)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await writer.submit(QueuedScript(create_and_fail))
    assert inline.write(hurried(latency, job))
    assert "readonly" not in str(job.error)
    writer.close()
    inline.close()


def writers() -> set[threading.Thread]:
    """Return the writers' threads of this process: storages that no test closed have theirs still."""
    return {thread for thread in threading.enumerate() if thread.name == "checkpoints-writer"}


def select_one() -> Any:
    yield [("SELECT 1", ())]


def hurried(latency: WriteLatency, job: QueuedScript) -> QueuedScript:
    """Let the job's task have written alone and quickly recently."""
    for _ in range(20):
        latency.record([job], 0.0)
    return job


async def test_who_writes_alone_on_a_quick_disk_needs_no_other_thread(storage: DatabaseStorage) -> None:
    await storage.commit(started(new_run_id()))
    database: Any = storage._database
    hurried(database._writer.latency, QueuedScript(name_thread))
    assert await database.write(name_thread) == threading.get_ident()
    assert await asyncio.create_task(database.write(name_thread)) != threading.get_ident()


async def test_a_run_that_commits_alone_needs_no_other_thread_whichever_task_commits(storage: DatabaseStorage) -> None:
    run = new_run_id()
    await storage.commit(started(run))
    database: Any = storage._database
    here = threading.get_ident()
    for _ in range(2):
        hurried(database._writer.latency, QueuedScript(name_thread, writer=run))
        assert await asyncio.create_task(database.write(name_thread, writer=run)) == here
    assert await database.write(name_thread, writer=new_run_id()) != here


def name_thread() -> Any:
    """Return a script that says which thread runs it."""
    yield [("SELECT 1", ())]
    return threading.get_ident()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_slow_disk_or_company_ends_the_haste(jobs: int) -> None:
    async def judge() -> bool:
        latency, job = WriteLatency(), QueuedScript(select_one)
        hurried(latency, job)
        assert latency.allows_inline(job)
        latency.record([job] * jobs, 8 * QUICK if jobs == 1 else 0.0)
        return latency.allows_inline(job)

    assert not asyncio.run(judge())


async def test_haste_never_waits_for_another_writer(tmp_path: Path) -> None:
    path, lock, latency = str(tmp_path / "runs.sqlite3"), FairLock(), WriteLatency()
    inline, job = InlineWriter(path, lock, latency), QueuedScript(select_one)
    assert inline.write(hurried(latency, job))
    with lock:
        assert not inline.write(hurried(latency, job))
    other = connect(path)
    other.execute("BEGIN IMMEDIATE")
    assert not inline.write(hurried(latency, job))
    other.execute("ROLLBACK")
    assert inline.write(hurried(latency, job))
    other.close()
    inline.close()
    assert not inline.write(hurried(latency, job))


async def test_haste_leaves_nothing_of_what_fails_behind(tmp_path: Path) -> None:
    path, latency = str(tmp_path / "runs.sqlite3"), WriteLatency()
    inline, job = InlineWriter(path, FairLock(), latency), QueuedScript(create_and_fail)
    assert inline.write(hurried(latency, job))
    assert isinstance(job.error, sqlite3.OperationalError)
    reader = connect(path)
    assert reader.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    reader.close()
    inline.close()


def create_and_fail() -> Any:
    """Return a script whose second statement fails."""
    yield [("CREATE TABLE some (id)", ()), ("SELECT * FROM none", ())]


async def test_a_loop_of_writes_lets_other_tasks_run(storage: DatabaseStorage) -> None:
    await storage.commit(started(new_run_id()))
    database: Any = storage._database
    turns: list[None] = []
    other = asyncio.create_task(take_turns(turns))
    writes = 0
    while len(turns) < 5 and writes < 100_000:
        hurried(database._writer.latency, QueuedScript(name_thread))
        await database.write(name_thread)
        writes += 1
    other.cancel()
    assert len(turns) == 5


async def take_turns(turns: list[None]) -> None:
    """Note each turn of the event loop until cancelled."""
    while True:
        turns.append(None)
        await asyncio.sleep(0)


async def test_a_full_disk_fails_the_commit_whole_and_passes(storage: DatabaseStorage, sqlite_alias: str) -> None:
    run = new_run_id()
    await storage.commit(started(run))
    await limit_pages(storage, "(SELECT * FROM pragma_page_count)")
    # What other tests left free in the file is room, too.
    free_bytes = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
    free = await storage._write(lambda scripts: ask(free_bytes))
    large = {"state": {"text": "".join(str(new_run_id()) for _ in range(20_000 + free // 36))}}
    with pytest.raises(StorageFailed, match="full"):
        await storage.commit(
            Commit(run=run, checkpoint=checkpoint(run, body=large), events=(EventKind.CUSTOM.draft(),))
        )
    assert len(await storage.read_events(run)) == 1
    assert await storage.get_latest(run) is None
    await limit_pages(storage, "1073741823")
    assert await storage.commit(Commit(run=run, checkpoint=checkpoint(run, body=large))) == 1


def ask(sql: str) -> Any:
    """Script: return the one value a query finds."""
    (rows,) = yield [(sql, ())]
    return rows[0][0]


async def limit_pages(storage: DatabaseStorage, pages: str) -> None:
    """Limit the database's size through the writer's own connection."""

    count = "SELECT * FROM pragma_page_count"
    limit = await storage._write(lambda scripts: ask(count)) if pages.startswith("(") else int(pages)

    def set_limit() -> Any:
        yield [(f"PRAGMA max_page_count={limit}", ())]

    await storage._write(lambda scripts: set_limit())


def test_a_new_file_that_another_process_is_setting_up_is_waited_for(tmp_path: Any) -> None:
    path = str(tmp_path / "runs.sqlite3")
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connect(path, busy_timeout=0)
        release = threading.Timer(0.2, other.rollback)
        release.start()
        with closing(connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        release.join()


OF_THE_DASHBOARD = {
    "checkpoints_run": (
        "altered cost created_by_id ending ending_as follows follows_n input_tokens listed noted output_tokens "
        "own_title requesters start_key summary thread unpriced"
    ),
    "checkpoints_humanrequest": "asked assignee_id replaces settles stuck subject suggestion told",
    "checkpoints_answer": "acting_for others rule verdict",
    "checkpoints_chunk": "id",
}
"""Columns that only the dashboard's tables have."""
LATER = {"policy", "risk"}
"""Columns that an upgrade added to a file: SQLite adds none that is ``NOT NULL`` without a default."""
ADDED = [
    *(("humanrequest", name) for name in ("policy", "alarm", "risk")),
    ("checkpoint", "facts"),
    ("answer", "digest"),
    *(("run", name) for name in ("for_workers", "priority", "ready_at")),
]
"""What the first version of a file had not."""


@pytest.fixture
def file() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        yield connection


@pytest.fixture
def migrated(sqlite_alias: str) -> Iterator[sqlite3.Connection]:
    with closing(connect(str(connections[sqlite_alias].settings_dict["NAME"]))) as connection:
        yield connection


def tables_of(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'checkpoints_%'")
    return [name for (name,) in rows]


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, tuple[Any, ...]]:
    """Return of each column whether it may be empty, its default, and whether it is a primary key."""
    rows = connection.execute(f"PRAGMA table_xinfo({table})")
    return {name: (bool(required), default, bool(key)) for _, name, _, required, default, key, _ in rows}


def unique_of(connection: sqlite3.Connection, table: str) -> set[tuple[tuple[str, ...], bool]]:
    """Return the columns of each unique index that is no primary key, and whether it is for some rows alone."""
    indexes = connection.execute(f"PRAGMA index_list({table})").fetchall()
    return {
        (tuple(row[2] for row in connection.execute(f"PRAGMA index_info({name})")), bool(partial))
        for _, name, unique, origin, partial in indexes
        if unique and origin != "pk"
    }


def test_a_file_has_every_column_of_its_tables_but_the_dashboards_own(
    file: sqlite3.Connection, migrated: sqlite3.Connection
) -> None:
    for table in tables_of(file):
        ours, theirs = columns_of(file, table), columns_of(migrated, table)
        assert set(theirs) - set(ours) == set(OF_THE_DASHBOARD.get(table, "").split()), table
        assert set(ours) <= set(theirs), table
        for name in set(ours) - LATER:
            required, _, key = theirs[name]
            assert (ours[name][0] or ours[name][2], ours[name][2]) == (required, key), (table, name)


def test_what_is_unique_in_one_is_unique_in_the_other(file: sqlite3.Connection, migrated: sqlite3.Connection) -> None:
    for table in tables_of(file):
        mine, theirs = unique_of(file, table), unique_of(migrated, table)
        assert mine <= theirs, table
        assert {columns for columns, _ in theirs - mine} <= {("start_key",), ("token",)}, table


@pytest.mark.parametrize(
    ("table", "written"),
    [
        ("checkpoints_run", (*tables.RUN, "created", "updated")),
        ("checkpoints_checkpoint", tables.CHECKPOINT),
        ("checkpoints_humanrequest", (*tables.REQUEST, "created", "closed_as")),
        ("checkpoints_event", (*tables.EVENT, "at")),
        ("checkpoints_effect", (*tables.EFFECT, "at")),
    ],
)
def test_what_a_statement_leaves_out_has_a_default(
    table: str, written: tuple[str, ...], file: sqlite3.Connection, migrated: sqlite3.Connection
) -> None:
    for connection in (file, migrated):
        columns = columns_of(connection, table)
        assert set(written) <= set(columns)
        left = {name: facts for name, facts in columns.items() if name not in written}
        assert [
            name for name, (required, default, key) in left.items() if required and default is None and not key
        ] == []


def test_a_checkpoints_columns_are_its_records_fields() -> None:
    fields = apps.get_model("checkpoints", "Checkpoint")._meta.concrete_fields
    assert set(tables.CHECKPOINT) == {field.column for field in fields}
    assert tuple(CheckpointInfo.model_fields) == tables.INFO


async def test_an_old_file_gets_the_columns_of_a_new_one(tmp_path: Path, file: sqlite3.Connection) -> None:
    path = tmp_path / "runs.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        create_tables(old)
        old.execute("DROP INDEX run_to_take")
        old.execute("DROP TABLE checkpoints_leader")
        for table, name in ADDED:
            old.execute(f"ALTER TABLE checkpoints_{table} DROP COLUMN {name}")
        run_all(old, "PRAGMA user_version=1")
    assert sorted(UPGRADES) == list(range(1, VERSION))
    async with FileStorage(path) as storage:
        await storage.list_runs()
    with closing(connect(str(path))) as upgraded:
        for table in tables_of(file):
            assert columns_of(upgraded, table) == columns_of(file, table)
