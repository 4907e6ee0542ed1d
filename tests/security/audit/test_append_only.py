"""The trigger that docs/audit.md offers for PostgreSQL refuses what it says, and nothing that wfdash does."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from django.db import DatabaseError, connections, transaction
from django.utils import timezone

from checkpoints.models import AuditEntry

DOCS = Path(__file__).parents[3] / "docs" / "audit.md"


@pytest.mark.postgres
def test_the_documented_trigger_lets_entries_be_added_and_sealed_again_only(
    postgres_alias: str, django_db_blocker: Any
) -> None:
    text = DOCS.read_text()
    block = text[text.index("    CREATE FUNCTION audit_is") : text.index("    REVOKE DELETE")]
    rows = AuditEntry.objects.using(postgres_alias)
    with django_db_blocker.unblock(), transaction.atomic(postgres_alias):
        with connections[postgres_alias].cursor() as cursor:
            cursor.execute(dedent(block))
        rows.create(n=1, at=timezone.now(), actor="ana", verb="tag", facts={"a": 1}, prev="", hash="h")
        rows.update(facts={"a": 2})
        for refused in (
            lambda: rows.update(actor="mallory"),
            lambda: rows.filter(n=1).delete(),
            lambda: connections[postgres_alias].cursor().execute("TRUNCATE checkpoints_auditentry"),
        ):
            with pytest.raises(DatabaseError, match="only added"), transaction.atomic(postgres_alias):
                refused()
        transaction.set_rollback(True, postgres_alias)
