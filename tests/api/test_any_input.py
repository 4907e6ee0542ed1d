"""The OpenAPI document holds: whatever fits it, or nearly, is answered as it says, with the token of each role."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest
import requests
from django.test import Client
from hypothesis import HealthCheck, Phase

from checkpoints.models.user_model import User
from tests.conftest import LONG
from tests.security.hostile import World
from tests.security.input.test_hostile import world
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token
from wfdash.web.api.router import api

if TYPE_CHECKING:
    # Where it is used: it takes half a second to import, in every worker.
    import schemathesis

__all__ = ["world"]
EXAMPLES = 1
ROLES = {
    "admin": ("adam", ("see", "inspect", "answer", "start", "operate", "admin")),
    "operator": ("otto", ("see", "inspect", "answer", "start", "operate")),
    "reviewer": ("ana", ("see", "answer")),
    "viewer": ("vera", ("see", "inspect")),
    "stranger": ("sam", ("see",)),
}
SHARE = 4
"""Of the roles but the admin each tries one operation of so many, and all with ``WFDASH_LONG=1``."""
ORDER = ("get", "post", "put", "delete")
UNSENT = {"content-length", "accept-encoding"}


def checks() -> list[Any]:
    from schemathesis import checks

    return [
        checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]


@pytest.mark.parametrize("role", ROLES)
def test_every_operation_answers_as_documented(role: str, world: World, caplog: pytest.LogCaptureFixture) -> None:
    name, rights = ROLES[role]
    owner = viewer_for(User.objects.get(username=name))
    token = create_token(owner, "test", rights=rights).text
    caplog.set_level(logging.CRITICAL, logger="django.request")
    import schemathesis

    schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
    found = sorted((one.ok() for one in schema.get_all_operations()), key=lambda one: ORDER.index(one.method))
    wrong = []
    for operation in found[list(ROLES).index(role) % SHARE :: 1 if role == "admin" or LONG else SHARE]:
        try:
            attempt(operation, world, {"Authorization": f"Bearer {token}"})
        except Exception as error:
            wrong.append(f"{operation.label}: {error}")
    assert not wrong, "\n\n".join(wrong)


def attempt(operation: Any, world: World, headers: dict[str, str]) -> None:
    """Make an operation with values that fit its schema, and ids that exist."""

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: schemathesis.Case) -> None:
        for parameter in case.path_parameters or {}:
            if known := world.ids.get(parameter):
                case.path_parameters[parameter] = known[0]
        case.validate_response(response_to(case, headers), checks=checks())

    answered()


def response_to(case: schemathesis.Case, headers: dict[str, str]) -> httpx.Response:
    """Make the request in this process, and return its response as schemathesis reads it."""
    given = case.as_transport_kwargs(base_url="http://testserver", headers=headers)
    names = {"method", "url", "headers", "params", "data", "json", "cookies", "files"}
    sent = requests.Request(**{name: value for name, value in given.items() if name in names}).prepare()
    body = sent.body or b""
    kept = {name: str(value) for name, value in sent.headers.items() if name.lower() not in UNSENT}
    kept = {name: value for name, value in kept.items() if value.isprintable()}
    answer = Client().generic(
        str(sent.method),
        sent.path_url,
        body if isinstance(body, bytes) else body.encode(),
        content_type=kept.pop("Content-Type", "application/json"),
        headers=kept,
    )
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    asked = httpx.Request(str(sent.method), str(sent.url), headers=headers)
    found = httpx.Response(answer.status_code, headers=dict(answer.items()), content=content, request=asked)
    found.elapsed = timedelta()
    return found
