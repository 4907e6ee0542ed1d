from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from tests.client.serving import Served, problem, run_record
from wfdash.client import Approval, Choice, Form, NotAnswered, NotFound, TimedOut, ask, ask_sync

AT = datetime(2026, 5, 1, 10, tzinfo=UTC)


class Claim(BaseModel):
    amount: int


def answered(value: Any, **more: Any) -> Served:
    """Return a server on which people have answered."""
    output = {"value": value, "by": "ana", "at": AT.isoformat(), "lapsed": False, **more}
    ended = run_record(status="completed", output=output)
    return Served(lambda asked: httpx.Response(200, json={"id": "r1"} if asked.method == "POST" else ended))


def test_an_approval_is_a_decision_with_who_gave_it_and_when() -> None:
    served = answered({"action": "approve"})
    decision = ask_sync("Ship it?", Approval, by="legal", due="4h", client=served.client())
    assert (decision.approved, decision.by, decision.at, decision.lapsed) == (True, "ana", AT, False)
    assert served.bodies()[0] == {
        "workflow": "ask_people",
        "message": {"kind": "approval", "subject": "Ship it?", "by": ["legal"], "due": "4h"},
    }


def test_what_was_approved_is_of_the_proposals_own_type() -> None:
    card = Approval(subject="Pay?", proposal=Claim(amount=3), edit=Claim)
    assert ask_sync(card, client=answered({"action": "approve"}).client()).value == Claim(amount=3)
    edited = answered({"action": "edit", "edited": {"amount": 4}})
    assert ask_sync(card, client=edited.client()).value == Claim(amount=4)


def test_an_answer_is_typed() -> None:
    assert ask_sync("Name?", client=answered("Ada").client()) == "Ada"
    assert ask_sync("Which?", ["a", "b"], client=answered({"action": "b"}).client()) == "b"
    assert ask_sync("Really?", bool, client=answered(True).client()) is True
    assert ask_sync(Form(subject="Fill"), Claim, client=answered({"amount": 5}).client()) == Claim(amount=5)
    several = Choice(subject="Which?", options=["a", "b"], multiple=True)
    assert ask_sync(several, client=answered(["a"]).client()) == ["a"]


async def test_asking_is_awaited_as_well() -> None:
    async with answered({"action": "reject", "reason": "No"}).async_client() as client:
        decision = await ask("Ship it?", Approval, client=client)
    assert (decision.approved, decision.reason) == (False, "No")


def test_the_same_ref_is_the_same_question_and_no_ref_is_always_another() -> None:
    served = answered("x")
    for ref in ("deploy-7", "deploy-7", None):
        ask_sync("Name?", ref=ref, client=served.client())
    first, second, third = (request.headers["idempotency-key"] for request in served.got if request.method == "POST")
    assert first == second == "ask:deploy-7"
    assert third != first


def test_a_question_that_ended_without_an_answer_says_why() -> None:
    ended = run_record(status="failed", error={"message": "the deadline passed"})
    served = Served(httpx.Response(201, json={"id": "r1"}), httpx.Response(200, json=ended))
    with pytest.raises(NotAnswered, match="failed \\(the deadline passed\\)") as missing:
        ask_sync("Name?", client=served.client())
    assert (missing.value.run, missing.value.status) == ("r1", "failed")


def test_the_time_to_wait_is_limited_and_the_question_stays_open() -> None:
    served = Served(httpx.Response(201, json={"id": "r1"}), httpx.Response(200, json=run_record(status="waiting")))
    with pytest.raises(TimedOut):
        ask_sync("Name?", timeout=0.01, client=served.client())


def test_an_installation_that_lets_no_program_ask_is_named() -> None:
    with pytest.raises(NotFound, match="needs the workflow ask_people, and you the right to start it"):
        ask_sync("Name?", client=Served(problem(404, "not_found")).client())
