"""PostgreSQL has an index for LIKE only where something is looked for by a beginning."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connections

from checkpoints.database.schema import DropPatternIndexes, pattern_indexes
from checkpoints.models import Checkpoint, HumanRequest, Run
from tests.checkpoints.database.test_concurrent_index import migrate

SEARCHED = {(model._meta.db_table, "id") for model in (Run, HumanRequest, Checkpoint)}
"""What the search over everything looks for by the beginning of its id."""
DROP = DropPatternIndexes(kept=["run.id", "humanrequest.id", "checkpoint.id"])


def there(alias: str) -> set[tuple[str, str]]:
    """Return table and column of each index for LIKE."""
    tables = [model._meta.db_table for model in apps.get_app_config("checkpoints").get_models()]
    return {(table, column) for table in tables for column in pattern_indexes(connections[alias], table).values()}


@pytest.mark.postgres
def test_no_column_has_an_index_for_like_that_nothing_reads(postgres_alias: str, django_db_blocker) -> None:
    """A migration that makes a unique text, or a reference to a row whose key is one, ends with this operation."""
    with django_db_blocker.unblock():
        assert there(postgres_alias) == SEARCHED


@pytest.mark.postgres
def test_they_are_made_again_on_the_way_back(postgres_alias: str, django_db_blocker) -> None:
    state = SimpleNamespace(apps=apps)
    migrate(postgres_alias, DROP.database_backwards, state)
    with django_db_blocker.unblock():
        assert there(postgres_alias) > SEARCHED | {
            ("checkpoints_reply", "request_id"),
            ("checkpoints_run", "start_key"),
        }
    migrate(postgres_alias, DROP.database_forwards, state)
    with django_db_blocker.unblock():
        assert there(postgres_alias) == SEARCHED
