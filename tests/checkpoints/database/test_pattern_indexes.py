"""PostgreSQL has an index for LIKE only where something is looked for by a beginning."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db import connections

from checkpoints.models import Checkpoint, HumanRequest, Run

SEARCHED = {(model._meta.db_table, "id") for model in (Run, HumanRequest, Checkpoint)}
"""What the search over everything looks for by the beginning of its id."""
INDEXES = """
SELECT indrelid::regclass::text, attname FROM pg_index
JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_opclass ON pg_opclass.oid = indclass[0]
JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indnatts = 1 AND opcname IN ('varchar_pattern_ops', 'text_pattern_ops')
"""


@pytest.mark.postgres
def test_no_column_has_an_index_for_like_that_nothing_reads(postgres_alias: str, django_db_blocker) -> None:
    """A migration that makes a unique text, or a reference to a row whose key is one, has to leave it out."""
    tables = {model._meta.db_table for model in apps.get_app_config("checkpoints").get_models()}
    with django_db_blocker.unblock(), connections[postgres_alias].cursor() as cursor:
        cursor.execute(INDEXES)
        assert {(table, column) for table, column in cursor.fetchall() if table in tables} == SEARCHED
