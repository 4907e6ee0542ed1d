"""The page and the API take the same answers over HTTP as the desk does, and never break on one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.test import Client
from hypothesis import given, settings

from checkpoints.models import HumanRequest, Run
from tests import people
from tests.forms.answers import fitting, meddled
from tests.forms.schemas import Case
from tests.forms.test_agreement import CHECKED, LONG, asked, cases
from tests.pages.controls import post_of
from wfdash.actions.requests.answer import validate_answer
from wfdash.values.schemas import formats
from wfdash.values.schemas.validate import flaws_of
from wfdash.web.pages.ui.forms.read import same

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1800 if LONG else 300)]
CARD = re.compile(r'<form\s+class="card-form".*?</form>', re.DOTALL)


@pytest.fixture
def ana(everybody: dict[str, User]) -> Client:
    client = Client()
    client.force_login(everybody["ana"])
    return client


@pytest.fixture
def everybody() -> dict[str, User]:
    return people.make_people()


def ask(case: Case, run: Run, suggestion: Any = None) -> HumanRequest:
    """Open a request as the runner would have, with an answer suggested."""
    row = asked(case).row
    return people.ask(
        run,
        key=f"{row.key}:{HumanRequest.objects.count()}",
        step=row.step,
        kind="question",
        card={"subject": "What?"},
        answer_schema=row.answer_schema,
        suggestion=None if suggestion is None else {"value": suggestion},
    )


def as_drawn(client: Client, request: HumanRequest) -> QueryDict:
    """What a browser would send for the card as the page shows it."""
    page = client.get(f"/requests/{request.pk}/")
    assert page.status_code == 200
    form = CARD.search(page.content.decode())
    assert form is not None
    return post_of(form[0])


@cases
def test_the_page_and_the_api_take_what_the_desk_takes(case: Case, ana: Client) -> None:
    run = people.make_run(workflow=asked(case).row.workflow)

    @settings(CHECKED, max_examples=10 if LONG else 1)
    @given(fitting(case.schema), meddled(case.schema))
    def both(fitting: Any, meddled: Any) -> None:
        for value in (fitting, meddled):
            if value is None or flaws_of(value):
                continue
            taken = not validate_answer(asked(case).row, value)
            given = {"value": value}
            told = ana.post(f"/api/v1/requests/{ask(case, run).pk}/answer", given, content_type="application/json")
            assert told.status_code == (200 if taken else 422), told.content
            request = ask(case, run, value)
            sent = as_drawn(ana, request)
            sent.update({name: value[name] for name in case.secrets if taken})
            page = ana.post(f"/requests/{request.pk}/", sent.urlencode(), "application/x-www-form-urlencoded")
            assert page.status_code in ({302} if taken else {302, 422}), page.content
            request.refresh_from_db()
            if page.status_code == 302 and request.answered is not None:
                assert same(request.answer.value, value) or not validate_answer(request, request.answer.value)

    both()


def test_what_only_the_type_refuses_is_told_at_its_field_and_leaves_the_request_open(ana: Client) -> None:
    case = next(case for case in cases.args[1] if case.name == "judged")
    request = ask(case, people.make_run(workflow="judged"), {"count": 3, "low": 1, "high": 2})
    page = ana.post(f"/requests/{request.pk}/", as_drawn(ana, request).urlencode(), "application/x-www-form-urlencoded")
    assert page.status_code == 422
    html = page.content.decode()
    assert "Must be even: take the next number" in html
    assert 'href="#field-count"' in html
    request.refresh_from_db()
    assert request.answered is None
    again = post_of(CARD.search(html)[0], count="4", low="5")
    crossed = ana.post(f"/requests/{request.pk}/", again.urlencode(), "application/x-www-form-urlencoded")
    assert "Low must not be more than high: swap them" in crossed.content.decode()
    done = post_of(CARD.search(crossed.content.decode())[0], high="6")
    assert (
        ana.post(f"/requests/{request.pk}/", done.urlencode(), "application/x-www-form-urlencoded").status_code == 302
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"properties": [], "required": 5},
        {"type": "object", "properties": {"a": {"minimum": "x", "maxLength": "y", "examples": 3, "enum": "z"}}},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"type": "array", "items": [], "prefixItems": {"a": 1}},
        {"anyOf": "x", "allOf": [5, {"$ref": 7}], "oneOf": [None]},
        {"type": "object", "properties": {"a": {"pattern": "(", "type": "string"}}, "patternProperties": {"(": {}}},
        {"type": ["object", 5], "additionalProperties": "yes", "propertyNames": 1, "then": 4, "dependentSchemas": []},
        {"type": "string", "format": 5, "contentMediaType": 7, "contentEncoding": [], "x-max-bytes": "many"},
        {"discriminator": {"propertyName": []}, "oneOf": [{"type": "object"}, {"properties": {"x": 1}}]},
    ],
)
def test_a_broken_schema_is_never_the_end_of_a_page(schema: dict[str, Any], ana: Client) -> None:
    request = people.ask(people.make_run(), kind="question", card={"subject": "What?"}, answer_schema=schema)
    for value in ({"a": "x"}, ["x"], "x", 5, None):
        HumanRequest.objects.filter(pk=request.pk).update(suggestion={"value": value})
        sent = as_drawn(ana, request)
        for press in ({}, {"_mode": "json"}, {"_add": "value"}):
            post = sent.copy()
            post.update(press)
            page = ana.post(f"/requests/{request.pk}/", post.urlencode(), "application/x-www-form-urlencoded")
            assert page.status_code < 500
            if page.status_code == 302:
                return


def test_a_file_of_full_size_is_kept_while_the_rest_is_mended(ana: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "file": {"type": "string", "contentEncoding": "base64"}},
        "required": ["name", "file"],
    }
    request = people.ask(people.make_run(), kind="form", card={"subject": "Which?"}, answer_schema=schema)
    file = SimpleUploadedFile("x.bin", b"\xff" * formats.MAX_FILE)
    refused = ana.post(f"/requests/{request.pk}/", {"name": "", "file": "", "file!file": file})
    assert refused.status_code == 422
    sent = post_of(CARD.search(refused.content.decode())[0], name="x")
    taken = ana.post(f"/requests/{request.pk}/", sent.urlencode(), "application/x-www-form-urlencoded")
    assert taken.status_code == 302


def test_a_form_may_have_more_than_a_thousand_fields(ana: Client) -> None:
    schema = {"type": "array", "items": {"type": "integer"}}
    request = people.ask(people.make_run(), kind="form", card={"subject": "Which?"}, answer_schema=schema)
    rows = {f"value.{index}": "1" for index in range(1000)}
    assert ana.post(f"/requests/{request.pk}/", {"value!": "1000", **rows}).status_code == 302


def test_an_action_is_edited_as_json_and_sent_as_that(ana: Client) -> None:
    edited = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
    schema = {
        "type": "object",
        "properties": {"action": {"enum": ["approve", "edit"]}, "edited": edited, "note": {"type": "string"}},
        "required": ["action"],
    }
    actions = [
        {"name": "approve", "fields": []},
        {"name": "edit", "fields": ["edited", "note"], "required": ["edited"]},
    ]
    card = {"subject": "Pay?", "proposal": {"a": 1, "b": "x"}, "actions": actions}
    request = people.ask(people.make_run(), card=card, answer_schema=schema)

    def post(html: str, **pressed: str) -> Any:
        sent = post_of(CARD.search(html)[0], **pressed)
        return ana.post(f"/requests/{request.pk}/", sent.urlencode(), "application/x-www-form-urlencoded")

    page = ana.get(f"/requests/{request.pk}/").content.decode()
    shown = post(page, _mode="edit:json")
    assert shown.status_code == 200
    assert "&quot;b&quot;: &quot;x&quot;" in shown.content.decode()
    for wrong, said in (
        ('{"edited": {"a": "no"}}', "Line 1, edited.a"),
        ("[1]", "group of fields"),
        ("{", "valid JSON"),
    ):
        refused = post(shown.content.decode(), **{"edit:_json": wrong, "_action": "edit"})
        assert refused.status_code == 422
        assert said in refused.content.decode()
    taken = post(shown.content.decode(), **{"edit:_json": '{"edited": {"a": 2}}', "_action": "edit"})
    assert taken.status_code == 302
