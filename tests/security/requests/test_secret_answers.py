"""What a form calls a secret reaches the step it was given for, and no one's eyes."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pydantic import BaseModel, SecretStr

from checkpoints.models import AuditEntry, Checkpoint, HumanRequest, Run
from tests.driving import drive, put
from tests.people import make_people, viewer
from tests.workflow.world import flow
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.requests.answer import answer_request, undo_answer
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.audit import read_entry
from wfdash.values.codec import codec_for
from wfdash.values.schemas.secrets import HIDDEN
from wfdash.workflow import Context, Form, Workflow

pytestmark = pytest.mark.django_db(transaction=True)
SECRET, GIVEN = "hush-hush", "psst-psst"


class Login(BaseModel):
    user: str
    token: SecretStr


class Order(BaseModel):
    what: str
    pin: SecretStr


def bank(seen: list[str]) -> Workflow:
    async def sign_in(order: Order, ctx: Context) -> dict[str, str]:
        login = await ctx.ask(Form(subject="Sign in to the bank", body="kim"), answer=Login)
        seen.extend([login.token.get_secret_value(), order.pin.get_secret_value()])
        return {"user": login.user, "token": login.token.get_secret_value()}

    async def pay(login: dict[str, str], ctx: Context) -> str:
        await ctx.ask("Pay?")
        return "kim"

    return flow(sign_in, pay, name="bank")


@pytest.fixture
def seen() -> list[str]:
    """What the step was given."""
    return []


@pytest.fixture
def run(transactional_db: Any, monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> Run:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", cache(lambda: found))
    put(found, bank(seen))
    make_people()
    run = start_run(viewer("otto"), "bank", {"what": "kim", "pin": GIVEN})
    assert drive(run) == "waiting"
    return run


def client_of(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def body_of(answer: Any) -> str:
    assert answer.status_code in {200, 409, 422}, answer.content[:300]
    return str((answer.getvalue() if answer.streaming else answer.content).decode())


@pytest.fixture
def asked(run: Run) -> HumanRequest:
    return HumanRequest.objects.get(run=run)


@pytest.fixture
def answered(run: Run, asked: HumanRequest) -> HumanRequest:
    """Let ana give the secret, and the run go on to its next question."""
    value = {"user": "kim", "token": SECRET}
    told = client_of("ana").post(
        f"/api/v1/requests/{asked.pk}/answer", {"value": value, "undo": False}, content_type="application/json"
    )
    assert told.status_code == 200, told.content
    assert told.json()["value"] == {"user": "kim", "token": HIDDEN}
    assert drive(run) == "waiting"
    return asked


def test_the_step_gets_what_was_given_to_the_form_and_to_the_run(answered: HumanRequest, seen: list[str]) -> None:
    assert set(seen) == {SECRET, GIVEN}


PLACES = [
    "/audit/",
    "/audit/{answer}/",
    "/audit/export.json",
    "/audit/export.csv",
    "/runs/{run}/audit/",
    "/runs/{run}/",
    "/runs/{run}/?step=sign_in&activation=1",
    "/runs/{run}/events/",
    "/runs/{run}/events.jsonl",
    "/runs/{run}/state/",
    "/runs/{run}/state/?what=input",
    "/runs/{run}/state/?what=position",
    "/runs/{run}/at/{n}/",
    "/runs/{run}/at/1/",
    "/requests/{request}/",
    "/api/v1/requests/{request}",
    "/api/v1/runs/{run}",
    "/api/v1/runs/{run}/events",
    "/api/v1/runs/{run}/checkpoints/{first}",
    "/api/v1/runs/{run}/checkpoints/{first}/edits",
]


@pytest.mark.parametrize("place", PLACES)
def test_no_page_and_no_reply_shows_it(run: Run, answered: HumanRequest, place: str) -> None:
    # The input's own name is hidden as well.
    first = Checkpoint.objects.filter(run=run, waiting=1).earliest("n")
    told = {
        "answer": AuditEntry.objects.get(verb="answer").n,
        "first": first.pk,
        "n": Checkpoint.objects.filter(run=run).latest("n").n,
    }
    body = body_of(client_of("adam").get(place.format(run=run.pk, request=answered.pk, **told)))
    assert SECRET not in body
    assert GIVEN not in body
    assert "kim" in body or "state/?what=input" not in place


def test_the_chain_holds_no_secret(answered: HumanRequest) -> None:
    assert SECRET not in json.dumps(list(AuditEntry.objects.values_list("facts", flat=True)))
    assert AuditEntry.objects.get(verb="answer").facts["value"] == {"user": "kim", "token": HIDDEN}


def test_a_second_answer_is_refused_without_telling_the_first(answered: HumanRequest) -> None:
    value = {"user": "kim", "token": "other"}
    address = f"/api/v1/requests/{answered.pk}/answer"
    told = client_of("ben").post(address, {"value": value}, content_type="application/json")
    assert told.status_code == 409
    assert SECRET not in body_of(told)


def test_neither_a_preview_nor_a_restored_question_suggests_it(run: Run, answered: HumanRequest) -> None:
    first = Checkpoint.objects.filter(run=run, waiting=1).earliest("n")
    address = f"/api/v1/runs/{run.pk}/checkpoints/{first.pk}/preview"
    assert SECRET not in body_of(client_of("otto").post(address, {}, content_type="application/json"))
    restore_run(viewer("otto"), run.pk, first.pk)
    again = HumanRequest.objects.get(run=run, closed=None, answered=None)
    assert again.suggestion is not None
    assert again.suggestion["value"] == {"user": "kim"}
    for place in (f"/requests/{again.pk}/", f"/api/v1/requests/{again.pk}", f"/runs/{run.pk}/events/"):
        assert SECRET not in body_of(client_of("ana").get(place))


def test_what_was_taken_back_begins_the_form_without_it(asked: HumanRequest) -> None:
    answer_request(viewer("ana"), asked.pk, {"user": "kim", "token": SECRET}, undo=True)
    undo_answer(viewer("ana"), asked.pk)
    body = body_of(client_of("ana").get(f"/requests/{asked.pk}/"))
    assert "kim" in body
    assert SECRET not in body


def test_the_admin_pages_show_no_content(run: Run, answered: HumanRequest) -> None:
    User.objects.create_superuser("root")
    client = client_of("root")
    event = run.events.filter(kind="step.finished").first()
    places = [f"run/{run.pk}", f"humanrequest/{answered.pk}", f"event/{event.pk}"]
    for place in places:
        body = body_of(client.get(f"/admin/checkpoints/{place}/change/"))
        assert SECRET not in body
        assert GIVEN not in body


def test_entries_from_before_are_hidden_where_they_are_shown_and_stay_as_they_were(
    answered: HumanRequest, tmp_path: Any
) -> None:
    """The chain covers what was written; pages and tables hide it, and a pack must hold it to be proven."""
    from wfdash.actions import audit

    facts = {"value": {"token": SECRET}, "via": "", "subject": "old"}
    audit.record(viewer("ana"), "answer", workflow="bank", request=answered.pk, facts=facts)
    entry = AuditEntry.objects.latest("n")
    client = client_of("adam")
    for place in (f"/audit/{entry.n}/", "/audit/", "/audit/export.csv"):
        assert SECRET not in body_of(client.get(place))
    rows = list(csv.DictReader(io.StringIO(body_of(client.get("/audit/export.csv")))))
    assert HIDDEN in next(row["value"] for row in rows if row["n"] == str(entry.n))
    assert read_entry(viewer("adam"), entry.n).facts["value"] == {"token": HIDDEN}
    path = tmp_path / "pack.json"
    path.write_text(body_of(client.get("/audit/export.json")))
    call_command("verify", str(path), stdout=io.StringIO())


class Both(BaseModel):
    logins: list[Login]
    either: Login | None = None
    by_name: dict[str, SecretStr] = {}


def test_a_secret_is_stored_as_it_is_wherever_it_lies_in_a_type() -> None:
    login = Login(user="a", token=SecretStr("t"))
    value = Both(logins=[login], either=login, by_name={"x": SecretStr("y")})
    stored = codec_for(Both).encode(value)
    assert stored["logins"][0]["token"] == stored["either"]["token"] == "t"
    assert stored["by_name"] == {"x": "y"}
    assert codec_for(Both).decode(stored) == value
    assert "'t'" not in repr(value)
