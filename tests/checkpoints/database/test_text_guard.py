from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction

from checkpoints.database import direct
from checkpoints.errors import InvalidValue

ODD = ("\x00", "a\x00", "\ud800", "x\udfff")


@pytest.mark.django_db
@pytest.mark.parametrize("odd", ODD)
def test_a_look_up_for_text_that_no_row_can_have_finds_nothing(odd: str) -> None:
    Group.objects.create(name="finance")
    assert not User.objects.filter(username=odd).exists()
    assert Group.objects.filter(name__in=["finance", odd]).count() == 1
    assert not Group.objects.filter(name__icontains=odd).exists()
    assert Group.objects.filter(name=odd).delete() == (0, {})


@pytest.mark.django_db
@pytest.mark.parametrize("odd", ODD)
def test_a_write_of_such_text_is_refused_in_words(odd: str) -> None:
    with pytest.raises(InvalidValue, match="NUL or half a character"), transaction.atomic():
        Group.objects.create(name=odd)
    assert not Group.objects.exists()


def given(sql: str, *params: Any) -> Any:
    """Return the parameters that reach the database."""
    return direct.keep_storable(lambda sql, params, many, context: params, sql, params, False, {})


def test_what_a_driver_can_hold_is_passed_on_as_it_is() -> None:
    params = ("é\u202e\U0001f600", 1, None, b"\x00", "\uffff")
    for sql in ("SELECT 1", "INSERT INTO x", "UPDATE x"):
        assert given(sql, *params) == params


@pytest.mark.parametrize("sql", ["SELECT 1", " select 1", "(SELECT 1)", "DELETE FROM x"])
def test_a_parameter_of_a_look_up_becomes_one_that_no_row_has(sql: str) -> None:
    assert given(sql, "a\x00", "b", 2) == ["a\uffff", "b", 2]
