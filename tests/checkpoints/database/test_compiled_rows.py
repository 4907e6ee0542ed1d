from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from checkpoints.database.compiled import FEW, Placeholder, Update, compiled_rows, compiled_update, insert
from checkpoints.models import Event, HumanRequest, Shown
from tests import people

pytestmark = pytest.mark.django_db
built: list[str] = []


@compiled_rows
def requests_of(workflow: str) -> QuerySet[HumanRequest]:
    built.append(workflow)
    named = User.objects.filter(pk=OuterRef("run__created_by_id"), username=Placeholder("name"))
    rows = HumanRequest.objects.filter(workflow=workflow, pk=Placeholder("id", HumanRequest._meta.pk)).order_by()
    return rows.select_related("run", "run__created_by", "answer", "assignee").annotate(theirs=Exists(named))


@compiled_rows
def names_of(count: int) -> QuerySet[Any, Any]:
    wanted: list[Any] = [Placeholder(f"id{place}") for place in range(count)]
    return HumanRequest.objects.filter(pk__in=wanted).order_by("key").values_list("key", "card", "created")


@compiled_update
def due_at() -> Update:
    due = Placeholder("due", HumanRequest._meta.get_field("due"))
    return HumanRequest.objects.filter(pk=Placeholder("id"), due__isnull=True), {"due": due, "step": "later"}


def test_rows_are_what_the_queryset_reads_related_objects_and_annotations_included(django_assert_num_queries) -> None:
    who = people.make_people()
    request = people.ask(people.make_run(created_by=who["otto"]), due=people.THEN)
    built.clear()
    for name, theirs in (("otto", True), ("ana", False)):
        with django_assert_num_queries(1):
            found = requests_of(people.WORKFLOW).first(id=request.pk, name=name)
            assert found is not None
            assert (found.theirs, found.run.created_by.username) == (theirs, "otto")
            assert (found.assignee, getattr(found, "answer", None)) == (None, None)
    read = HumanRequest.objects.get(pk=request.pk)
    same = [field.attname for field in HumanRequest._meta.concrete_fields]
    assert [getattr(found, name) for name in same] == [getattr(read, name) for name in same]
    assert (found._state.adding, found._state.db) == (False, "default")
    assert len(built) <= 1


def test_values_are_read_as_the_queryset_reads_them() -> None:
    requests = [people.ask(people.make_run(), f"Number {number}?") for number in range(2)]
    rows = list(names_of(2).all(id0=requests[0].pk, id1=requests[1].pk))
    assert rows == [(request.key, request.card, request.created) for request in requests]


def test_text_that_no_row_can_have_finds_nothing() -> None:
    people.ask(people.make_run())
    for text in ("a\x00", "\ud800", "x" * 1000):
        assert requests_of(people.WORKFLOW).first(id=text, name="otto") is None


def test_a_query_that_can_find_nothing_is_not_sent(django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert names_of(0).first() is None


def test_a_look_up_that_would_take_a_placeholder_for_a_text_is_refused() -> None:
    """A list of keys of related rows is compared as values: it would find nothing, whatever is given."""
    with pytest.raises(TypeError, match="takes no placeholder"):
        compiled_rows(lambda: HumanRequest.objects.filter(run__in=[Placeholder("run")]))()


def test_an_inserted_row_is_stored_as_the_orm_stores_it() -> None:
    run = people.make_run()
    insert(Event(run=run, seq=1, kind="step.started", step="pay", data={"n": 1}, at=people.THEN))
    Event.objects.create(run=run, seq=2, kind="step.started", step="pay", data={"n": 1}, at=people.THEN)
    columns = ("kind", "step", "data", "at", "run_id")
    one, two = Event.objects.order_by("seq").values_list(*columns)
    assert one == two


@pytest.mark.parametrize("count", [1, 2, FEW + 1])
def test_a_row_whose_key_is_taken_is_left_out_where_that_is_wanted(count: int) -> None:
    def rows() -> list[Shown]:
        named = {"request": "r", "kind": "card", "at": people.THEN}
        return [Shown(id=f"r:{number}", body=f"body {number}", **named) for number in range(count)]

    insert(*rows()[:1])
    insert(*rows(), ignore_conflicts=True)
    assert Shown.objects.count() == count
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(*rows())


def test_an_inserted_row_can_be_changed_and_saved_like_any_other() -> None:
    shown = Shown(id="r:1", request="r", kind="card", body="before", at=people.THEN)
    insert(shown)
    shown.body = "after"
    shown.save()
    assert Shown.objects.get().body == "after"


def test_what_is_inserted_is_encrypted_like_everything_else(settings) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a" * 40
    insert(Shown(id="r:1", request="r", kind="card", body="a secret", at=people.THEN))
    assert "a secret" not in str(Shown.objects.values_list("body", flat=True).get())
    assert Shown.objects.get().body == "a secret"


def test_an_update_returns_how_many_rows_it_found() -> None:
    request = people.ask(people.make_run())
    assert due_at().execute(id=request.pk, due=people.THEN) == 1
    assert due_at().execute(id=request.pk, due=people.THEN) == 0
    read = HumanRequest.objects.get()
    assert (read.due, read.step) == (people.THEN, "later")
