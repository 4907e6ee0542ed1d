from __future__ import annotations

import pytest
from django.db import connection

from tests import people
from wfdash.queries.account import unread_of


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["otto", "ana"])
def test_unread_notifications_are_counted_without_reading_the_requests_of_others(everybody, name: str) -> None:
    statement = unread_of(people.viewer(name))
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement.sql}", statement.params)
        steps = [row[3] for row in cursor.fetchall()]
    assert not any("SCAN" in step for step in steps)
    assert all("(id=?)" in step for step in steps if "humanrequest" in step)
    assert any("notice_unread" in step for step in steps)
