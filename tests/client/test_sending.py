from __future__ import annotations

import httpx
import pytest

from tests.client.serving import URL, Served, problem, run_record
from wfdash.client import (
    AlreadyAnswered,
    ApiError,
    Busy,
    Client,
    ClientError,
    CodeElsewhere,
    Conflict,
    Invalid,
    NotFound,
    ServerError,
    Unauthorized,
    Unreachable,
)
from wfdash.client.errors import BY_CODE, error_of
from wfdash.client.script import Response
from wfdash.domain import errors as server

GONE = httpx.ConnectError("connection refused")
ONE = {"id": "r1", "n": 1}


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleep in no time, and give for how long it would have been."""
    slept: list[float] = []
    monkeypatch.setattr("wfdash.client.client.time.sleep", slept.append)
    monkeypatch.setattr("wfdash.client.client.time.monotonic", lambda: sum(slept))
    return slept


def test_a_token_is_sent_with_every_request_and_addresses_are_below_the_api() -> None:
    served = Served(httpx.Response(200, json=run_record()))
    assert served.client().run("r1").status == "running"
    assert str(served.got[0].url) == f"{URL}/api/v1/runs/r1"
    assert served.got[0].headers["authorization"] == "Bearer wfd_1_secret"


def test_a_dashboard_may_live_below_a_prefix() -> None:
    served = Served(httpx.Response(200, json=run_record()))
    client = Client(f"{URL}/people/", "t", transport=httpx.MockTransport(served))
    client.run("r1")
    assert str(served.got[0].url) == f"{URL}/people/api/v1/runs/r1"


def test_a_server_that_restarts_is_asked_again_with_the_same_key_so_nothing_happens_twice(naps: list[float]) -> None:
    served = Served(GONE, httpx.ReadTimeout("read"), httpx.Response(502), httpx.Response(200, json=ONE))
    assert served.client().retry("r1").id == "r1"
    keys = {request.headers["idempotency-key"] for request in served.got}
    assert len(served.got) == 4
    assert len(keys) == 1
    assert naps == sorted(naps)


def test_two_commands_never_share_a_key() -> None:
    served = Served(httpx.Response(200, json=ONE))
    with served.client() as client:
        client.retry("r1")
        client.retry("r1")
    assert len({request.headers["idempotency-key"] for request in served.got}) == 2


def test_a_start_with_a_key_of_ones_own_is_known_by_it() -> None:
    served = Served(httpx.Response(201, json=ONE), httpx.Response(200, json=run_record()))
    assert served.client().start("w", {"a": 1}, key="order-17").id == "r1"
    assert served.got[0].headers["idempotency-key"] == "order-17"
    assert served.bodies() == [{"workflow": "w", "message": {"a": 1}}]


def test_patience_ends(naps: list[float]) -> None:
    with pytest.raises(Unreachable, match="connection refused"):
        Served(GONE).client(patience=5).run("r1")
    assert sum(naps) == pytest.approx(5)


def test_a_busy_server_is_asked_again_when_it_says_so(naps: list[float]) -> None:
    served = Served(problem(503, "busy", retry_after=3), httpx.Response(200, json=run_record()))
    served.client().run("r1")
    assert naps == [3.0]
    with pytest.raises(Busy) as refused:
        Served(problem(503, "busy", retry_after=60)).client().run("r1")
    assert refused.value.facts == {"retry_after": 60}


def test_a_server_without_the_code_is_not_asked_again(naps: list[float]) -> None:
    with pytest.raises(CodeElsewhere):
        Served(problem(503, "code_elsewhere")).client().run("r1")
    assert naps == []


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(401, "unauthenticated"), Unauthorized),
        (problem(404, "not_found"), NotFound),
        (problem(409, "already_answered", by="ana"), AlreadyAnswered),
        (problem(409, "a_code_of_tomorrow"), Conflict),
        (problem(500, "server_error"), ServerError),
        (httpx.Response(418, text="teapot"), ApiError),
    ],
)
def test_a_refusal_is_an_error_of_its_kind_and_is_not_tried_again(
    answer: httpx.Response, kind: type[ApiError], naps: list[float]
) -> None:
    served = Served(answer)
    with pytest.raises(kind) as refused:
        served.client().cancel("r1")
    assert refused.value.status == answer.status_code
    assert (len(served.got), naps) == (1, [])


def test_a_refused_value_names_its_fields() -> None:
    errors = [{"loc": ["message", "amount"], "msg": "Must be a number"}]
    with pytest.raises(Invalid) as refused:
        Served(problem(422, "invalid", errors=errors)).client().start("w", {})
    assert refused.value.by_field == {"message.amount": "Must be a number"}
    assert str(refused.value) == "message.amount: Must be a number"


def test_something_else_at_the_address_is_said_to_be_no_wfdash() -> None:
    with pytest.raises(ApiError, match="is this the address of a wfdash"):
        Served(httpx.Response(200, html="<h1>Router</h1>")).client().run("r1")


@pytest.mark.parametrize("address", ["", "wfdash.example", "/api", "https://"])
def test_an_address_that_is_none_is_refused_at_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WFDASH_URL", raising=False)
    with pytest.raises(ClientError, match="http://HOST:PORT"):
        Client(address, "t")


def test_the_environment_names_address_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WFDASH_URL", URL)
    monkeypatch.setenv("WFDASH_TOKEN", "wfd_2_other")
    served = Served(httpx.Response(200, json=run_record()))
    Client(transport=httpx.MockTransport(served)).run("r1")
    assert served.got[0].headers["authorization"] == "Bearer wfd_2_other"


def test_a_token_does_not_follow_a_redirect_to_somewhere_else() -> None:
    served = Served(httpx.Response(302, headers={"location": "http://evil.test/"}))
    with pytest.raises(ApiError):
        served.client().run("r1")
    assert len(served.got) == 1


def test_every_code_of_the_servers_table_has_an_exception() -> None:
    codes = {kind.code for kind in (*server.KINDS.values(), *server.REFUSALS.values())}
    assert codes <= set(BY_CODE)


def test_a_reply_that_is_no_problem_is_an_error_all_the_same() -> None:
    assert str(error_of(Response(status=500, headers={}, body=b"[1]"))).startswith("HTTP status 500, from something")
    assert isinstance(error_of(Response(status=503, headers={}, body=b"<html>")), Busy)
