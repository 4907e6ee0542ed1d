from __future__ import annotations

import asyncio
from typing import Any

import pytest

from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import ClaimLost, Conflict
from checkpoints.events import EventKind
from checkpoints.ids import RunId, new_run_id
from checkpoints.records import Commit
from checkpoints.sql import claims
from checkpoints.sql.claims import Renewals
from tests.checkpoints.sql.postgres.beside import connected, until_one_waits
from tests.conformance.worlds import checkpoint, started

pytestmark = pytest.mark.postgres

TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM checkpoints_checkpoint WHERE run_id = ANY(%s)"


async def begun(storage: DatabaseStorage, count: int) -> list[RunId]:
    """Begin so many runs."""
    runs = [new_run_id() for _ in range(count)]
    for run in runs:
        await storage.commit(started(run))
    return runs


def step(run: RunId, n: int = 1) -> Commit:
    """Return a commit of one step."""
    return Commit(run=run, checkpoint=checkpoint(run, n), events=(EventKind.CUSTOM.draft(),))


async def test_commits_that_come_at_once_share_transactions(storage: DatabaseStorage, postgres_alias: str) -> None:
    runs = await begun(storage, 30)
    assert await asyncio.gather(*(storage.commit(step(run)) for run in runs)) == [2] * 30
    with connected(postgres_alias) as connection:
        ((transactions,),) = connection.execute(TRANSACTIONS, (runs,)).fetchall()
    assert transactions <= 10


async def test_a_commit_that_fails_takes_no_one_with_it(storage: DatabaseStorage) -> None:
    runs = await begun(storage, 12)
    await storage.save(checkpoint(runs[5], 1))
    done = await asyncio.gather(*(storage.commit(step(run)) for run in runs), return_exceptions=True)
    assert isinstance(done.pop(5), Conflict)
    assert done == [2] * 11
    assert len(await storage.read_events(runs[5])) == 1


async def test_a_row_someone_keeps_holds_up_its_own_run_alone(storage: DatabaseStorage, postgres_alias: str) -> None:
    runs = await begun(storage, 8)
    with connected(postgres_alias) as connection:
        connection.execute("SELECT 1 FROM checkpoints_run WHERE id = %s FOR UPDATE", (runs[4],))
        tasks = [asyncio.create_task(storage.commit(step(run))) for run in runs]
        held = tasks.pop(4)
        assert await asyncio.wait_for(asyncio.gather(*tasks), 60) == [2] * 7
        assert not held.done()
    assert await held == 2


async def test_who_gives_up_waiting_leaves_the_others_their_commits(storage: DatabaseStorage) -> None:
    runs = await begun(storage, 8)
    tasks = [asyncio.create_task(storage.commit(step(run))) for run in runs]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[5].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [one for place, one in enumerate(done) if place not in (0, 5)] == [2] * 6


async def test_closing_waits_for_what_was_asked(storage: DatabaseStorage) -> None:
    runs = await begun(storage, 8)
    tasks = [asyncio.create_task(storage.commit(step(run))) for run in runs]
    await asyncio.sleep(0)
    await storage.aclose()
    assert await asyncio.gather(*tasks) == [2] * 8


HAS_PASSED = "SELECT clock_timestamp() > %s"


@pytest.mark.parametrize("renewed", [True, False], ids=["renewed", "not renewed"])
async def test_while_a_commit_waits_for_its_run_only_renewals_keep_its_claim(
    storage: DatabaseStorage, postgres_alias: str, renewed: bool
) -> None:
    (run,) = await begun(storage, 1)
    with connected(postgres_alias) as other:
        claim = await storage.claim(run, worker="w", ttl=3)
        assert claim is not None
        other.execute("SELECT 1 FROM checkpoints_run WHERE id = %s FOR UPDATE", (run,))
        waiting = asyncio.create_task(storage.commit(step(run), claim=claim))
        await until_one_waits(postgres_alias)
        if renewed:
            assert not await asyncio.wait_for(storage.renew_many([claim], ttl=60), 60)
        while not other.execute(HAS_PASSED, (claim.expires,)).fetchall()[0][0]:
            await asyncio.sleep(0.05)
        assert not waiting.done()
        other.rollback()
        if renewed:
            assert await waiting == 2
        else:
            with pytest.raises(ClaimLost):
                await waiting


@pytest.mark.parametrize("taken", [False, True], ids=["only locked", "taken over"])
async def test_an_expired_claim_is_not_lost_because_someone_has_its_run_locked(
    storage: DatabaseStorage, postgres_alias: str, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    (run,) = await begun(storage, 1)
    claim = await storage.claim(run, worker="w", ttl=0)
    assert claim is not None
    found: list[Renewals] = []
    write = storage._write

    async def write_and_free(*given: Any, **how: Any) -> Renewals:
        found.append(await write(*given, **how))
        other.commit()
        return found[-1]

    monkeypatch.setattr(storage, "_write", write_and_free)
    with connected(postgres_alias) as other:
        other.execute("UPDATE checkpoints_run SET epoch = epoch + %s WHERE id = %s", (int(taken), run))
        lost = await storage.renew_many([claim], ttl=60)
    assert [one.skipped for one in found] == [{claim.token}, frozenset()]
    assert lost == ({claim.token} if taken else frozenset())


async def test_a_claim_that_cannot_be_renewed_for_long_counts_as_lost(
    storage: DatabaseStorage, postgres_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, free = [claim for run in await begun(storage, 2) if (claim := await storage.claim(run, worker="w", ttl=0))]
    monkeypatch.setattr(claims, "SKIPPED_SECONDS", (0.0, 0.0))
    with connected(postgres_alias) as other:
        other.execute("SELECT 1 FROM checkpoints_run WHERE id = %s FOR UPDATE", (locked.run,))
        assert await storage.renew_many([locked, free], ttl=60) == {locked.token}
