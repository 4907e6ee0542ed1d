from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from checkpoints.database.compiled import compiled, statement_of

pytestmark = pytest.mark.django_db
built: list[str] = []


@compiled
def named(prefix: str) -> QuerySet[Any, Any]:
    built.append(prefix)
    return Group.objects.filter(name__startswith=prefix).order_by("name").values_list("name")


def test_a_query_is_built_once_for_the_same_arguments_and_finds_what_is_there_now() -> None:
    built.clear()
    assert (named("fin").rows(), named("leg").rows()) == ([], [])
    Group.objects.create(name="finance")
    Group.objects.create(name="legal")
    assert (named("fin").rows(), named("leg").rows()) == ([("finance",)], [("legal",)])
    assert sorted(built) == ["fin", "leg"]


def test_a_limit_holds_for_counts_and_aggregates() -> None:
    Group.objects.bulk_create(Group(name=f"group {number}") for number in range(5))
    few = statement_of(Group.objects.order_by().values("pk", "name")[:3])
    assert few.count() == 3
    assert few.select("COUNT(*), MIN(name)") == (3, "group 0")


def test_a_query_that_can_find_nothing_is_not_sent(django_assert_num_queries: Any) -> None:
    nothing = statement_of(Group.objects.filter(pk__in=[]))
    with django_assert_num_queries(0):
        assert (nothing.rows(), nothing.count(), nothing.select("COUNT(*)")) == ([], 0, None)


def test_text_that_no_row_can_have_finds_nothing_in_a_kept_statement_too() -> None:
    assert named("a\x00").rows() == []
