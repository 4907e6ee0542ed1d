from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.pubsub.conftest import eventually
from wfdash.pubsub import transport
from wfdash.pubsub.postgres import PostgresBus, channel_of
from wfdash.pubsub.transport import Message

pytestmark = pytest.mark.postgres


@pytest.fixture
def bus(parameters) -> PostgresBus:
    """The bus of this file alone: what is asked of the server is about no other."""
    return PostgresBus(parameters)


@pytest.fixture
def server(parameters) -> Iterator[psycopg.Connection]:
    with psycopg.connect(**parameters, autocommit=True) as connection:
        yield connection


def test_foreign_notifications_on_the_channel_are_ignored(start, server) -> None:
    web, worker = start("web"), start("worker")
    for text in ("", "hello", "worker ", "x" * 7_999, "é" * 3_000, '{"run": 1}', "web [["):
        server.execute("SELECT pg_notify(%s, %s)", (channel_of(server), text))
    worker.send("due", "r1")
    web.until(Message("due", ("r1",)))
    assert {one.topic for one in web.heard} == {"hello", "due"}


def test_connections_that_the_server_ends_are_opened_again(start, server, monkeypatch) -> None:
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.02)
    web, worker = start("web"), start("worker")
    (ended,) = server.execute(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE '%%signals%%'"
    ).fetchone()
    assert ended == 4
    eventually(lambda: web.connections == 2 and web.transport.listening.is_set())
    worker.send("due", "r1")
    web.until(Message("due", ("r1",)))


def test_another_schema_of_the_database_is_another_installation(start, server, parameters) -> None:
    server.execute("CREATE SCHEMA IF NOT EXISTS other")
    other = PostgresBus({**parameters, "options": "-c search_path=other"})
    web, worker, there = start("web"), start("worker"), start("there", other)
    worker.send("due", "r1")
    web.until(Message("due", ("r1",)))
    there.send("due", "r2")
    worker.send("due", "r3")
    web.until(Message("due", ("r3",)))
    assert Message("due", ("r2",)) not in web.heard
    assert not there.heard
    server.execute("DROP SCHEMA other")


def test_sending_leaves_the_durability_of_its_connection_as_it_was(parameters) -> None:
    sender = PostgresBus(parameters).open_sender()
    sender.send(["text"])
    assert sender._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert sender._connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    sender.close()


def test_what_listens_waits_without_a_query(start, server) -> None:
    start("web")
    found = server.execute("SELECT state FROM pg_stat_activity WHERE application_name LIKE '%%signals in%%'").fetchall()
    assert found == [("idle",)]
