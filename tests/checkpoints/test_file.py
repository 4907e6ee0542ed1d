"""Storages that are a file or memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checkpoints.conformance.worlds import asking, checkpoint
from checkpoints.errors import Conflict, Damaged, Incompatible, InvalidConfig, StorageFailed
from checkpoints.file import FileStorage
from checkpoints.ids import RunId, new_run_id
from checkpoints.memory import MemoryStorage
from checkpoints.records import CheckpointInfo
from checkpoints.sql.sqlite import connect

ROOT = Path(__file__).resolve().parents[2]

SAVER = """
import asyncio, sys
from checkpoints.conformance.worlds import checkpoint
from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id

async def main(path, count):
    async with FileStorage(path) as storage:
        run = new_run_id()
        print(run, flush=True)
        for n in range(1, count + 1):
            await storage.save(checkpoint(run, n))
            print(n, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def saver(path: Path, count: int) -> subprocess.Popen[str]:
    """Start a process that saves checkpoints and tells of each once it is saved."""
    command = [sys.executable, "-c", SAVER, str(path), str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def listed(path: Path, run: RunId) -> Sequence[CheckpointInfo]:
    async with FileStorage(path) as storage:
        return await storage.list_checkpoints(run, limit=1000)


async def saved(path: Path, run: str) -> list[int]:
    return [info.n for info in reversed(await listed(path, RunId(run)))]


@pytest.mark.process
def test_processes_that_save_at_once_into_a_new_file_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    told = [process.communicate(timeout=240)[0].split() for process in [saver(path, 50) for _ in range(4)]]
    for run, *_ in told:
        assert asyncio.run(saved(path, run)) == list(range(1, 51))


@pytest.mark.process
def test_what_a_killed_process_had_saved_is_there(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    process = saver(path, 100_000)
    assert process.stdout is not None
    run = process.stdout.readline().strip()
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    told = 20 + len(process.stdout.read().split())
    process.wait()
    process.stdout.close()
    assert len(asyncio.run(saved(path, run))) >= told - 1


async def test_it_opens_again_after_it_was_closed(tmp_path: Path) -> None:
    storage, run = FileStorage(tmp_path / "runs.sqlite3"), new_run_id()
    for n in (1, 2):
        await storage.save(checkpoint(run, n))
        await storage.aclose()
    assert len(await storage.list_checkpoint_ids(run)) == 2
    await storage.aclose()


async def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    await FileStorage(path).aclose()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(Incompatible, match="upgrade"):
        await FileStorage(path).get_latest(new_run_id())


async def test_someone_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    connection.close()
    with pytest.raises(InvalidConfig, match="new file"):
        await FileStorage(path).save(checkpoint(new_run_id()))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, RunId]:
    """A file with one run that this process may not write, root or not."""
    path, run = tmp_path / "kept.sqlite3", new_run_id()

    async def write() -> None:
        async with FileStorage(path) as storage:
            await storage.save(checkpoint(run))

    asyncio.run(write())
    path.chmod(0o444)
    may = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: (mode != os.W_OK or place != path) and may(place, mode))
    return path, run


def test_a_file_that_may_not_be_written_is_read_and_left_as_it_is(kept: tuple[Path, RunId]) -> None:
    path, run = kept
    before = path.read_bytes()

    async def read() -> None:
        async with FileStorage(path) as storage:
            found = await storage.get_latest(run)
            assert found is not None
            for write in (storage.save(checkpoint(run, 2)), storage.set_label(run, found.id, "x")):
                with pytest.raises(StorageFailed, match=r"kept\.sqlite3: the file is read-only"):
                    await write

    asyncio.run(read())
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_what_its_log_still_holds_is_read_too(kept: tuple[Path, RunId]) -> None:
    path, run = kept
    with contextlib.closing(connect(str(path))) as connection:
        connection.execute("UPDATE checkpoints_checkpoint SET label='late'")
        assert path.with_name("kept.sqlite3-wal").stat().st_size
        (info,) = asyncio.run(listed(path, run))
    assert info.label == "late"


def test_an_old_file_that_may_not_be_written_is_refused_in_words(kept: tuple[Path, RunId]) -> None:
    path, run = kept
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=5")
    with pytest.raises(Incompatible, match="version 5 and is read-only: open a copy"):
        asyncio.run(listed(path, run))


def test_a_damaged_checkpoint_of_a_file_that_may_not_be_written_is_said_to_be_damaged(kept: tuple[Path, RunId]) -> None:
    path, run = kept
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE checkpoints_checkpoint SET body='{}'")

    async def read() -> None:
        async with FileStorage(path) as storage:
            await storage.get_latest(run)

    with pytest.raises(Damaged):
        asyncio.run(read())


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_database_in_memory_is_refused(path: str) -> None:
    with pytest.raises(InvalidConfig, match="MemoryStorage"):
        FileStorage(path)


async def test_it_is_durable(tmp_path: Path) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        await storage.save(checkpoint(new_run_id()))
        connection = connect(str(storage.path))
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        connection.close()


NOTEBOOK = """
import asyncio, json, sys
from checkpoints.file import FileStorage
from wfdash.workflow import Approval, Context, Workflow

expense = Workflow("expense")

@expense.step(start=True)
async def review(amount: int, ctx: Context) -> str:
    return (await ctx.ask(Approval(subject=f"Pay {amount}?"))).action

async def main(path, run, answer):
    async with FileStorage(path) as storage:
        if answer:
            latest = await storage.get_latest(run)
            answers = {latest.requests[0].key: json.loads(answer)}
            outcome = await expense.run(answers=answers, storage=storage, run_id=run)
        else:
            outcome = await expense.run(100, storage=storage, run_id=run)
        print(type(outcome).__name__)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.process
def test_a_workflow_that_asked_in_one_process_goes_on_in_another(tmp_path: Path) -> None:
    def run(answer: str) -> str:
        command = [sys.executable, "-c", NOTEBOOK, str(tmp_path / "runs.sqlite3"), "01", answer]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True).stdout.strip()

    assert run("") == "Waiting"
    assert run(json.dumps({"action": "approve"})) == "Finished"


async def fill(storage: MemoryStorage, run: RunId, count: int) -> list[int]:
    """Save checkpoints and return the n of those that are there, oldest first."""
    for n in range(1, count + 1):
        await storage.save(checkpoint(run, n))
    return [info.n for info in reversed(await storage.list_checkpoints(run, limit=count))]


def test_loops_in_several_threads_share_one_storage() -> None:
    storage, runs = MemoryStorage(), [new_run_id() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda run: asyncio.run(fill(storage, run, 25)), runs))
    assert found == [list(range(1, 26))] * 8
    assert {info.id for info in asyncio.run(storage.list_runs())} == set(runs)


async def test_two_storages_share_nothing() -> None:
    run, one, other = new_run_id(), MemoryStorage(), MemoryStorage()
    await one.save(checkpoint(run))
    assert await other.get_latest(run) is None


async def test_closing_it_keeps_the_runs() -> None:
    run = new_run_id()
    async with MemoryStorage() as storage:
        await storage.save(checkpoint(run))
    assert [info.n for info in await storage.list_checkpoints(run)] == [1]


async def test_a_refused_commit_leaves_nothing_behind() -> None:
    storage, run = MemoryStorage(), new_run_id()
    await storage.save(checkpoint(run, 1))
    with pytest.raises(Conflict):
        await storage.commit(asking(run, "k").model_copy(update={"checkpoint": checkpoint(run, 1)}))
    assert not await storage.read_events(run)
    assert (await storage.read_run(run)).n == 1
