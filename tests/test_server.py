from __future__ import annotations

import sys
from pathlib import Path

import pytest


def test_a_data_directory_that_cannot_be_written_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wfdash.cli import server

    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    lock = tmp_path / "worker.lock"
    lock.mkdir()  # No one can write to it, whereas root writes to what has no right to be written.
    assert server.serve(host="127.0.0.1", port=0, data=tmp_path, embed=True, on_ready=pytest.fail) == 1
    said = capsys.readouterr()
    assert said.err == f"Cannot write {lock} (Is a directory). Is the data directory writable?\n"
    assert said.out == ""
