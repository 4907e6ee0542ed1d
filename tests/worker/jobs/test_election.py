"""One of the workers with the same code leads; if it is killed or frozen, another does within five seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from hashlib import sha256
from types import SimpleNamespace

import pytest
from django.db import connection, connections

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Leader
from wfdash import pubsub
from wfdash.engines import catalog
from wfdash.worker import election
from wfdash.worker.db_thread import DbThread
from wfdash.worker.election import LEAD_SECONDS, RENEW_SECONDS, Election, give_up_lead, take_lead


@pytest.fixture
def code(monkeypatch) -> dict[str, str]:
    """Workflow -> version of what is loaded."""
    found = {"expense": "v1"}

    def load() -> SimpleNamespace:
        return SimpleNamespace(
            entries={
                name: SimpleNamespace(name=name, description=SimpleNamespace(version=version))
                for name, version in found.items()
            }
        )

    monkeypatch.setattr(catalog, "load", load)
    return found


@pytest.fixture
def cluster(cluster: str, code) -> str:
    """A database that workers share who have loaded that."""
    return cluster


def age(alias: str, seconds: float) -> None:
    """Let a leader have been silent for so long."""
    with connections[alias].cursor() as cursor:
        cursor.execute("UPDATE checkpoints_leader SET until = until - %s * interval '1 second'", [seconds])


@pytest.mark.postgres
def test_one_leads_and_the_others_know_how_long_it_may_be_silent(cluster) -> None:
    assert take_lead("one", leads=False) == 0
    assert 0 < take_lead("two", leads=False) <= LEAD_SECONDS < 5
    assert take_lead("one", leads=True) == 0
    assert RENEW_SECONDS * 2 < LEAD_SECONDS, "one renewal may fail"


@pytest.mark.postgres
def test_one_that_was_silent_for_too_long_finds_that_another_leads(cluster) -> None:
    take_lead("frozen", leads=False)
    age(cluster, LEAD_SECONDS)
    assert take_lead("two", leads=False) == 0
    assert take_lead("frozen", leads=True) > 0


@pytest.mark.postgres
def test_one_that_ends_leaves_the_lead_to_the_next_that_asks(cluster) -> None:
    take_lead("one", leads=False)
    give_up_lead("two")
    assert take_lead("two", leads=False) > 0
    give_up_lead("one")
    assert take_lead("two", leads=False) == 0


@pytest.mark.postgres
def test_one_that_is_stopped_is_followed_at_once_and_only_by_one_with_its_code(cluster, code, monkeypatch) -> None:
    asked: list[str] = []
    ask = take_lead

    def count(worker: str, *, leads: bool) -> float:
        asked.append(worker)
        return ask(worker, leads=leads)

    monkeypatch.setattr(election, "take_lead", count)
    first, others = Election("one", lead_nothing), [Election(name, lead_nothing) for name in ("two", "three")]

    async def hand_over() -> float:
        ends = [asyncio.Event() for _ in range(3)]
        one = asyncio.create_task(first.run_until(ends[0]))
        await reached(lambda: first.leads)
        rest = [asyncio.create_task(other.run_until(end)) for other, end in zip(others, ends[1:], strict=True)]
        await reached(lambda: len(asked) == 3)
        pubsub.lead_ended.publish("of other code")
        began = time.monotonic()
        ends[0].set()
        await reached(lambda: any(other.leads for other in others))
        took = time.monotonic() - began
        await reached(lambda: len(asked) == 5)
        for end in ends:
            end.set()
        await asyncio.gather(one, *rest)
        return took

    assert asyncio.run(hand_over()) < LEAD_SECONDS / 2
    assert sorted(asked[:3]) == ["one", "three", "two"], "one question each at the start"
    assert sorted(asked[3:5]) == ["three", "two"], "and one each when the lead has ended"


@pytest.mark.postgres
def test_a_lead_that_a_look_finds_gone_is_asked_for_at_once_where_no_signal_arrives(cluster) -> None:
    take_lead("one", leads=False)
    follower = Election("two", lead_nothing)

    async def follow() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(follower.run_until(stopping))
        async with DatabaseStorage(cluster) as storage:
            await storage.look(beside=follower.side_statements())
            await asyncio.to_thread(age_elsewhere, cluster, LEAD_SECONDS)
            await storage.look(beside=follower.side_statements())
        await reached(lambda: follower.leads)
        stopping.set()
        await task

    began = time.monotonic()
    asyncio.run(follow())
    assert time.monotonic() - began < LEAD_SECONDS / 2


def test_one_that_heard_of_an_end_rests_once_another_has_taken_the_lead(code, monkeypatch) -> None:
    asked, pauses = list[str](), list[None]()
    monkeypatch.setattr(election, "take_lead", lambda worker, *, leads: asked.append(worker) or LEAD_SECONDS)
    monkeypatch.setattr(election, "give_up_lead", lambda worker: None)
    monkeypatch.setattr(election, "_apart", lambda: pauses.append(None) or 0.001)
    follower = Election("two", lead_nothing)

    async def follow() -> None:
        stopping = asyncio.Event()
        task = asyncio.create_task(follower.run_until(stopping))
        await reached(lambda: bool(pauses))
        follower._hear_end(election.code_here())
        follower._hear([(LEAD_SECONDS,)])
        await asyncio.sleep(0.05)
        stopping.set()
        await task

    asyncio.run(follow())
    assert asked == ["two"]
    assert len(pauses) <= 3


def age_elsewhere(alias: str, seconds: float) -> None:
    age(alias, seconds)
    connections[alias].close()


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.mark.postgres
def test_workers_with_other_code_have_a_leader_of_their_own_and_old_ones_are_forgotten(cluster, code) -> None:
    take_lead("old", leads=False)
    age(cluster, 25 * 3600)
    code["expense"] = "v2"
    assert take_lead("new", leads=False) == 0
    assert [row.worker for row in Leader.objects.using(cluster).all()] == ["new"]


@pytest.mark.postgres
def test_leading_costs_one_statement_and_so_does_waiting(cluster, django_assert_num_queries) -> None:
    take_lead("one", leads=False)
    for worker, leads in (("one", True), ("two", False)):
        with django_assert_num_queries(1, connection=connections[cluster]):
            take_lead(worker, leads=leads)


@pytest.mark.postgres
def test_one_that_follows_asks_only_when_the_lease_may_be_over_of_which_its_looks_for_runs_heard(
    cluster, monkeypatch
) -> None:
    take_lead("one", leads=False)
    asked: list[str] = []
    monkeypatch.setattr(election, "take_lead", lambda worker, *, leads: asked.append(worker) or LEAD_SECONDS)
    follower = Election("two", lead_nothing)

    async def look_and_follow() -> None:
        async with DatabaseStorage(cluster) as storage:
            await storage.look(beside=follower.side_statements())
        stopping = asyncio.Event()
        asyncio.get_running_loop().call_later(0.02, stopping.set)
        await follower.run_until(stopping)

    asyncio.run(look_and_follow())
    assert asked == []
    age(cluster, LEAD_SECONDS)
    asyncio.run(look_and_follow())
    assert asked == ["two"]


async def lead_nothing(halt: asyncio.Event, thread: DbThread) -> None:
    await halt.wait()


def test_what_is_loaded_is_hashed_once_and_again_when_it_changes(code, monkeypatch) -> None:
    hashed: list[bytes] = []
    code["leave"] = "v1"
    monkeypatch.setattr(election, "sha256", lambda text: hashed.append(text) or sha256(text))
    first, second = election.code_here(), election.code_here()
    code["expense"] = "v3"
    assert first == second != election.code_here()
    assert len(hashed) == 2


def test_an_election_that_fails_again_and_again_is_one_line(monkeypatch, caplog) -> None:
    monkeypatch.setattr(election, "RENEW_SECONDS", 0.005)
    monkeypatch.setattr(election, "give_up_lead", lambda worker: None)
    stopping, attempts = asyncio.Event(), list[str]()

    def ask(worker: str, *, leads: bool) -> float:
        attempts.append(worker)
        if len(attempts) <= 8:
            raise ConnectionError("the database is away")
        stopping.set()
        return 0.0

    monkeypatch.setattr(election, "take_lead", ask)
    asyncio.run(asyncio.wait_for(Election("one", lead_nothing).run_until(stopping), 30))
    (record,) = caplog.records
    assert "which worker looks for what is due" in record.getMessage()
    assert "ConnectionError: the database is away" in caplog.text


def test_on_sqlite_every_worker_leads_and_asks_nothing(db, django_assert_num_queries) -> None:
    connection.ensure_connection()
    with django_assert_num_queries(0):
        assert [take_lead(name, leads=False) for name in ("one", "two")] == [0, 0]


def test_a_worker_does_what_a_leader_does_while_it_leads_and_only_then(monkeypatch, caplog) -> None:
    given = iter([0.03, 0.0, ConnectionError("the database is away"), 0.0, 0.03, 0.0])
    heard: list[str] = []
    monkeypatch.setattr(election, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(election, "SECONDS_APART", (0.0, 0.01))
    monkeypatch.setattr(election, "give_up_lead", lambda worker: heard.append(f"{worker} gives up"))

    def ask(worker: str, *, leads: bool) -> float:
        answer = next(given, None)
        if answer is None:
            stopping.set()
            return 0.0
        if isinstance(answer, Exception):
            raise answer
        heard.append(f"asks, {leads}")
        return answer

    async def lead(halt: asyncio.Event, thread: DbThread) -> None:
        heard.append("begins")
        await halt.wait()
        heard.append("ends")

    async def follow() -> None:
        await asyncio.wait_for(Election("one", lead).run_until(stopping), 30)

    monkeypatch.setattr(election, "take_lead", ask)
    stopping = asyncio.Event()
    asyncio.run(follow())
    assert heard == [
        *("asks, False", "asks, False", "begins"),
        *("asks, True", "asks, True", "ends"),
        *("asks, False", "begins", "ends", "one gives up"),
    ]


def test_what_a_leader_does_begins_again_if_it_ends_with_an_error(monkeypatch, caplog) -> None:
    stopping, begun = asyncio.Event(), list[asyncio.Event]()
    monkeypatch.setattr(election, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(election, "SECONDS_APART", (0.0, 0.01))
    monkeypatch.setattr(election, "give_up_lead", lambda worker: None)
    monkeypatch.setattr(election, "take_lead", lambda worker, *, leads: 0.0)

    async def lead(halt: asyncio.Event, thread: DbThread) -> None:
        begun.append(halt)
        if len(begun) < 3:
            raise RuntimeError("a mistake")
        stopping.set()
        await halt.wait()

    asyncio.run(asyncio.wait_for(Election("one", lead).run_until(stopping), 30))
    assert len(begun) == 3
    assert [record.getMessage().split(",")[0] for record in caplog.records] == ["Looking for what is due"] * 2
