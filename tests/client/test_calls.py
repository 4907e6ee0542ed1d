"""The calls of the client against the OpenAPI document: each exists as it is made, and none is missing unsaid."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest

from tests.api.openapi import document
from wfdash.client.client import ApiIterator, ApiMethod, Calls
from wfdash.client.script import AskPatience, Exchange, Open, ReadClock, Send
from wfdash.client.sending import part
from wfdash.records.schedules import ScheduleDetail

SCREEN = "is for a screen that a person has before them"
OWN = "is about one's own account, which a program hardly has"
RULES = "people make rules, on their page"
LEFT_OUT = {
    "list_present": SCREEN,
    "take_request": SCREEN,
    "count_requests": SCREEN,
    "triage_error": "people look after errors",
    "search": SCREEN,
    "change_schedule": "its second request, after it has read what there is",
    "get_coming": "a schedule that was created has its next times",
    "create_rule": RULES,
    "list_notifications": OWN,
    "read_notifications": OWN,
    "list_views": OWN,
    "create_view": OWN,
    "get_view": OWN,
    "change_view": OWN,
    "delete_view": OWN,
    "list_absences": OWN,
    "create_absence": OWN,
    "end_absence": OWN,
}
"""Operations of the API without a method, with the reason. ``perform`` sends them all the same."""
SCHEDULE = ScheduleDetail.model_validate(
    dict.fromkeys(("id", "workflow", "name", "words", "zone", "missed", "overlap", "owner", "state", "problem"), "x")
    | {"cron": "* * * * *", "upcoming": [], "next_at": None, "last_at": None, "passed_at": None}
)
EXAMPLES: dict[str, Any] = {
    "due": datetime(2026, 1, 1, tzinfo=UTC),
    "n": 7,
    "seq": 3,
    "of": "input",
    "verb": "cancel",
    "schedule": SCHEDULE,
    "requests": [],
    "fields": {},
}
CALLS = {name: value for name, value in vars(Calls).items() if isinstance(value, ApiMethod | ApiIterator)}


@cache
def operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    """Return method, path and description of every operation; those without a parameter in their path come first."""
    found = sorted(document()["paths"].items(), key=lambda one: one[0].count("{"))
    return [
        (method.upper(), re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), operation)
        for path, methods in found
        for method, operation in methods.items()
    ]


def exchange_of(call: ApiMethod[..., Any] | ApiIterator[..., Any]) -> Exchange:
    """Return the first request that a call makes, with all that it takes given."""
    taken = inspect.signature(call._script).parameters.values()
    script = call._script(**{one.name: example(one) for one in taken if one.kind is not one.VAR_KEYWORD})
    effect = next(script)
    while not isinstance(effect, Send | Open):
        assert isinstance(effect, AskPatience | ReadClock)
        effect = script.send(1.0)
    return effect.exchange


def example(parameter: inspect.Parameter) -> Any:
    """Return a value for an argument: all texts are given."""
    if parameter.name in EXAMPLES:
        return EXAMPLES[parameter.name]
    if "datetime" in str(parameter.annotation):
        return datetime(2026, 11, 28, tzinfo=UTC)
    if parameter.default in (inspect.Parameter.empty, ""):
        return "x"
    return parameter.default


def operation_of(exchange: Exchange) -> dict[str, Any]:
    """Return the operation that a request reaches."""
    for method, path, operation in operations():
        if method == exchange.method and path.fullmatch(f"/{exchange.path}"):
            return operation
    raise AssertionError(f"no operation {exchange.method} {exchange.path}")


@pytest.mark.parametrize("name", CALLS)
def test_a_call_sends_what_its_operation_knows(name: str) -> None:
    exchange = exchange_of(CALLS[name])
    operation = operation_of(exchange)
    known = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    assert {key for key, value in exchange.query.items() if value not in (None, "")} <= known
    if exchange.body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        [body] = [one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one]
        fields = document()["components"]["schemas"][body.rpartition("/")[2]]["properties"]
        assert exchange.body.keys() <= fields.keys()


def test_every_operation_has_a_call_or_a_reason_why_not() -> None:
    called = {operation_of(exchange_of(call))["operationId"] for call in CALLS.values()}
    every = {operation["operationId"] for _, _, operation in operations()}
    assert every - called == LEFT_OUT.keys()


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_never_means_another_address(name: str) -> None:
    with pytest.raises(ValueError, match="neither an id nor a name"):
        part(name)


def test_an_id_is_one_part_of_an_address() -> None:
    assert part("../me?x#y z@w") == "..%2Fme%3Fx%23y%20z@w"
    assert unquote(part("ü/\u2028")) == "ü/\u2028"
