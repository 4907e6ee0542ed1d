from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkpoints import checks


def test_the_configured_database_is_supported() -> None:
    assert checks.check_database(None) == []


def test_another_engine_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "connection", SimpleNamespace(vendor="oracle"))
    (error,) = checks.check_database(None)
    assert error.id == "checkpoints.E001"
    assert "SQLite or PostgreSQL" in str(error.hint)


def test_a_database_in_memory_is_refused() -> None:
    (error,) = checks.check_file({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})
    assert error.id == "checkpoints.E002"
