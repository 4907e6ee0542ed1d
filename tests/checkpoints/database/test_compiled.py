from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from checkpoints.database.compiled import Statement, compiled, compiled_condition, compiled_filter, statement_of

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


def test_a_filter_kept_as_sql_finds_what_the_filter_finds_beside_other_conditions() -> None:
    for name in ("finance", "legal", "lending"):
        Group.objects.create(name=name)
    begins = compiled_filter(Group, lambda prefix: Q(name__startswith=prefix))
    assert [group.name for group in Group.objects.filter(begins("le"), pk__gt=0).exclude(name="lending")] == ["legal"]
    assert Group.objects.filter(begins("le") | Q(name="finance")).count() == 3
    assert not Group.objects.filter(compiled_filter(Group, lambda: Q(pk__in=[]))()).exists()


def test_a_condition_is_asked_of_rows_that_carry_the_name_of_its_table() -> None:
    Group.objects.bulk_create(Group(name=name) for name in ("finance", "legal", "lending"))
    rows = statement_of(Group.objects.order_by().values("id", "name"))

    def count(condition: Statement) -> int:
        sql = f"SELECT id FROM ({rows.sql}) AS auth_group WHERE {condition.sql}"
        return Statement(sql=sql, params=(*rows.params, *condition.params)).count()

    begins = compiled_condition(Group)(lambda prefix: Q(name__startswith=prefix))
    assert (count(begins("le")), count(begins("fin"))) == (2, 1)
    assert count(compiled_condition(Group)(lambda: Q(pk__in=[]))()) == 0
    assert count(compiled_condition(Group)(lambda: ~Q(pk__in=[]))()) == 3


def test_a_filter_that_joins_tables_stays_as_it_is() -> None:
    Group.objects.create(name="finance").user_set.create(username="ana")
    held = compiled_filter(Group, lambda name: Q(user__username=name))
    assert (Group.objects.filter(held("ana")).count(), Group.objects.filter(held("ben")).count()) == (1, 0)
