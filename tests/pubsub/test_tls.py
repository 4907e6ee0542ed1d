"""Signals, and hints of a broker, through a Redis with TLS: its certificate is verified, and what is wrong with one is
said in a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu.exceptions import OperationalError

from tests.pubsub.conftest import Process, eventually
from tests.pubsub.tls import Authority, door
from wfdash.pubsub.hints.brokered import open_broker
from wfdash.pubsub.redis_bus import RedisBus
from wfdash.pubsub.transport import Message

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def port(authority: Authority, redis_server) -> Iterator[int]:
    with door(authority.context_for(HERE), (HERE, redis_server.port)) as port:
        yield port


@pytest.fixture
def bus(authority: Authority, port: int) -> RedisBus:
    """Give what ``start`` lets processes hear each other by."""
    return RedisBus(f"rediss://{HERE}:{port}/0?ssl_ca_certs={authority.file}")


def test_signals_go_through_tls_once_the_certificate_is_verified(start) -> None:
    web, worker = start("web"), start("worker")
    for number in range(20):
        worker.send("due", f"r{number}")
    web.until(*(Message("due", (f"r{number}",)) for number in range(20)))


def test_a_certificate_of_another_authority_is_refused_in_one_line(
    authority: Authority, port: int, tmp_path: Path, caplog
) -> None:
    other = Authority(tmp_path, "theirs")
    for query in ("", f"?ssl_ca_certs={other.file}"):
        assert "certificate verify failed" in refusal(RedisBus(f"rediss://:hunter2@{HERE}:{port}/0{query}"), caplog)


def test_a_certificate_for_another_address_is_refused_in_one_line(authority, redis_server, caplog) -> None:
    with door(authority.context_for(ELSEWHERE), (HERE, redis_server.port)) as port:
        bus = RedisBus(f"rediss://{HERE}:{port}/0?ssl_ca_certs={authority.file}")
        assert "IP address mismatch" in refusal(bus, caplog)


def test_the_certificate_of_a_broker_is_verified_without_a_word_in_its_address(authority, port, settings) -> None:
    settings.WFDASH_BROKER = f"rediss://{HERE}:{port}/0?ssl_ca_certs={authority.file}"
    with open_broker() as broker:
        assert broker.default_channel.client.ping()
    settings.WFDASH_BROKER = f"rediss://{HERE}:{port}/0"
    with open_broker() as broker, pytest.raises(OperationalError, match="certificate verify failed"):
        broker.default_channel.client.ping()


def test_the_certificate_of_rabbitmq_has_to_be_for_its_address(authority, redis_server, settings, monkeypatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with door(authority.context_for(ELSEWHERE), (HERE, redis_server.port)) as port:
        settings.WFDASH_BROKER = f"amqps://guest:guest@{HERE}:{port}//"
        with open_broker() as broker, pytest.raises(OSError, match="IP address mismatch"):
            broker.transport.establish_connection()


def refusal(bus: RedisBus, caplog) -> str:
    """Return the line that is logged about a Redis to which no connection is made."""
    caplog.clear()
    refused = Process(bus, "web")
    refused.transport.start()
    eventually(lambda: caplog.records)
    refused.transport.close()
    (record,) = caplog.records
    assert refused.connections == 0
    assert "hunter2" not in record.getMessage()
    return record.getMessage()
