from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from checkpoints.database import schema
from checkpoints.database.storage import DatabaseStorage
from checkpoints.errors import Unsupported
from checkpoints.ids import new_run_id


def test_the_configured_database_is_supported() -> None:
    assert schema.check_database(None) == []


def test_another_engine_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "connection", lambda: SimpleNamespace(vendor="oracle"))
    (error,) = schema.check_database(None)
    assert error.id == "checkpoints.E001"
    assert "SQLite or PostgreSQL" in str(error.hint)


@pytest.mark.parametrize("vendor", ["mysql", "oracle"])
def test_a_server_does_not_start_on_a_database_of_another_vendor(monkeypatch: pytest.MonkeyPatch, vendor: str) -> None:
    monkeypatch.setattr(schema, "connection", lambda: SimpleNamespace(vendor=vendor))
    with pytest.raises(ImproperlyConfigured, match=f"cannot be kept in {vendor}. Use SQLite or PostgreSQL"):
        schema.refuse_database()


async def test_a_storage_does_not_open_a_database_of_another_vendor(
    sqlite_alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections[sqlite_alias], "vendor", "mysql")
    with pytest.raises(Unsupported, match="cannot be kept in mysql: use SQLite or PostgreSQL"):
        await DatabaseStorage(sqlite_alias).get_latest(new_run_id())


def test_a_name_that_is_none_of_the_databases_is_refused(settings: Any) -> None:
    settings.WFDASH_DATABASE_ALIAS = "workflow"
    (error,) = schema.check_database(None)
    known = ", ".join(repr(alias) for alias in connections)
    assert (error.id, error.hint) == ("checkpoints.E003", f"Name one of DATABASES ({known}), or leave it empty.")


def test_a_database_in_memory_is_refused() -> None:
    (error,) = schema.check_file({"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"})
    assert error.id == "checkpoints.E002"
