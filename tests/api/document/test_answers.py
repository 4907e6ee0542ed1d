"""The OpenAPI document: what it promises of every operation."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from pydantic import BaseModel

from wfdash import records
from wfdash.web.api.document import BODIES, LINES, operations
from wfdash.web.api.router import api_document

JSON = "application/json"


def answers() -> list[tuple[str, str, dict[str, Any]]]:
    """Return operation, status and content of every response that is no problem and has a body."""
    return [
        (one["operationId"], status, {JSON: answer["content"].get(LINES), **answer["content"]})
        for _, _, one in operations(api_document())
        for status, answer in one["responses"].items()
        if status.startswith("2") and status != "204"
    ]


MODULES = [import_module(f"wfdash.records.{module.name}") for module in iter_modules(records.__path__)]
RECORDS = {
    name: one
    for module in MODULES
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, BaseModel)
}


def record_of(content: dict[str, Any]) -> Any:
    return RECORDS.get(content[JSON]["schema"].get("$ref", "/nothing").rpartition("/")[2])


def test_the_document_says_how_to_sign_in_and_what_may_go_wrong() -> None:
    document = api_document()
    assert document["openapi"].startswith("3.1")
    assert document["components"]["securitySchemes"].keys() == {"bearer", "session"}
    started = document["paths"]["/api/v1/runs"]["post"]
    assert {"201", "400", "401", "403", "404", "409", "413", "422", "429", "503"} <= started["responses"].keys()
    assert "example" in started["requestBody"]["content"][JSON]
    assert {one["name"] for one in started["parameters"]} == {"Idempotency-Key"}


def test_every_answer_is_a_record_whose_fields_are_named() -> None:
    untyped = [(name, status) for name, status, content in answers() if record_of(content) is None]
    assert untyped == []
    assert [
        record.__name__ for record in map(record_of, (one[2] for one in answers())) if not record.model_fields
    ] == []


def test_every_record_of_the_document_says_what_it_is() -> None:
    schemas = api_document()["components"]["schemas"]
    assert [name for name, one in schemas.items() if "properties" in one and not one.get("description")] == []


def test_every_answer_has_an_example_that_is_one() -> None:
    for name, _, content in answers():
        example = content[JSON]["example"]
        assert record_of(content).model_validate(example, strict=False).model_fields_set == example.keys(), name


@pytest.mark.parametrize("name", BODIES)
def test_an_example_is_what_its_operation_takes(name: str) -> None:
    assert RECORDS[name].model_validate(BODIES[name])
