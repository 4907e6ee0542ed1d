from __future__ import annotations

from pathlib import Path

from checkpoints.file import FileStorage
from checkpoints.ids import new_run_id
from checkpoints.records import Commit
from checkpoints.sql.durability import BOUNDS, TransactionMeter, meter
from tests.conformance.worlds import checkpoint, started


def test_a_transaction_counts_where_it_is_not_above_the_bound():
    mine = TransactionMeter()
    for seconds in (0.0, BOUNDS[0], 0.0011, 99.0):
        mine.record(3, seconds)
    read = mine.read()
    assert (read.transactions, read.scripts) == (4, 12)
    assert read.counts == (2, 1, *[0] * (len(BOUNDS) - 2), 1)


async def test_what_is_committed_is_metered(tmp_path: Path):
    before, storage, run = meter.read(), FileStorage(tmp_path / "runs.sqlite3"), new_run_id()
    await storage.commit(started(run))
    await storage.commit(Commit(run=run, checkpoint=checkpoint(run, 1)))
    await storage.aclose()
    after = meter.read()
    assert after.scripts - before.scripts >= 2
    assert after.transactions - before.transactions >= 1
    assert after.seconds > before.seconds
