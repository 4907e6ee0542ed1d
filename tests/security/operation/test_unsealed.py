"""Content that was not written with the keys is refused wherever it is read, and shown as a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.test import Client

from checkpoints.content.encryption import NotEncrypted
from checkpoints.database.installation_key import encrypted_columns, encrypted_tables
from checkpoints.database.runs import read_row
from checkpoints.database.storage import write
from checkpoints.ids import new_checkpoint_id
from checkpoints.models import Chunk, HumanRequest, Run
from tests import people
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import comment_on

KEY = "a-secret-that-is-long-enough-to-be-one"
FORGED = '{"subject": "Pay 10 to Supplier Ltd"}'
STATE = "Not encrypted with your keys"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def keys(settings: Any) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = KEY


def forge(row: models.Model, column: str, content: str = FORGED) -> None:
    """Write plain text into a column by SQL."""
    place: Any = row._meta.pk
    with connection.cursor() as cursor:
        table = row._meta.db_table
        cursor.execute(f"UPDATE {table} SET {column}=%s WHERE {place.column}=%s", [content, row.pk])
        assert cursor.rowcount == 1


def filled(model: type[models.Model], made: dict[type[models.Model], models.Model] | None = None) -> models.Model:
    """Return a row of that table with every column that has no default filled in, and what it refers to."""
    made = {} if made is None else made
    if model in made:
        return made[model]
    given: dict[str, Any] = {}
    for field in model._meta.concrete_fields:
        if (
            field.generated
            or (field.null and field not in encrypted_columns(model))
            or isinstance(field, models.AutoField)
        ):
            continue
        if isinstance(field, models.ForeignKey):
            given[field.name] = filled(field.related_model, made)
        elif field in encrypted_columns(model):
            given[field.name] = {} if isinstance(field, models.JSONField) else "content"
        elif isinstance(field, models.DateTimeField):
            given[field.name] = people.THEN
        elif not field.has_default():
            given[field.name] = 1 if isinstance(field, models.IntegerField | models.FloatField) else "a"
    made[model] = model._default_manager.create(**given)
    return made[model]


COLUMNS = [(model, column) for model in encrypted_tables() for column in encrypted_columns(model)]


@pytest.mark.parametrize(("model", "column"), COLUMNS, ids=[f"{m._meta.model_name}.{c.name}" for m, c in COLUMNS])
def test_plain_text_in_an_encrypted_column_is_refused(model: type[models.Model], column: Any, settings: Any) -> None:
    row = filled(model)
    forge(row, column.column)
    place = " ".join((column.table, *column.row_of(row)))
    with pytest.raises(NotEncrypted, match="restore the row from a backup") as caught:
        getattr(model._default_manager.get(pk=row.pk), column.name)
    assert str(caught.value).startswith(place)
    assert "add plain" in str(caught.value)
    with pytest.raises(CommandError, match=place):
        call_command("rotate_keys")
    settings.WFDASH_ENCRYPTION_KEYS = f"{KEY},plain"
    assert "Supplier" in str(getattr(model._default_manager.get(pk=row.pk), column.name))


def test_a_wrapped_plain_text_is_refused_too() -> None:
    asked = people.ask(people.make_run())
    forge(asked, "card", '{"sealed": "wfdash-sealed:plain:e30="}')
    with pytest.raises(NotEncrypted):
        _ = HumanRequest.objects.get(pk=asked.pk).card


def test_a_database_from_before_encryption_is_taken_over_with_plain_in_the_list(settings: Any) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = ""
    asked = people.ask(people.make_run())
    settings.WFDASH_ENCRYPTION_KEYS = f"{KEY},plain"
    call_command("rotate_keys", verbosity=0)
    settings.WFDASH_ENCRYPTION_KEYS = KEY
    assert HumanRequest.objects.get(pk=asked.pk).card["subject"] == "Pay 900?"


def checkpoint_of(run: Run, body: dict[str, Any] | None = None) -> Any:
    from checkpoints.database.runs import insert_row
    from checkpoints.records import Checkpoint

    facts = {"workflow": run.workflow, "n": run.n + 1, "version": run.version, "created": people.THEN, "seq": run.seq}
    record = Checkpoint(id=new_checkpoint_id(), run=run.pk, body=body or {"state": {}, "position": {}}, **facts)
    Run.objects.filter(pk=run.pk).update(n=run.n + 1)
    return insert_row(record, run, seq=run.seq)


@pytest.mark.parametrize("verb", [restore_run, fork_run], ids=["restore", "fork"])
def test_a_forged_checkpoint_is_neither_restored_nor_forked(verb: Callable[..., Any]) -> None:
    people.make_people()
    run = people.make_run(phase="failed")
    row = checkpoint_of(run)
    forge(row, "body", f"0:{'0' * 64}:{{}}")
    stored = type(row)._default_manager.get(pk=row.pk)
    with pytest.raises(NotEncrypted):
        read_row(stored)
    with pytest.raises(NotEncrypted):
        verb(people.viewer("otto"), run.pk, row.pk)


def test_a_forged_chunk_is_refused() -> None:
    run = people.make_run()
    row = checkpoint_of(run, {"state": {f"key {i}": "word " * 200 for i in range(60)}, "position": {}})
    chunk = Chunk.objects.filter(family=run.family).first()
    assert chunk is not None
    Chunk.objects.filter(pk=chunk.pk).update(data=b'{"forged": 1}')
    with pytest.raises(NotEncrypted, match="chunk"):
        read_row(type(row)._default_manager.get(pk=row.pk))


def test_a_forged_card_can_be_neither_shown_nor_approved(client: Client) -> None:
    """The attack: who approves is shown another amount than the one that is paid."""
    everybody = people.make_people()
    asked = people.ask(people.make_run(), "Pay 999 to Mallory")
    forge(asked, "card")
    with pytest.raises(NotEncrypted), write():
        answer_request(people.viewer("ana"), asked.pk, {"action": "approve"})
    client.force_login(everybody["ana"])
    page = client.get(f"/requests/{asked.pk}/")
    assert page.status_code == 409
    assert STATE in page.content.decode()
    assert "Supplier" not in page.content.decode()
    told = client.get(f"/api/v1/requests/{asked.pk}")
    assert told.status_code == 409
    assert "restore the row from a backup" in told.json()["detail"]


LISTS = ["/", "/runs/", "/runs/{run}/", "/audit/", "/notifications/"]
LISTS += ["/api/v1/requests", "/api/v1/runs", "/api/v1/runs/{run}/events"]


@pytest.mark.parametrize("address", LISTS)
def test_one_forged_row_takes_no_list_down(client: Client, address: str) -> None:
    everybody = people.make_people()
    run = people.make_run(phase="failed", error={"type": "ValueError", "message": "no"})
    forged, sound = people.ask(run, "Pay 999?"), people.ask(run, "Pay 1?")
    people.happen(run, ("request.opened", "review", {"key": "k", "subject": "x"}), ("log", "review", {"message": "m"}))
    comment_on(people.viewer("adam"), sound.pk, "Looks good @otto")
    forge(forged, "card")
    forge(run, "error", '{"type": "Supplier", "message": "no"}')
    forge(run, "input")
    for model, column in COLUMNS:
        if model._meta.model_name in {"event", "auditentry", "notice", "comment"}:
            forge(model._default_manager.order_by("-pk").first(), column.column)
    client.force_login(everybody["otto"])
    page = client.get(address.format(run=run.pk))
    assert page.status_code == 200, page.content[:600]
    assert "Supplier" not in page.content.decode()
    if address in {"/", "/runs/", "/audit/", "/notifications/", "/api/v1/requests"}:
        assert STATE in page.content.decode()


def test_one_forged_card_keeps_no_other_request_from_being_announced() -> None:
    from wfdash.actions.requests.announce import announce_opened

    people.make_people()
    run = people.make_run()
    forged = people.ask(run, "Pay 999?", told=None)
    people.ask(run, "Pay 1?", told=None)
    forge(forged, "card")
    announce_opened()
    assert not HumanRequest.objects.filter(told=None).exists()
