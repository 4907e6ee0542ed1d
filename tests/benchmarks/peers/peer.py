"""Peers, each in a process of its own and maybe another Python: started once, asked round after round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Steps per second, and microseconds of processor time per step where they were measured."""

    rate: float
    us: float | None = None

    @classmethod
    def of(cls, said: float | list[float]) -> Figures:
        """Return what a peer says: its rate, or both."""
        return cls(rate=said[0], us=said[1]) if isinstance(said, list) else cls(rate=said)


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

    def figures(self, *numbers: int) -> dict[str, Figures]:
        """Return what it measures, by name; empty if it is not installed."""
        return {name: Figures.of(said) for name, said in self._ask(*numbers).items()}

    def _ask(self, *numbers: int) -> dict[str, Any]:
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

    def best(self, *numbers: int) -> Figures | None:
        """Return the best of its rates and the least of its processor times; None if it is not installed."""
        found = self.figures(*numbers).values()
        rate = max((one.rate for one in found), default=None)
        return None if rate is None else Figures(rate=rate, us=min((one.us for one in found if one.us), default=None))
