"""A pgbouncer in transaction mode, in front of one PostgreSQL server."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.e2e.server import free_port

PROGRAM = os.environ.get("WFDASH_PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
START_SECONDS = 20.0
SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
ignore_startup_parameters = {ignored}
server_check_delay = 0
"""


class Pooler:
    """Runs until ``stop``. ``size``: server connections that all clients of a database share.

    ``ignored``: start-up parameters that it takes and drops; it refuses all others that are not its own.
    """

    def __init__(self, server: dict[str, Any], *, size: int = 4, ignored: str = "extra_float_digits") -> None:
        """``server``: Django's settings of a database of the server."""
        if PROGRAM is None:
            pytest.skip("there is no pgbouncer: install it or set WFDASH_PGBOUNCER")
        self._port = free_port()
        self._folder = TemporaryDirectory(prefix="wfdash-pooler-")
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        facts = {"host": server["HOST"], "port": server["PORT"] or "5432", "user": server["USER"]}
        given = SETTINGS.format(**facts, listen=self._port, size=size, ignored=ignored)
        (folder / "pgbouncer.ini").write_text(given)
        # As root it wants to become another user: the one to whom the server's socket belongs.
        user = ["-u", Path(server["HOST"]).owner()] if os.geteuid() == 0 else []
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            [PROGRAM, *user, str(folder / "pgbouncer.ini")], stdout=self._log, stderr=self._log
        )
        self._user = server["USER"]
        try:
            self._await(folder / "log", server["NAME"])
        except BaseException:
            self.stop()
            raise

    def url(self, database: str) -> str:
        return f"postgresql://{quote(self._user)}@127.0.0.1:{self._port}/{database}"

    def stop(self) -> None:
        """End it and remove its files."""
        self._process.terminate()
        self._process.wait(10)
        self._log.close()
        self._folder.cleanup()

    def _await(self, log: Path, database: str) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url(database), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise AssertionError(f"no pooler: {error}\n{log.read_text()}") from None
                time.sleep(0.05)
            else:
                return
