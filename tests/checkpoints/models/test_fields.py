from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from checkpoints import models
from checkpoints.errors import InvalidValue
from checkpoints.ids import new_run_id

VALUES = [None, "text", "", 7, 1.5, True, [1, {"b": 1, "a": "é\x00"}], {"z": 1, "a": {"y": [], "b": None}}]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def alias(request: pytest.FixtureRequest, django_db_blocker: Any) -> Any:
    """Name each database in turn, open for the ORM."""
    name = request.getfixturevalue(f"{request.param}_alias")
    with django_db_blocker.unblock():
        yield name


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_any_document_comes_back_as_it_was_written(alias: str, value: Any) -> None:
    now, run = datetime.now(UTC), new_run_id()
    models.Run.objects.using(alias).create(id=run, workflow="w", family=run, input=value, created=now, updated=now)
    rows = models.Run.objects.using(alias).filter(id=run)
    assert rows.get().input == value
    assert rows.values_list("input", flat=True).get() == value
    rows.update(input={"again": value})
    assert rows.get().input == {"again": value}


def test_keys_keep_their_order_and_can_be_looked_up(alias: str) -> None:
    now, run = datetime.now(UTC), new_run_id()
    schema = {"type": "object", "properties": {"reason": {}, "amount": {}, "by": {}}}
    models.Run.objects.using(alias).create(id=run, workflow="w", family=run, input=schema, created=now, updated=now)
    rows = models.Run.objects.using(alias).filter(id=run)
    assert list(rows.get().input["properties"]) == ["reason", "amount", "by"]
    assert rows.filter(input__type="object").exists()
    assert not rows.filter(input__type="array").exists()
    assert rows.filter(input__type__icontains="OBJ").exists()
    assert rows.values_list("input__type", flat=True).get() == "object"


def made(alias: str, **given: Any) -> models.Run:
    now, run = datetime.now(UTC), new_run_id()
    facts = {"id": run, "workflow": "w", "family": run, "created": now, "updated": now} | given
    return models.Run.objects.using(alias).create(**facts)


@pytest.mark.parametrize("odd", ["\x00", "a\x00b", "\ud800", "\uffff"])
def test_text_that_no_column_holds_is_not_found_and_not_stored(alias: str, odd: str) -> None:
    run = made(alias)
    rows = models.Run.objects.using(alias)
    for look_up in ("id", "id__in", "title__icontains", "title__startswith", "workflow__iexact", "claim__token"):
        assert not rows.filter(**{look_up: [odd] if look_up.endswith("__in") else odd}).exists()
    assert not models.Checkpoint.objects.using(alias).filter(run_id=odd).exists()
    for write in (lambda: made(alias, title=odd), lambda: rows.filter(pk=run.pk).update(title=odd)):
        with pytest.raises(InvalidValue, match=r"run\.title: holds NUL or half a character"):
            write()


def test_text_that_is_too_long_is_refused_by_every_database_alike(alias: str) -> None:
    assert made(alias, title="t" * 300).title
    with pytest.raises(InvalidValue, match=r"run\.title: at most 300 characters fit, not 301: shorten it"):
        made(alias, title="t" * 301)
