"""Times are written alike by SQL and by the ORM, and old ones are completed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Event, Thread

import pytest
from django.apps import apps
from django.db import connections, transaction
from django.utils import timezone

from checkpoints.database.compiled import FirstValues
from checkpoints.database.storage import write
from checkpoints.models import Checkpoint, HumanRequest, Run, WorkerBeat
from checkpoints.sql.sqlite import connect, write_lock
from checkpoints.sql.statements import SQLITE


@pytest.mark.parametrize("statement", ["SELECT {now}", "SELECT {later}"])
def test_a_time_that_sqlite_makes_is_as_long_as_one_it_is_given(statement, tmp_path):
    database = connect(str(tmp_path / "clock.sqlite3"))
    ((made,),) = database.execute(SQLITE.sql(statement), ("5",) * statement.count("later"))
    database.close()
    assert len(made) == len(SQLITE.moment(datetime(2026, 1, 5, tzinfo=UTC))) == 26
    assert SQLITE.time(made).tzinfo is UTC


def test_every_time_is_kept_with_six_decimals():
    models = [model for model in apps.get_app_config("checkpoints").get_models() if times_of(model)]
    assert len(models) > 20
    assert all(type(field).__name__ == "MomentField" for model in models for field in times_of(model))


def times_of(model):
    return [field for field in model._meta.local_fields if field.get_internal_type() == "DateTimeField"]


@pytest.mark.django_db(transaction=True)
def test_within_a_transaction_of_django_it_waits_for_no_one_who_waits_for_that_transaction() -> None:
    """As the audit does of what Django's admin saves."""
    held, written, in_time = Event(), Event(), []

    def hold() -> None:
        with write_lock:
            held.set()
            in_time.append(written.wait(5))

    thread = Thread(target=hold)
    with transaction.atomic():
        thread.start()
        held.wait()
        with write():
            written.set()
    thread.join()
    assert in_time == [True]


@pytest.mark.django_db
def test_the_first_value_of_each_query_is_found_by_one_statement(django_assert_num_queries) -> None:
    now = timezone.now()
    for n in (2, 1):
        WorkerBeat.objects.create(id=f"w{n}", started=now, seen=now - timedelta(seconds=n))
    beats = WorkerBeat.objects.order_by("seen")
    values = FirstValues(
        seen=beats.values_list("seen"),
        name=beats.values_list("pk"),
        none=Run.objects.values_list("pk"),
        never=Run.objects.filter(pk__in=[]).values_list("pk"),
        serves=beats.values_list("serves"),
    )
    values.read()
    with django_assert_num_queries(1):
        clock, found = values.read()
    assert found == {"seen": now - timedelta(seconds=2), "name": "w2"}
    assert abs((clock - now).total_seconds()) < 60


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
