from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, transaction

from checkpoints.database.alias import connection
from checkpoints.database.direct import keep_limits, patience, replies_within
from tests.conftest import threads_of

pytestmark = pytest.mark.postgres
Do = Callable[[Callable[[], object]], object]


@pytest.fixture
def do(postgres_alias: str, django_db_blocker: pytest.FixtureRequest) -> Iterator[Do]:
    """Call functions in one thread that keeps its limits."""
    with django_db_blocker.unblock(), threads_of(postgres_alias, 1) as thread:  # type: ignore[attr-defined]
        thread.submit(keep_limits).result()
        yield lambda function: thread.submit(function).result()


def answer(sql: str = "SELECT 1") -> object:
    with connection().cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@contextmanager
def frozen() -> Iterator[None]:
    """Let the server's process behind this thread's connection stand still."""
    pid = answer("SELECT pg_backend_pid()")
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_server_that_does_not_answer_is_given_up_when_the_time_is_over(do: Do) -> None:
    def wait() -> None:
        with replies_within(5), frozen(), pytest.raises(OperationalError, match="did not reply in time"):
            patience.left = 0.2
            answer()
        connection().close_if_unusable_or_obsolete()

    do(wait)
    assert do(answer) == 1


def test_a_transaction_that_was_cut_off_ends_at_once(do: Do) -> None:
    def write() -> None:
        with replies_within(5), frozen(), pytest.raises(OperationalError), transaction.atomic():
            patience.left = 0.2
            answer()

    began = time.monotonic()
    do(write)
    assert time.monotonic() - began < 5
    assert do(answer) == 1


def test_all_waits_of_a_limit_count_together_and_work_between_them_does_not(do: Do) -> None:
    def work() -> None:
        answer()
        with replies_within(0.9):
            time.sleep(1)
            assert answer("SELECT 1 FROM pg_sleep(0.5)") == 1
            with pytest.raises(OperationalError):
                answer("SELECT 1 FROM pg_sleep(0.5)")

    do(work)


def test_a_connection_is_opened_within_the_limit_and_counts(do: Do) -> None:
    def connect() -> float | None:
        connection().close()
        with replies_within(30):
            answer()
            return patience.left

    left = do(connect)
    assert isinstance(left, float)
    assert left < 30


def test_threads_without_a_limit_wait_as_long_as_it_takes(do: Do) -> None:
    with replies_within(0.1):  # of this thread
        assert do(lambda: answer("SELECT 1 FROM pg_sleep(0.3)")) == 1
