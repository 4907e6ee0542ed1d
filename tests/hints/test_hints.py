"""What every carrier of hints promises."""

from __future__ import annotations

import pytest

from checkpoints.database.alias import atomic, connection
from tests.hints.conftest import QUEUED
from tests.pubsub.conftest import eventually


def test_a_worker_is_given_what_a_transaction_hinted_at_once_it_is_committed(hints, make_run, serve) -> None:
    worker, run = serve(), make_run()
    with atomic():
        hints.send(run)
        assert worker.heard == []
    eventually(lambda: worker.heard == [run])


def test_a_rollback_hints_at_nothing(hints, make_run, serve) -> None:
    worker, run, other = serve(), make_run(), make_run()
    with pytest.raises(ZeroDivisionError), atomic():
        hints.send(run)
        raise ZeroDivisionError
    hints.send(other)
    eventually(lambda: worker.heard)
    assert worker.heard == [other]


def test_a_doubled_hint_and_one_at_a_run_that_is_gone_do_no_harm(hints, make_run, serve) -> None:
    worker, run = serve(), make_run()
    with atomic():
        hints.send(run, run)
        hints.send(run, "gone")
    hints.send("gone")
    eventually(lambda: run in worker.heard)


def test_workflows_of_any_name_are_hinted_at(hints, make_run, serve) -> None:
    worker, run = serve(), make_run("é" * 200)
    hints.send(run)
    eventually(lambda: worker.heard == [run])


def test_what_is_executed_already_is_woken(hints, make_run, serve) -> None:
    worker, run = serve(), make_run()
    hints.send(run)
    eventually(lambda: run in worker.woken + worker.heard)
    assert connection().in_atomic_block is False


@pytest.mark.parametrize("hints", [QUEUED, "broker"], indirect=True)
def test_a_claim_that_fails_costs_a_hint_and_no_worker(hints, make_run, serve, caplog) -> None:
    worker, first, second = serve(), make_run(), make_run()
    worker.error = ConnectionError("the database is away")
    hints.send(first)
    eventually(lambda: "the database is away" in caplog.text)
    worker.error = None
    hints.send(second)
    eventually(lambda: worker.heard == [second])
