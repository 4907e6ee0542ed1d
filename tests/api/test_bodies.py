"""Bodies with unknown fields are refused on every address, and every refusal has one shape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Run
from tests.api.openapi import operations

SHAPE = {"type", "title", "status", "detail", "code", "errors"}


def bodies() -> Iterator[tuple[str, str]]:
    """Yield method and address of whatever takes a body."""
    for path, methods in operations().items():
        for method, told in methods.items():
            if "requestBody" in told:
                yield method, path


def filled(path: str) -> str:
    for name in ("run_id", "checkpoint_id", "request_id", "schedule_id", "bulk_id"):
        path = path.replace(f"{{{name}}}", "x")
    for name in ("seq", "n", "grant_id", "absence_id", "rule_id"):
        path = path.replace(f"{{{name}}}", "1")
    return path.replace("{part}", "state")


def errors(answer: Any) -> dict[str, str]:
    assert answer.json().keys() == SHAPE
    return {".".join(map(str, one["loc"])): one["msg"] for one in answer.json()["errors"]}


@pytest.mark.parametrize(("method", "path"), list(bodies()))
def test_a_field_that_no_address_knows_is_refused_by_its_name(method: str, path: str, as_) -> None:
    answer = getattr(as_("adam"), method)(filled(path), {"no_such_field": 1}, content_type="application/json")
    assert answer.status_code == 422
    assert errors(answer)["no_such_field"].startswith("Unknown field. Available: ")


def test_a_start_whose_message_has_another_name_starts_nothing(as_) -> None:
    given = {"workflow": "expense_batch", "input": {"claims": "x"}}
    answer = as_("otto").post("/api/v1/runs", given, content_type="application/json")
    assert errors(answer) == {"input": "Unknown field. Available: workflow, message, key, callback"}
    assert not Run.objects.exists()


def test_what_is_missing_or_of_the_wrong_kind_is_named_where_it_is(as_) -> None:
    answer = as_("otto").post("/api/v1/runs", {"key": 5}, content_type="application/json")
    assert errors(answer)["workflow"] == "This field is required"
    assert "key" in errors(answer)
    assert "limit" in errors(as_("otto").get("/api/v1/runs?limit=0"))


def test_every_refusal_has_one_shape(question, everybody, as_) -> None:
    forged = Client(enforce_csrf_checks=True)
    forged.force_login(everybody["ana"])
    address = f"/api/v1/requests/{question.pk}/answer"
    refusals = {
        401: Client().get("/api/v1/runs"),
        403: forged.post(address, {"value": {}}, content_type="application/json"),
        400: as_("ana").post(address, "{", content_type="application/json"),
        404: as_("ana").get("/api/v1/nothing/here"),
        405: as_("ana").delete(address),
        422: as_("ana").post(address, {"answer": {}}, content_type="application/json"),
    }
    for status, answer in refusals.items():
        assert answer.status_code == status
        told = answer.json()
        assert told.keys() == SHAPE
        assert told["status"] == status
        assert told["type"] == f"http://testserver/api/v1/docs/#problem-{told['code']}"
        assert answer["Content-Type"] == "application/problem+json"
    assert refusals[401]["WWW-Authenticate"] == "Bearer"
    assert refusals[405]["Allow"] == "POST"
    assert "X-CSRFToken" in refusals[403].json()["detail"]


def test_debug_pages_leave_the_statuses_of_errors_alone(as_, settings) -> None:
    settings.DEBUG = True
    answer = as_("ana").get("/api/v1/runs/nothing")
    assert answer.status_code == 404
    assert answer.json().keys() == SHAPE


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"workflow": "a", "workflow": "b"}', "The field 'workflow' is given more than once"),
        ('{"workflow": "a", "message": {"a": [{"b": 1, "b": 2}]}}', "The field 'b' is given more than once"),
        ('{"workflow": "a", "message": NaN}', "NaN is no JSON number"),
        ('{"message": ' + "9" * 5000 + "}", "A number has 5000 digits: too many"),
        ('{"workflow": "a",}', "line 1, column 1"),
        ("[" * 200_000, "nested too deeply"),
        (b"\xff", "UTF-8"),
        ('{"message": [' + "[]," * 200_000 + "[]]}", "more than 200,000 values"),
    ],
)
def test_a_body_that_says_two_things_or_none_is_refused_with_the_reason(body: Any, said: str, as_) -> None:
    answer = as_("otto").post("/api/v1/runs", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("body", ["[]", "null", "3", '"x"', ""])
def test_a_body_that_is_no_object_is_refused_without_names_of_ours(body: str, as_) -> None:
    answer = as_("otto").post("/api/v1/runs", body, content_type="application/json")
    assert errors(answer) == {"": "Send a JSON object with the fields of this operation"}


def test_a_parameter_that_is_given_twice_is_refused_by_its_name(as_) -> None:
    assert errors(as_("otto").get("/api/v1/runs?limit=1&limit=2")) == {"limit": "Given more than once"}
