"""Redis's PUBLISH and SUBSCRIBE as the bus, on two connections of this process's own. Nothing is stored there."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry

from checkpoints.sql.conninfo import application_name
from wfdash.pubsub.bus import Wake

REDIS_SECONDS = 10
"""To connect, and for an answer."""
MAX_MESSAGE_BYTES = 60_000
ALIVE = {"socket_keepalive": True, "socket_keepalive_options": {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 5}}


class RedisBus:
    """A channel per number of a database: Redis itself has one for all of them."""

    name = "Redis"
    remedy = "Look whether every process has the same WFDASH_SIGNALS, and what the ACL of its user allows"
    most = MAX_MESSAGE_BYTES

    def __init__(self, url: str) -> None:
        """``url``: ``redis://user:password@host:port/number``, ``rediss://`` (TLS) or ``unix://``. ``ValueError``."""
        retry = Retry(NoBackoff(), 0)
        given: dict[str, Any] = {} if url.startswith("unix:") else ALIVE
        self._pool = ConnectionPool.from_url(
            url, socket_connect_timeout=REDIS_SECONDS, socket_timeout=REDIS_SECONDS, retry=retry, protocol=2, **given
        )
        self._channel = f"wfdash:{self._pool.connection_kwargs.get('db', 0)}"

    def open_sender(self) -> RedisSender:
        """Connect."""
        return RedisSender(self._connect("signals out"), self._channel)

    def open_listener(self) -> RedisListener:
        """Connect and listen."""
        connection = self._connect("signals in")
        connection.send_command("SUBSCRIBE", self._channel)
        connection.read_response()
        return RedisListener(connection, self._channel)

    def _connect(self, part: str) -> Any:
        connection: Any = self._pool.make_connection()
        # Redis takes no blanks there.
        connection.client_name = application_name(part).replace(" ", "-")
        connection.connect()
        return connection


class _OverRedis:
    def __init__(self, connection: Any, channel: str) -> None:
        self._connection, self._channel = connection, channel

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


class RedisSender(_OverRedis):
    """Sends by PUBLISH."""

    def send(self, texts: Sequence[str]) -> None:
        """Send texts, in one round trip."""
        commands = [("PUBLISH", self._channel, text) for text in texts]
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        for _ in commands:
            self._connection.read_response()


class RedisListener(_OverRedis):
    """Receives by SUBSCRIBE."""

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, or nothing after so many seconds."""
        wake.wait(self._connection._sock.fileno(), seconds)
        found = []
        while self._connection.can_read(timeout=0):
            _, _, text = self._connection.read_response()
            found.append(text.decode("ascii", "replace"))
        return found
