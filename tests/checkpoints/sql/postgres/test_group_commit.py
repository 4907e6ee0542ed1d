"""Commits of many runs share transactions, and a whole step one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import ClaimLost, Conflict, StorageFailed
from checkpoints.events import EventKind
from checkpoints.ids import RunId, new_run_id
from checkpoints.records import Claim, Commit, EventDraft
from checkpoints.sql import claims, postgres, postgres_scripts
from checkpoints.sql.claims import Renewals
from tests.checkpoints.sql.postgres.beside import connected, until_one_waits
from tests.conformance.worlds import checkpoint, started

pytestmark = pytest.mark.postgres

TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM checkpoints_checkpoint WHERE run_id = ANY(%s)"


async def begun(storage: DatabaseStorage, count: int) -> list[RunId]:
    runs = [new_run_id() for _ in range(count)]
    for run in runs:
        await storage.commit(started(run))
    return runs


def step(run: RunId, n: int = 1) -> Commit:
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


@dataclass
class Traced:
    """A storage, and what its connections exchange with the server."""

    storage: DatabaseStorage
    file: Path

    def round_trips(self) -> int:
        """Return how often the server has answered that it is ready for the next."""
        return sum("ReadyForQuery" in line for line in self.file.read_text().splitlines())


@pytest_asyncio.fixture
async def traced(postgres_alias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Traced]:
    """Give a storage whose exchanges are written to a file."""
    configure = postgres.configure
    with (tmp_path / "trace").open("w") as trace:

        async def traced_from_now_on(connection: postgres.Connection) -> None:
            await configure(connection)
            connection.pgconn.trace(trace.fileno())

        monkeypatch.setattr(postgres, "configure", traced_from_now_on)
        storage = DatabaseStorage(postgres_alias)
        yield Traced(storage, tmp_path / "trace")
        await storage.aclose()


async def claimed(storage: DatabaseStorage, *, ttl: float = 60) -> Claim:
    run = new_run_id()
    await storage.commit(started(run))
    claim = await storage.claim(run, worker="w", ttl=ttl)
    assert claim is not None
    return claim


def whole_step(run: RunId, n: int = 1, *events: EventDraft) -> Commit:
    """Return a commit of one step with two events."""
    drafts = events or (EventKind.STEP_FINISHED.draft("a", ms=1.0), EventKind.STEP_STARTED.draft("b"))
    return Commit(run=run, checkpoint=checkpoint(run, n), events=drafts)


async def test_a_step_takes_one_round_trip(traced: Traced) -> None:
    claim = await claimed(traced.storage)
    for n in range(1, 12):
        await traced.storage.commit(whole_step(claim.run, n), claim=claim)
    before = traced.round_trips()
    for n in range(12, 22):
        assert await traced.storage.commit(whole_step(claim.run, n), claim=claim) == 1 + 2 * n
    assert traced.round_trips() - before == 10


async def test_steps_that_come_at_once_share_round_trips(traced: Traced) -> None:
    claims = [await claimed(traced.storage) for _ in range(30)]
    before = traced.round_trips()
    found = await asyncio.gather(*(traced.storage.commit(whole_step(one.run), claim=one) for one in claims))
    assert found == [3] * 30
    assert traced.round_trips() - before <= 10


async def test_what_a_step_writes_is_read_as_it_was_written(storage: DatabaseStorage) -> None:
    claim = await claimed(storage)
    wrote = whole_step(
        claim.run, 1, EventKind.CUSTOM.draft("a", data={"ü": [1, None]}), EventKind.STEP_STARTED.draft("b")
    )
    await storage.commit(wrote, claim=claim)
    events = await storage.read_events(claim.run, after=1)
    assert [(e.seq, e.kind, e.step, e.data) for e in events] == [
        (2, "custom", "a", {"data": {"ü": [1, None]}}),
        (3, "step.started", "b", {}),
    ]
    latest = await storage.get_latest(claim.run)
    assert latest is not None
    assert wrote.checkpoint == latest.model_copy(update={"seq": 0, "size": 0})
    assert latest.seq == 3
    await storage.commit(Commit(run=claim.run, checkpoint=checkpoint(claim.run, 2)), claim=claim)
    assert (await storage.read_run(claim.run)).n == 2


async def test_a_step_counts_on_from_what_another_wrote_while_it_waited(
    storage: DatabaseStorage, postgres_alias: str
) -> None:
    claim = await claimed(storage)
    with connected(postgres_alias) as other:
        other.execute("UPDATE checkpoints_run SET seq = seq + 5 WHERE id = %s", (claim.run,))
        waiting = asyncio.create_task(storage.commit(whole_step(claim.run), claim=claim))
        await until_one_waits(postgres_alias)
        other.commit()
        assert await waiting == 8


async def test_a_run_that_was_taken_away_while_a_step_waited_keeps_it_out(
    storage: DatabaseStorage, postgres_alias: str
) -> None:
    claim = await claimed(storage)
    with connected(postgres_alias) as other:
        other.execute("UPDATE checkpoints_run SET epoch = epoch + 1 WHERE id = %s", (claim.run,))
        waiting = asyncio.create_task(storage.commit(whole_step(claim.run), claim=claim))
        await until_one_waits(postgres_alias)
        other.commit()
        with pytest.raises(ClaimLost):
            await waiting
    assert await storage.get_latest(claim.run) is None
    assert len(await storage.read_events(claim.run)) == 1


async def test_a_checkpoint_that_exists_stops_the_whole_step(storage: DatabaseStorage) -> None:
    claim, other = await claimed(storage), await claimed(storage)
    await storage.commit(whole_step(claim.run), claim=claim)
    done = await asyncio.gather(
        storage.commit(whole_step(other.run), claim=other),
        storage.commit(whole_step(claim.run), claim=claim),
        return_exceptions=True,
    )
    assert done[0] == 3
    assert isinstance(done[1], Conflict)
    assert len(await storage.read_events(claim.run)) == 3


async def test_a_claim_with_little_time_left_is_extended(storage: DatabaseStorage, postgres_alias: str) -> None:
    claim = await claimed(storage, ttl=60)
    with connected(postgres_alias) as other:
        other.execute(
            "UPDATE checkpoints_claim SET expires = clock_timestamp() + interval '20 s' WHERE run_id = %s", (claim.run,)
        )
        other.commit()
        assert await storage.commit(whole_step(claim.run), claim=claim) == 3
        ((left,),) = other.execute(
            "SELECT expires - clock_timestamp() > interval '50 s' FROM checkpoints_claim WHERE run_id = %s",
            (claim.run,),
        ).fetchall()
    assert left


async def test_steps_are_not_written_again_if_the_server_ended_the_connection_after_their_commit(
    storage: DatabaseStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [await claimed(storage) for _ in range(6)]
    written = postgres_scripts._written

    async def write_and_end(*given: Any, **how: Any) -> Any:
        found = await written(*given, **how)
        if len(found) > 1:
            raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")
        return found

    monkeypatch.setattr(postgres_scripts, "_written", write_and_end)
    commits = [storage.commit(whole_step(one.run), claim=one) for one in claims]
    done = await asyncio.gather(*commits, return_exceptions=True)
    ended = [one for one in done if isinstance(one, StorageFailed)]
    assert {type(one.__cause__) for one in ended} == {psycopg.errors.AdminShutdown}
    assert len(ended) >= 2
    assert [one for one in done if one not in ended] == [3] * (6 - len(ended))
    assert [len(await storage.read_events(one.run)) for one in claims] == [3] * 6


async def test_a_run_that_someone_has_locked_holds_up_its_own_step_alone(
    storage: DatabaseStorage, postgres_alias: str
) -> None:
    claims = [await claimed(storage) for _ in range(6)]
    with connected(postgres_alias) as other:
        other.execute("SELECT 1 FROM checkpoints_run WHERE id = %s FOR UPDATE", (claims[3].run,))
        tasks = [asyncio.create_task(storage.commit(whole_step(one.run), claim=one)) for one in claims]
        held = tasks.pop(3)
        assert await asyncio.wait_for(asyncio.gather(*tasks), 60) == [3] * 5
        assert not held.done()
    assert await held == 3
