from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wfdash import cli

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands find the database of the tests where they look for a data directory."""
    monkeypatch.setattr("wfdash.installation.location.missing_data", lambda env: "")
    monkeypatch.setattr("wfdash.installation.location.noted_sources", lambda folder: {})
    for name in ("WFDASH_URL", "WFDASH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WFDASH_EMBED", "0")
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def say(here: None, capsys: pytest.CaptureFixture[str]) -> Say:
    """Give what runs a command and returns its status, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(arguments)
        except SystemExit as ended:
            status = int(ended.code or 0)
        found = capsys.readouterr()
        return status, found.out, found.err

    return run


@pytest.fixture
def data(say: Say) -> Callable[..., Any]:
    """Give what runs a command with ``--json`` and returns what it printed."""

    def run(*arguments: str) -> Any:
        status, text, problem = say(*arguments, "--json")
        assert status == 0, problem
        return json.loads(text)

    return run
