"""Transactions that overtake each other: every reader of a workflow gets each event once, and all in one order."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from checkpoints.database.storage import write
from checkpoints.models import Event, Run
from checkpoints.models.user_model import User
from tests.live.streams.streaming import read_messages
from tests.live.world import append_events, make_person, make_run
from wfdash import pubsub
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.account import create_token
from wfdash.queries.history import read_cursor, read_workflow_events
from wfdash.web.live.hub import Hub
from wfdash.web.live.streams import WorkflowEventStream

WRITERS, TURNS = 6, 25
Place = tuple[str, int]


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def threads(request: Any, django_db_blocker: Any) -> Iterator[ThreadPoolExecutor]:
    """Threads whose default database is one of both: connections are made by thread, from the settings."""
    alias, before = request.getfixturevalue(request.param), connections.settings[DEFAULT_DB_ALIAS]
    connections.settings[DEFAULT_DB_ALIAS] = connections.settings[alias]
    try:
        with django_db_blocker.unblock(), ThreadPoolExecutor(WRITERS + 3) as pool:
            pool.submit(in_thread, empty).result()
            yield pool
    finally:
        connections.settings[DEFAULT_DB_ALIAS] = before


def empty() -> None:
    for model in (Run, User):
        model.objects.all().delete()


def in_thread(work: Any, *args: Any) -> Any:
    """Return what a function returns, and leave no connection in this thread."""
    try:
        return work(*args)
    finally:
        connections[DEFAULT_DB_ALIAS].close()


class GivenUp(Exception):
    """A transaction is rolled back."""


def prepare() -> tuple[list[str], str, Viewer, str]:
    """Return runs of two workflows, one more for the last event, and who reads them, by session and by token."""
    viewer = viewer_for(make_person("otto", "operator"))
    token = create_token(viewer, "watch", rights=("see",), workflows=("expense",))
    runs = [*(make_run() for _ in range(4)), *(make_run("another") for _ in range(2))]
    return runs, make_run(), viewer, token.text


def write_events(number: int, runs: list[str]) -> None:
    """Append events in transactions of any length, some to several runs, some rolled back."""
    chance = random.Random(number)
    for _ in range(TURNS):
        chosen = sorted(chance.sample(runs, chance.choice((1, 1, 2))))  # as every writer locks runs
        with suppress(GivenUp), write():
            for run in chosen:
                append_events(run, chance.choice((1, 1, 3)))
                time.sleep(chance.choice((0, 0, 0, 0.002, 0.02)))
            if chance.random() < 0.1:
                raise GivenUp
        if chance.random() < 0.8:
            pubsub.runs_changed.publish(chosen[0], 0)


def read_pages(viewer: Viewer, last: str) -> list[Place]:
    """Read pages up to the event of the last run."""
    found, cursor = list[Place](), ""
    while not found or found[-1][0] != last:
        page = read_workflow_events(viewer, "expense", after=cursor, limit=7)
        found += [(item.run, item.seq) for item in page.items]
        cursor = page.next
    return found


async def follow(token: str, last: str) -> list[Place]:
    """Follow a stream up to the event of the last run, and come back behind the last id now and then."""
    hub, found, cursor = Hub(), list[Place](), 0
    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"path": "", "headers": headers, "client": ("127.0.0.1", 1)}
    while not found or found[-1][0] != last:
        async with aclosing(WorkflowEventStream(hub, scope, "expense", cursor).run()) as texts:
            most = len(found) + 40
            async for text in texts:
                messages = read_messages(text)
                found += [(one["data"]["run"], one["data"]["seq"]) for one in messages if "data" in one]
                cursor = next(
                    (read_cursor("expense", one["id"])[0] for one in reversed(messages) if "id" in one), cursor
                )
                if len(found) >= most or (found and found[-1][0] == last):
                    break
    await hub.close()
    return found


def stored() -> list[Place]:
    return list(Event.objects.filter(run__workflow="expense").order_by("run", "seq").values_list("run_id", "seq"))


def test_readers_get_every_event_once_and_in_one_order(threads: ThreadPoolExecutor) -> None:
    runs, last, viewer, token = threads.submit(in_thread, prepare).result()
    pages = threads.submit(in_thread, read_pages, viewer, last)
    streamed = threads.submit(in_thread, asyncio.run, follow(token, last))
    for writing in [threads.submit(in_thread, write_events, number, runs) for number in range(WRITERS)]:
        writing.result(60)
    threads.submit(in_thread, append_events, last).result()
    found, expected = pages.result(30), threads.submit(in_thread, stored).result()
    assert len(expected) > WRITERS * TURNS
    assert sorted(found) == expected
    assert streamed.result(30) == found
    of_run = defaultdict(list)
    for run, seq in found:
        of_run[run].append(seq)
    assert all(seqs == sorted(seqs) for seqs in of_run.values())
