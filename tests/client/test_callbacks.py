"""What a program that receives callbacks believes, and what it reads in them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from tests.client.serving import Served, run_record
from wfdash.client import (
    Approval,
    BadSignature,
    Callback,
    CallbackDelivery,
    ClientError,
    NotAnswered,
    ask_sync,
    new_callback_secret,
    verify_callback,
)
from wfdash.notifications.webhook import signed_headers

NOW = 1_780_000_000
SECRET = new_callback_secret()
AT = "2026-05-01T10:00:00+00:00"


class Claim(BaseModel):
    amount: int


def body_of(kind: str = "run.completed", **data: Any) -> bytes:
    return json.dumps({"type": kind, "timestamp": AT, "data": {"run": "r1", **data}}).encode()


def received(body: bytes, *, secret: str = SECRET, at: int = NOW, **changed: str) -> CallbackDelivery:
    """Return what ``verify_callback`` makes of a delivery that was signed with a secret at a time."""
    headers = {name.title(): value for name, value in signed_headers([secret], "m1", at, body).items()}
    return verify_callback({**headers, **changed}, body, SECRET, now=NOW)


def answered(value: Any, **more: Any) -> CallbackDelivery:
    output = {"value": value, "by": "ana", "at": AT, "lapsed": False, **more}
    return received(body_of(output=output))


def test_a_delivery_that_wfdash_signed_is_read() -> None:
    delivery = received(body_of(subject="Pay?"))
    assert (delivery.id, delivery.type, delivery.run) == ("m1", "run.completed", "r1")
    assert delivery.timestamp == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert delivery.data["subject"] == "Pay?"


def test_another_secret_another_body_another_time_or_no_signature_is_refused() -> None:
    body = body_of()
    for wrong in (
        lambda: received(body, secret=new_callback_secret()),
        lambda: verify_callback(signed_headers([SECRET], "m1", NOW, body), body + b" ", SECRET, now=NOW),
        lambda: verify_callback(
            {**signed_headers([SECRET], "m1", NOW, body), "webhook-id": "m2"}, body, SECRET, now=NOW
        ),
        lambda: received(body, at=NOW - 301),
        lambda: received(body, at=NOW + 301),
        lambda: received(body, **{"Webhook-Timestamp": "soon"}),
        lambda: received(body, **{"Webhook-Signature": "v1,"}),
        lambda: verify_callback({}, body, SECRET, now=NOW),
        lambda: verify_callback(signed_headers([SECRET], "m1", NOW, body), body, [], now=NOW),
    ):
        with pytest.raises(BadSignature):
            wrong()


def test_while_a_secret_is_rotated_both_count() -> None:
    body = body_of()
    headers = signed_headers([SECRET], "m1", NOW, body)
    assert verify_callback(headers, body, [new_callback_secret(), SECRET], now=NOW).id == "m1"


def test_a_secret_that_is_none_is_the_receivers_mistake() -> None:
    with pytest.raises(ValueError, match="whsec_ followed by base64"):
        verify_callback({}, b"", "whsec_not base64 at all!".replace(" ", "_"), now=NOW)


def test_what_is_signed_but_says_nothing_is_no_delivery() -> None:
    for body in (b"[]", b"{", b'{"type": "x", "timestamp": "now", "data": {}}'):
        with pytest.raises(ClientError, match="none of wfdash"):
            received(body)


def test_the_answer_in_a_delivery_is_typed_as_the_question_asked() -> None:
    decision = answered({"action": "approve"}).answer(Approval)
    assert (decision.approved, decision.by, decision.at) == (True, "ana", datetime(2026, 5, 1, 10, tzinfo=UTC))
    assert answered("Ada").answer() == "Ada"
    assert answered({"action": "b"}).answer(["a", "b"]) == "b"
    assert answered(3).answer(int) == 3
    card = Approval(subject="Pay?", proposal=Claim(amount=3), edit=Claim)
    assert answered({"action": "edit", "edited": {"amount": 4}}).answer(card).value == Claim(amount=4)


def test_a_delivery_without_an_answer_says_why() -> None:
    with pytest.raises(NotAnswered, match="run r1 cancelled") as missing:
        received(body_of("run.cancelled")).answer(Approval)
    assert (missing.value.run, missing.value.status) == ("r1", "cancelled")
    with pytest.raises(ClientError, match=r"too long for a delivery\. Read run r1"):
        received(body_of(omitted="output")).answer(Approval)
    with pytest.raises(ClientError, match=r"this is request\.opened"):
        received(body_of("request.opened")).answer(Approval)


def test_a_question_names_where_its_answer_is_delivered_and_need_not_be_waited_for() -> None:
    callback = Callback(url="https://ci.example/back", secret=SECRET)
    ended = run_record(status="completed", output={"value": "x", "by": "ana", "at": AT, "lapsed": False})
    served = Served(lambda asked: httpx.Response(200, json={"id": "r1"} if asked.method == "POST" else ended))
    with served.client() as client:
        assert client.open_question("Name?", ref="one", callback=callback).id == "r1"
        assert ask_sync("Name?", ref="one", callback=callback, client=client) == "x"
    first, second = served.bodies()
    assert first == second
    assert first["callback"] == {"url": "https://ci.example/back", "secret": SECRET, "events": [], "values": True}
