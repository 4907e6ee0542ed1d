"""What the URL says of TLS is done by Django's connections and by the storage's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.checkpoints.sql.postgres.test_conninfo import sides
from tests.pubsub.test_tls import authority as authority
from tests.pubsub.tls import Authority, door

HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
pytestmark = pytest.mark.postgres


@pytest.fixture
def server(postgres_server: dict[str, Any]) -> str | tuple[str, int]:
    """Return where the server listens: it speaks no TLS itself."""
    host, port = postgres_server["HOST"], int(postgres_server["PORT"] or 5432)
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


@pytest.fixture
def url(authority: Authority, server, postgres_server: dict[str, Any]) -> Iterator[str]:
    with door(authority.context_for(HERE), server, postgres=True) as port:
        yield url_of(port, postgres_server)


def url_of(port: int, settings: dict[str, Any]) -> str:
    password = f":{settings['PASSWORD']}" if settings["PASSWORD"] else ""
    return f"postgresql://{settings['USER']}{password}@{HERE}:{port}/{settings['NAME']}?sslmode=verify-full"


def connect(parameters: dict[str, Any]) -> bool:
    """Connect, and return whether by TLS."""
    known = {name: value for name, value in parameters.items() if name not in {"cursor_factory", "context"}}
    with psycopg.connect(**known) as connection:
        connection.execute("SELECT 1")
        return bool(connection.pgconn.ssl_in_use)


def test_a_verified_certificate_is_connected_to_by_both(url: str, authority: Authority) -> None:
    for parameters in sides(f"{url}&sslrootcert={authority.file}"):
        assert connect(parameters)


def test_a_certificate_of_another_authority_is_refused_by_both(url: str, tmp_path: Path) -> None:
    other = Authority(tmp_path, "theirs")
    for parameters in sides(f"{url}&sslrootcert={other.file}"):
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            connect(parameters)


def test_a_certificate_for_another_address_is_refused_by_both(authority, server, postgres_server) -> None:
    with door(authority.context_for(ELSEWHERE), server, postgres=True) as port:
        for parameters in sides(f"{url_of(port, postgres_server)}&sslrootcert={authority.file}"):
            with pytest.raises(psycopg.OperationalError, match="does not match host name"):
                connect(parameters)
