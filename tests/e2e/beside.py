"""A process beside a server: it sets Django up once, then runs whatever Python it is given, each time afresh.

Starting a process for every question would cost most of a second of two cores' time, again and again.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import traceback
import weakref
from pathlib import Path


class Beside:
    """Runs Python in one process with Django set up. It ends with ``close``, or when nobody knows it any more."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        pipe = subprocess.PIPE
        more = {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        command = [sys.executable, "-m", "tests.e2e.beside"]
        self._process = subprocess.Popen(command, env=env | more, cwd=folder, stdin=pipe, stdout=pipe, text=True)
        self.close = weakref.finalize(self, end, self._process)

    def run(self, code: str) -> str:
        """Run a piece of Python and return what it printed. Raises ``AssertionError`` with its traceback."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        if told["failed"]:
            raise AssertionError(f"{told['printed']}\n{told['failed']}")
        return str(told["printed"])


def end(process: subprocess.Popen[str]) -> None:
    """End the process and wait for its end."""
    process.kill()
    process.communicate()


def perform(code: str) -> dict[str, str]:
    """Run a piece of Python; returns what it printed and, if it raised, the traceback."""
    from django.db import connections

    printed, failed = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, {"__name__": "__beside__"})
    except Exception:
        failed = traceback.format_exc()
    connections.close_all()
    return {"printed": printed.getvalue(), "failed": failed}


def main() -> None:
    """Read one JSON string per line, run it, answer with one JSON line."""
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(perform(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
