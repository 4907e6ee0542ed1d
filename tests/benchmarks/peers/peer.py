"""Peers, each in a process of its own and maybe another Python: started once, asked round after round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self


class Peer:
    """A script ``peer_<name>.py`` that answers a line of numbers with a line of JSON."""

    def __init__(self, name: str, *arguments: str) -> None:
        """``WFDASH_BENCH_PYTHON`` names the Python that has the peers; else this one is tried."""
        python = os.environ.get("WFDASH_BENCH_PYTHON", sys.executable)
        script = Path(__file__).with_name(f"peer_{name}.py")
        self.name = name
        self._process = subprocess.Popen(
            [python, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def rates(self, *numbers: int) -> dict[str, float]:
        """Return what it measures, by name; empty if it is not installed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(" ".join(map(str, numbers)) + "\n")
            stdin.flush()
        except BrokenPipeError:
            return {}
        line = stdout.readline()
        return json.loads(line) if line else {}

    def best(self, *numbers: int) -> float | None:
        """Return the best of its rates; None if it is not installed."""
        return max(self.rates(*numbers).values(), default=None)
