"""What is a broker's own: it may be away, anyone may write to it, and its hints are acknowledged once claimed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hints.conftest import kill_once_it_is_there
from tests.pubsub.conftest import eventually
from wfdash.installation.environment import SECRETS
from wfdash.pubsub.hints import brokered
from wfdash.pubsub.hints.brokered import EXCHANGE, TASK, open_broker, publisher, queue_for

pytestmark = pytest.mark.parametrize("hints", ["broker"], indirect=True)


@pytest.fixture
def broker(hints, settings, redis_server) -> Iterator[Any]:
    """A connection of its own beside those of the hints."""
    with open_broker() as connection:
        yield connection


def waiting(broker: Any) -> list[str]:
    """Take what waits in the queue of the workflow expense: the runs."""
    queue, found = queue_for("expense").bind(broker.default_channel), list[str]()
    queue.declare()
    while message := queue.get(accept=["json"]):
        message.ack()
        found.append(brokered.run_in(message))
    return found


def send_raw(broker: Any, body: object, *, compression: str | None = None, **headers: Any) -> None:
    """Send what some other program might."""
    queue = queue_for("expense")
    with broker.Producer(serializer="json") as producer:
        facts = {"exchange": EXCHANGE, "routing_key": queue.routing_key, "declare": [queue]}
        producer.publish(body, compression=compression, headers=headers, **facts)


def test_the_most_important_run_comes_first(hints, make_run, broker) -> None:
    low, high = make_run(priority=0), make_run(priority=10)
    hints.send(low)
    hints.send(high)
    publisher.close()
    assert waiting(broker) == [high, low]


def test_an_action_waits_for_no_broker_and_a_worker_hears_of_the_run_when_it_is_back(
    hints, make_run, serve, redis_server, broker, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(brokered, "RETRY_SECONDS", 0.05)
    caplog.set_level(logging.INFO, logger="wfdash")
    worker, run = serve(), make_run()
    redis_server.kill()
    began = time.monotonic()
    hints.send(run)
    assert time.monotonic() - began < 1
    eventually(lambda: len(caplog.records) == 2)
    redis_server.start()
    eventually(lambda: run in worker.heard)
    eventually(lambda: caplog.text.count(" again after ") == 2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO", "INFO"], "one pair each"


def test_what_others_write_to_the_broker_is_passed_over(hints, make_run, serve, broker, caplog) -> None:
    for body in ("no task", [["gone", "twice"], {}, {}], [[7], {}, {}], {"run": "gone"}):
        send_raw(broker, body, task=TASK)
    send_raw(broker, [["someone else's"], {}, {}], task="tasks.mail")
    send_raw(broker, [["unpacked"], {}, {}], compression="gzip", task=TASK)
    worker, run = serve(), make_run()
    hints.send(run)
    eventually(lambda: run in worker.heard)
    assert worker.heard == [run]
    assert waiting(broker) == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


DOOMED = """
import json, sys
from kombu import Connection, Exchange, Queue
address, exchange, name = json.loads(sys.argv[1])
with Connection(address) as broker:
    message = None
    while message is None:
        message = Queue(name, Exchange(exchange), routing_key=name).bind(broker.default_channel).get()
    print("here", flush=True)
    sys.stdin.read()
"""


def test_a_run_whose_hint_was_taken_by_a_worker_that_was_killed_is_found_and_hinted_at_again(
    hints, make_run, settings, serve, claim
) -> None:
    run = make_run()
    hints.send(run)
    kill_once_it_is_there(DOOMED, [settings.WFDASH_BROKER, EXCHANGE.name, queue_for("expense").name])
    worker = serve()
    assert claim("alive") == [run]
    hints.send(run)
    eventually(lambda: worker.heard == [run])


def test_the_broker_s_address_may_be_in_a_file_as_it_holds_a_password(hints) -> None:
    assert {"WFDASH_BROKER", "WFDASH_SIGNALS"} <= {*SECRETS}
