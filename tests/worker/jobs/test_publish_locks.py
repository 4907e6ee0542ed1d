"""Workers that publish at the same moment, on PostgreSQL: none waits for one that waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connections

from tests.checkpoints.sql.postgres.beside import until_one_waits
from tests.worker.graphs import expense
from tests.worker.jobs.test_publish import entry_of, refund
from wfdash.worker.consultations import publish


@pytest.mark.postgres
def test_workers_that_publish_at_once_do_not_wait_for_each_other(cluster) -> None:
    publish([entry_of(expense()), refund("First")], begins=True)
    wrote, go_on = Event(), Event()

    def hold(execute: Callable[..., object], sql: str, *how: object) -> object:
        if sql.startswith("UPDATE"):
            wrote.set()
            go_on.wait(30)
        return execute(sql, *how)

    def begin(title: str, *wrappers: Callable[..., object]) -> None:
        with contextlib.ExitStack() as around:
            around.callback(connections[cluster].close)
            for wrapper in wrappers:
                around.enter_context(connections[cluster].execute_wrapper(wrapper))
            publish([entry_of(expense()), refund(title)], begins=True)

    with ThreadPoolExecutor(2) as pool:
        changes = pool.submit(begin, "Second", hold)
        assert wrote.wait(30)
        beside = pool.submit(begin, "First")
        asyncio.run(until_one_waits(cluster))
        go_on.set()
        changes.result(30)
        beside.result(30)
