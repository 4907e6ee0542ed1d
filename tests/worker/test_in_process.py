"""A process has one worker, however many parts of it ask for one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from wfdash.worker import process


class Counted:
    """Stands for the worker's thread."""

    made: list[Counted] = []

    def __init__(self, lock: Path) -> None:
        self.lock, self.running = lock, False
        self.made.append(self)

    def start(self) -> bool:
        self.running = True
        return True

    def stop(self, timeout: float, *, drain: float = 0.0) -> None:
        self.running = False


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> list[Counted]:
    """The workers that were made, for a data directory that does not exist yet."""
    settings.WFDASH_EMBED, settings.WFDASH_DATA_DIR = True, tmp_path / "wfdash-data"
    monkeypatch.setattr(process, "EmbeddedWorker", Counted)
    monkeypatch.setattr(process, "check_keys", lambda: None)
    monkeypatch.setattr(Counted, "made", [])
    monkeypatch.setattr(process, "_worker", None)
    return Counted.made


def test_it_starts_once_and_again_after_a_stop(made: list[Counted], tmp_path: Path) -> None:
    process.start_worker()
    process.start_worker()
    assert [worker.lock for worker in made] == [tmp_path / "wfdash-data/worker.lock"]
    process.stop_worker()
    process.stop_worker()
    process.start_worker()
    assert [worker.running for worker in made] == [False, True]


def test_a_process_that_only_serves_pages_starts_none(made: list[Counted], settings: Any) -> None:
    settings.WFDASH_EMBED = False
    process.start_worker()
    assert made == []


def test_pages_are_served_where_it_cannot_start(
    made: list[Counted], settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    settings.WFDASH_DATA_DIR = tmp_path / "file"
    with caplog.at_level(logging.ERROR):
        process.try_start_worker()
    assert (made, "manage.py wfdash_worker" in caplog.text) == ([], True)
