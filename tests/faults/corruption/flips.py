"""Flips bytes of stored checkpoints, one at a time, and looks at what a resume would get.

*Rows* are changed by SQL, column by column; *pages* in the file itself, as a disk would.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checkpoints.errors import CheckpointsError
from checkpoints.file import FileStorage
from checkpoints.ids import RequestKey, RunId, WorkflowId, new_checkpoint_id, new_run_id
from checkpoints.recorder import utc_now
from checkpoints.records import Checkpoint, Request

PAGE = 4096
DRIVES = ("id", "run", "n", "parent", "workflow", "version", "engine", "step", "reason", "body", "requests")
"""What of a checkpoint a resume goes by. The rest is shown to people, filtered by, or used to tidy up."""
Flip = tuple[str, int, Any]
"""Column, rowid and the changed value."""


async def fill(storage: FileStorage, *, steps: int = 3, size: int = 0) -> RunId:
    """Make a run of several checkpoints, each with a state of ``size`` KB."""
    run, parent = new_run_id(), None
    for n in range(1, steps + 1):
        state = {"n": n, "load": {f"key {place}": str(n if place == 0 else place) * 900 for place in range(size)}}
        asked = Request(key=RequestKey("q"), step="review", card={"subject": "Pay?"}, answer_schema={"type": "string"})
        body, id_ = {"state": state, "position": {"at": f"step {n}"}}, new_checkpoint_id()
        named = {"id": id_, "run": run, "workflow": WorkflowId("expense"), "version": "a1b2", "parent": parent}
        await storage.save(
            Checkpoint(**named, n=n, created=utc_now(), step="review", label="kept", body=body, requests=(asked,))
        )
        parent = id_
    return run


async def outcome(storage: FileStorage, run: RunId, good: Checkpoint) -> str:
    """Say what a worker gets that drives the run now: ``said``, ``same``, or ``wrong`` and how."""
    try:
        facts, found = await storage.read_run(run), await storage.get_latest(run)
    except (CheckpointsError, sqlite3.DatabaseError):
        return "said"
    if found is None or found.n < facts.n:
        # The run itself says how many there must be: it fails with ``Damaged``, see ``wfdash.worker.drive``.
        return "said" if facts.n else "wrong: begins again"
    changed = [name for name in DRIVES if getattr(found, name) != getattr(good, name)]
    return f"wrong: {', '.join(changed)}" if changed else "same"


async def flip_rows(file: Path, dice: random.Random, *, bits: int = 1) -> tuple[Counter[str], list[str]]:
    """Change every byte of the two newest checkpoints' rows, ``bits`` times each; returns what was seen."""
    async with FileStorage(file) as storage:
        run = await fill(storage)
        good = await storage.get_latest(run)
        assert good is not None
        return await _try_all(storage, run, good, file, lambda at: flips_of_rows(at, dice, bits))


async def flip_chunks(file: Path, dice: random.Random, *, flips: int) -> tuple[Counter[str], list[str]]:
    """Change random bytes of the chunks and the root of a checkpoint of 180 KB."""
    async with FileStorage(file) as storage:
        run = await fill(storage, size=200)
        good = await storage.get_latest(run)
        assert good is not None
        return await _try_all(storage, run, good, file, lambda at: flips_of_chunks(at, dice, flips))


async def _try_all(
    storage: FileStorage, run: RunId, good: Checkpoint, file: Path, flips: Any
) -> tuple[Counter[str], list[str]]:
    seen, wrong = Counter[str](), list[str]()
    connection = sqlite3.connect(file, isolation_level=None)
    for table, column, rowid, value, text in list(flips(connection)):
        change = f'UPDATE {table} SET "{column}"={"CAST(? AS TEXT)" if text else "?"} WHERE rowid=?'
        before = connection.execute(f'SELECT "{column}" FROM {table} WHERE rowid=?', (rowid,)).fetchone()
        try:
            connection.execute(change, (value, rowid))
        except sqlite3.IntegrityError:
            continue
        result = await outcome(storage, run, good)
        seen[result.partition(":")[0]] += 1
        if result.startswith("wrong"):
            wrong.append(f"{column}: {result}")
        connection.execute(f'UPDATE {table} SET "{column}"=? WHERE rowid=?', (*before, rowid))
        connection.execute("UPDATE checkpoints_checkpoint SET clean=1, flaw=''")
    connection.close()
    return seen, wrong


def flips_of_rows(connection: sqlite3.Connection, dice: random.Random, bits: int) -> Iterator[tuple[Any, ...]]:
    """Yield a change of every byte of the two newest rows."""
    rows = connection.execute("SELECT rowid, * FROM checkpoints_checkpoint ORDER BY n DESC LIMIT 2")
    names = [column[0] for column in rows.description][1:]
    for rowid, *values in rows.fetchall():
        for column, value in zip(names, values, strict=True):
            for changed in changes_of(value, dice, bits):
                yield "checkpoints_checkpoint", column, rowid, changed, isinstance(value, str)


def flips_of_chunks(connection: sqlite3.Connection, dice: random.Random, flips: int) -> Iterator[tuple[Any, ...]]:
    """Yield changes of one byte somewhere in the content of the newest checkpoint."""
    chunks = connection.execute("SELECT rowid, data FROM checkpoints_chunk").fetchall()
    root = connection.execute("SELECT rowid, body FROM checkpoints_checkpoint ORDER BY n DESC LIMIT 1").fetchone()
    for turn in range(flips):
        if turn % 10 == 0:
            yield "checkpoints_checkpoint", "body", root[0], flipped(root[1].encode(), dice), True
        else:
            rowid, data = dice.choice(chunks)
            yield "checkpoints_chunk", "data", rowid, flipped(data, dice), False


def changes_of(value: Any, dice: random.Random, bits: int) -> Iterator[Any]:
    """Yield a value with one byte changed, for every byte, as often as ``bits`` says."""
    if isinstance(value, int):
        yield from (value ^ (1 << bit) for bit in dice.sample(range(63), min(63, 8 * bits)))
    elif isinstance(value, str):
        raw = value.encode()
        yield from (
            raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]
            for at in range(len(raw))
            for bit in dice.sample(range(8), bits)
        )


def flipped(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ dice.randrange(1, 256)]) + raw[at + 1 :]


async def flip_pages(file: Path, dice: random.Random, *, flips: int) -> tuple[Counter[str], list[str]]:
    """Change bytes of the page in the file that holds the newest checkpoint; all of them if ``flips`` is that many."""
    async with FileStorage(file) as storage:
        run = await fill(storage)
        good = await storage.get_latest(run)
    assert good is not None
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    raw = file.read_bytes()
    # Only the row itself has both ids side by side: the indexes have one of them.
    first = raw.index(f"{good.id}{run}".encode()) // PAGE * PAGE
    seen, wrong = Counter[str](), list[str]()
    for at in dice.sample(range(first, first + PAGE), min(flips, PAGE)):
        file.write_bytes(raw[:at] + bytes([raw[at] ^ dice.randrange(1, 256)]) + raw[at + 1 :])
        result = await outcome_of_file(file, run, good)
        seen[result.partition(":")[0]] += 1
        if result.startswith("wrong"):
            wrong.append(f"byte {at - first} of its page: {result}")
    return seen, wrong


async def outcome_of_file(file: Path, run: RunId, good: Checkpoint) -> str:
    """Open a file and say what a worker gets."""
    for side in ("-wal", "-shm"):
        file.with_name(file.name + side).unlink(missing_ok=True)
    async with FileStorage(file) as storage:
        return await outcome(storage, run, good)
