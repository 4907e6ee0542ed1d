"""psycopg's connection with a limit on the time that its thread waits for replies."""

from __future__ import annotations

from time import monotonic
from typing import Any, Protocol, TypeVar, cast

import psycopg
from psycopg.abc import PQGen

R = TypeVar("R")
LOOK_SECONDS = 0.1
"""psycopg's own, between two looks for a signal while it waits."""


class Patience(Protocol):
    """How many seconds this thread may still wait; None: as long as it takes."""

    left: float | None


class ImpatientConnection(psycopg.Connection[Any]):
    """Gives up a server that does not reply in the time that its thread has left."""

    patience: Patience

    def wait(self, gen: PQGen[R], interval: float = LOOK_SECONDS, timeout: float | None = None) -> R:
        """Return what ``gen`` gives; ``OperationalError`` and a closed connection if the time is over before."""
        left = self.patience.left
        if left is None or timeout is not None:
            return super().wait(gen, interval, timeout)
        began = monotonic()
        try:
            return super().wait(gen, interval, max(left, 0.0))
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()  # a reply that comes later would be taken for that of another statement
            raise psycopg.OperationalError("the server did not reply in time: connection closed") from None
        finally:
            self.patience.left = left - (monotonic() - began)


def be_impatient(connection: Any, patience: Patience) -> Any:
    """Return the open connection, which keeps to this limit. One of another class than psycopg's own stays as it is."""
    if type(connection) is psycopg.Connection:
        connection.__class__ = ImpatientConnection  # Django's backend names no class to connect with
        cast(ImpatientConnection, connection).patience = patience
    return connection
