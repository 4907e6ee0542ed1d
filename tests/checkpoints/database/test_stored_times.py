"""Times are written alike by SQL and by the ORM, and old ones are completed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.apps import apps

from checkpoints.sql.sqlite import connect
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
