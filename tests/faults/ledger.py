"""The outside world: one file of lines, each appended whole by one ``write``; no one takes a line back."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened. ``key`` is ``run:place`` for ``begin``, the call's effect key for calls."""

    kind: str
    key: str
    step: str

    @property
    def run(self) -> str:
        return self.key.split(":")[0]

    @property
    def activation(self) -> str:
        return self.key.split(":")[1].rpartition(".")[2]


def write_line(path: str | Path, **facts: object) -> None:
    """Append a line of JSON in one write: it is there whole or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(facts) + "\n").encode())
    finally:
        os.close(descriptor)


def read_facts(path: str | Path) -> list[dict[str, object]]:
    """Return the lines so far, oldest first."""
    text = Path(path).read_text() if Path(path).exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def read_ledger(path: str | Path) -> list[Line]:
    """Return the effects so far, oldest first."""
    return [Line(**facts) for facts in read_facts(path)]  # type: ignore[arg-type]
