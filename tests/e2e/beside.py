"""A process beside a server: it sets Django up once, then runs whatever Python it is given, each time afresh.

Starting a process for every question would cost most of a second of two cores' time, again and again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import sys
import traceback
import weakref
from pathlib import Path
from typing import IO

from tests import nursery

ANSWER_SECONDS = 60.0
"""A limit that only a failure reaches, however busy the machine is."""


class Beside:
    """Runs Python in one process with Django set up. It ends with ``close``, or when no one knows it any more."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        more = {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        command = [sys.executable, "-m", "tests.e2e.beside"]
        (theirs, ours), (told, tell) = os.pipe(), os.pipe()
        self._orders, self._told = os.fdopen(ours, "w"), os.fdopen(told)
        with os.fdopen(theirs) as orders, os.fdopen(tell, "w") as answers:
            process = nursery.start(command, env=env | more, cwd=folder, stdin=orders, stdout=answers)
        self.close = weakref.finalize(self, end, process, self._orders, self._told)

    def run(self, code: str) -> str:
        """Run a piece of Python and return what it printed. Raises ``AssertionError`` with its traceback."""
        self._orders.write(json.dumps(code) + "\n")
        self._orders.flush()
        if not select.select([self._told], [], [], ANSWER_SECONDS)[0]:
            raise AssertionError(f"no answer within {ANSWER_SECONDS:g} s to:\n{code}")
        told = json.loads(self._told.readline())
        if told["failed"]:
            raise AssertionError(f"{told['printed']}\n{told['failed']}")
        return str(told["printed"])


def end(process: nursery.Process, *pipes: IO[str]) -> None:
    """End the process, wait for its end and close the pipes to it."""
    process.kill()
    process.wait(ANSWER_SECONDS)
    for pipe in pipes:
        pipe.close()


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
