"""Indexes are built while others write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connections, models
from django.db.migrations import AddIndex
from django.db.migrations.loader import MigrationLoader

from checkpoints.database.schema import AddIndexConcurrently
from tests.checkpoints.sql.postgres.beside import LOCK_WAITS, connected
from tests.pubsub.conftest import eventually

WRITE = "UPDATE checkpoints_run SET created = created WHERE false"
FROM = 14
"""The first migration that may meet an installation's large tables."""


def test_no_migration_builds_an_index_that_writers_wait_for() -> None:
    later = {
        name: migration
        for (app, name), migration in MigrationLoader(None).disk_migrations.items()
        if app == "checkpoints" and int(name[:4]) >= FROM
    }
    assert any(isinstance(each, AddIndexConcurrently) for one in later.values() for each in one.operations)
    for name, migration in later.items():
        made = {each.name_lower for each in migration.operations if hasattr(each, "fields")}
        for each in migration.operations:
            if isinstance(each, AddIndex) and each.model_name_lower not in made:
                assert isinstance(each, AddIndexConcurrently), f"{name} builds {each.index.name} in its transaction"
                assert not migration.atomic, name


@pytest.mark.parametrize("backwards", [False, True], ids=["build", "drop"])
def test_writers_go_on_while_one_that_takes_long_holds_the_index_up(postgres_alias: str, backwards: bool) -> None:
    operation = AddIndexConcurrently("run", models.Index(fields=["created"], name="of_a_test"))
    state = SimpleNamespace(apps=apps)
    if backwards:
        migrate(postgres_alias, operation.database_forwards, state)
    way = operation.database_backwards if backwards else operation.database_forwards
    with ThreadPoolExecutor(1) as thread, connected(postgres_alias) as slow, connected(postgres_alias) as writer:
        writer.autocommit = True
        slow.execute(WRITE)
        done = thread.submit(migrate, postgres_alias, way, state)
        eventually(lambda: writer.execute(LOCK_WAITS).fetchall()[0][0])
        writer.execute("SET lock_timeout = '1s'")
        writer.execute(WRITE)
        slow.commit()
        done.result()
        found = writer.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('of_a_test')").fetchall()
    assert found == ([] if backwards else [(True,)])
    if not backwards:
        migrate(postgres_alias, operation.database_backwards, state)


def migrate(alias: str, way: Callable[..., None], state: SimpleNamespace) -> None:
    """Do it as a migration that is not atomic does."""
    with connections[alias].schema_editor(atomic=False) as editor:
        way("checkpoints", editor, state, state)
    connections[alias].close()
