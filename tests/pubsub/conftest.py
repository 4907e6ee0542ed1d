from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from checkpoints.content.encryption import encryptor_of
from checkpoints.sql.conninfo import parameters_of
from wfdash.pubsub.bus import Bus
from wfdash.pubsub.postgres import PostgresBus
from wfdash.pubsub.redis_bus import RedisBus
from wfdash.pubsub.transport import Envelope, Message, Transport, key_of


class Process:
    """What a process has of others: a transport, and what it delivered."""

    def __init__(self, bus: Bus, name: str, secret: str = "one") -> None:
        self.heard: list[Message] = []
        self.connections = 0
        envelope = Envelope(name, keys=[key_of(secret)], encryptor=encryptor_of(""))
        self.transport = Transport(bus, envelope, deliver=self.deliver, began=self.begin)
        self.send = self.transport.send

    def deliver(self, message: Message) -> None:
        self.heard.append(message)

    def begin(self) -> None:
        self.connections += 1

    def until(self, *expected: Message, within: float = 30.0) -> None:
        """Wait until it has heard all of these."""
        eventually(lambda: set(expected) <= set(self.heard), within=within)


def eventually(condition: Callable[[], object], *, within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def parameters(postgres_server: dict[str, Any]) -> dict[str, Any]:
    return parameters_of(postgres_server)


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.postgres), "redis"])
def bus(request) -> Bus:
    if request.param == "redis":
        return RedisBus(request.getfixturevalue("redis_server").url)
    return PostgresBus(request.getfixturevalue("parameters"))


@pytest.fixture
def start(bus: Bus) -> Iterator[Callable[..., Process]]:
    """Start processes that hear each other."""
    started: list[Process] = []

    def one(name: str, on: Bus = bus, **kwargs: Any) -> Process:
        process = Process(on, name, **kwargs)
        process.transport.start()
        started.append(process)
        assert process.transport.listening.wait(30)
        return process

    yield one
    for process in started:
        process.transport.close()
