from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from checkpoints.models import SignInTries
from wfdash.access.signin.attempt_limits import EVERYONE, PERIOD, AttemptLimit, charge, check, for_password, forgive
from wfdash.domain.errors import TooManyTries

THREE = [AttemptLimit(key="pair:ana", most=3)]


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def alias(request: Any, django_db_blocker: Any) -> Iterator[str]:
    """Both databases, with nothing counted yet."""
    name = request.getfixturevalue(request.param)
    with django_db_blocker.unblock():
        SignInTries.objects.using(name).all().delete()
        yield name
        connections[name].close()


def is_charged(limits: list[AttemptLimit], alias: str) -> bool:
    try:
        charge(limits, alias)
    except TooManyTries:
        return False
    return True


def test_of_many_tries_at_once_exactly_as_many_as_allowed_are_charged(alias: str) -> None:
    both = [*THREE, AttemptLimit(key=EVERYONE, most=100)]

    def one(number: int) -> bool:
        try:
            return is_charged(both if number % 2 else both[::-1], alias)
        finally:
            connections[alias].close()

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(one, range(16))) == 3
    assert dict(SignInTries.objects.using(alias).values_list("key", "count")) == {"pair:ana": 3, EVERYONE: 3}


def test_a_try_that_was_right_is_forgiven(alias: str) -> None:
    for _ in range(10):
        charge(THREE, alias)
        forgive(THREE, alias)
    check(THREE, alias)


def test_a_limit_is_renewed_after_its_period_and_says_how_long_that_is(alias: str) -> None:
    for _ in range(3):
        charge(THREE, alias)
    for look in (check, charge):
        with pytest.raises(TooManyTries, match="Wait 5 minutes or use a one-time link") as refused:
            look(THREE, alias)
        assert 290 < refused.value.facts["retry_after"] <= 300
    SignInTries.objects.using(alias).update(began=timezone.now() - PERIOD)
    check(THREE, alias)
    assert is_charged(THREE, alias)


def test_old_counters_do_not_pile_up(alias: str) -> None:
    old = timezone.now() - PERIOD - timedelta(seconds=1)
    rows = [SignInTries(key=f"name:{n}", began=old) for n in range(3)] + [SignInTries(key=EVERYONE, began=old)]
    SignInTries.objects.using(alias).bulk_create(rows)
    charge([AttemptLimit(key=EVERYONE, most=9)], alias)
    assert list(SignInTries.objects.using(alias).values_list("key", flat=True)) == [EVERYONE]


def test_what_was_typed_as_a_name_is_not_kept() -> None:
    keys = [limit.key for limit in for_password("correct horse", "203.0.113.7")]
    assert not any("horse" in key or "203.0" in key for key in keys)


def test_a_name_counts_alike_however_it_is_capitalised() -> None:
    assert for_password("Ana", "203.0.113.7") == for_password("ANA", "203.0.113.7")
