"""The port to what carries texts between processes: everyone who listens gets what anyone sends, at most once."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Protocol

import psycopg
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool
from redis.retry import Retry

from checkpoints.sql.postgres.conninfo import application_name

# Redis's PUBLISH and SUBSCRIBE as the bus, on two connections of this process's own. Nothing is stored there.

SECONDS = 10
"""To connect, and for an answer."""
MOST_REDIS_BYTES = 60_000
ALIVE = {"socket_keepalive": True, "socket_keepalive_options": {socket.TCP_KEEPIDLE: 5, socket.TCP_KEEPINTVL: 5}}


class RedisBus:
    """A channel per number of a database: Redis itself has one for all of them."""

    name = "Redis"
    remedy = "Look whether every process has the same WFDASH_SIGNALS, and what the ACL of its user allows"
    most = MOST_REDIS_BYTES

    def __init__(self, url: str) -> None:
        """``url``: ``redis://user:password@host:port/number``, ``rediss://`` (TLS) or ``unix://``. ``ValueError``."""
        retry = Retry(NoBackoff(), 0)
        given: dict[str, Any] = {} if url.startswith("unix:") else ALIVE
        self._pool = ConnectionPool.from_url(
            url, socket_connect_timeout=SECONDS, socket_timeout=SECONDS, retry=retry, protocol=2, **given
        )
        self._channel = f"wfdash:{self._pool.connection_kwargs.get('db', 0)}"

    def open_sender(self) -> RedisSender:
        """Connect."""
        return RedisSender(self._connect("signals out"), self._channel)

    def open_listener(self) -> RedisListener:
        """Connect and listen."""
        return RedisListener(self._connect("signals in"), self._channel)

    def _connect(self, part: str) -> Any:
        connection: Any = self._pool.make_connection()
        # Redis takes no blanks there.
        connection.client_name = application_name(part).replace(" ", "-")
        connection.connect()
        return connection


class RedisSender:
    """Sends by PUBLISH."""

    def __init__(self, connection: Any, channel: str) -> None:
        self._connection, self._channel = connection, channel

    def send(self, texts: Sequence[str]) -> None:
        """Send texts, in one round trip."""
        commands = [("PUBLISH", self._channel, text) for text in texts]
        self._connection.send_packed_command(self._connection.pack_commands(commands))
        for _ in commands:
            self._connection.read_response()

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


class RedisListener:
    """Receives by SUBSCRIBE."""

    def __init__(self, connection: Any, channel: str) -> None:
        self._connection = connection
        connection.send_command("SUBSCRIBE", channel)
        connection.read_response()

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, or nothing after so many seconds."""
        wake.wait(self._connection._sock.fileno(), seconds)
        found = []
        while self._connection.can_read(timeout=0):
            _, _, text = self._connection.read_response()
            found.append(text.decode("ascii", "replace"))
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


# PostgreSQL's NOTIFY and LISTEN as the bus, on two connections of this process's own.

MOST_BYTES = 7_900
"""NOTIFY takes 7,999 bytes."""
NOTIFY = """
    SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, text)
    FROM unnest(%s::text[]) WITH ORDINALITY AS sent(text, n) ORDER BY n
"""
"""The setting is of this transaction alone: behind a pooler the connection is shared."""
Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresBus:
    """A channel per schema: a database may hold several installations."""

    name = "PostgreSQL"
    remedy = (
        "If WFDASH_DATABASE leads to a pooler in transaction mode, set WFDASH_DATABASE_DIRECT to the address of the "
        "server itself"
    )
    most = MOST_BYTES

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """``parameters`` are psycopg's, of a connection to the server itself."""
        self._parameters = parameters

    def open_sender(self) -> PostgresSender:
        """Connect."""
        return PostgresSender(self._connect("signals out"))

    def open_listener(self) -> PostgresListener:
        """Connect and listen."""
        connection = self._connect("signals in")
        connection.execute(f"LISTEN {channel_of(connection)}")
        return PostgresListener(connection)

    def _connect(self, part: str) -> Connection:
        given = {**self._parameters, "fallback_application_name": application_name(part)}
        return psycopg.Connection.connect(**given, autocommit=True)


class PostgresSender:
    """Sends by NOTIFY."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel = channel_of(connection)

    def send(self, texts: Sequence[str]) -> None:
        """Send texts in one transaction."""
        self._connection.execute(NOTIFY, (self._channel, list(texts)))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresListener:
    """Receives by LISTEN."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, or nothing after so many seconds."""
        wake.wait(self._connection.fileno(), seconds)
        return [one.payload for one in self._connection.notifies(timeout=0)]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def channel_of(connection: Connection) -> str:
    """Return the channel of the schema that holds the tables."""
    (schema,) = connection.execute("SELECT coalesce(current_schema(), '')").fetchone() or ("",)
    return f"wfdash_{sha256(schema.encode()).hexdigest()[:16]}"


class BusSender(Protocol):
    """A connection that sends; used by one thread."""

    def send(self, texts: Sequence[str]) -> None:
        """Send ASCII texts, in this order. Any exception means that the connection is not used again."""

    def close(self) -> None:
        """Close the connection."""


class BusListener(Protocol):
    """A connection that receives; used by one thread."""

    def receive(self, wake: Wake, seconds: float) -> Sequence[str]:
        """Return what has come, in the order of sending; nothing after so many seconds or once ``wake`` is called.

        Any exception means that the connection is not used again.
        """

    def close(self) -> None:
        """Close the connection."""


class Bus(Protocol):
    """What carries the texts."""

    name: str
    """What it is called in the log."""
    remedy: str
    """What to do where nothing that is sent arrives."""
    most: int
    """Characters of a text at most."""

    def open_sender(self) -> BusSender:
        """Connect. Waits for ten seconds at most."""

    def open_listener(self) -> BusListener:
        """Connect and listen: what is sent after the return is received. Waits for ten seconds at most."""


class Wake:
    """Ends the waiting of a thread for a socket, from any other thread."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def call(self) -> None:
        """End this waiting, and every later one."""
        self._theirs.send(b"!")

    def wait(self, fileno: int, seconds: float) -> None:
        """Return when there is something to read from the socket, after so many seconds, or once called."""
        with selectors.DefaultSelector() as selector:
            selector.register(fileno, selectors.EVENT_READ)
            selector.register(self._ours, selectors.EVENT_READ)
            selector.select(seconds)

    def close(self) -> None:
        """Close its sockets."""
        self._ours.close()
        self._theirs.close()
