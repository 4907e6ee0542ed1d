"""Who is asked whether a call happened is told which call that was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from checkpoints.records import Checkpoint
from tests.workflow.world import ListRecorder, PowerCut, answered, finished
from wfdash.contract import Failed, Waiting
from wfdash.workflow import Context, Policy, Workflow, each, gather
from wfdash.workflow.stored import intent

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Card(BaseModel):
    holder: str
    number: str = Field(json_schema_extra={"writeOnly": True})


class Order(BaseModel):
    customer: str
    card: Card


def charge(
    customer: str, amount: int, card: Card, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})] = ""
) -> int:
    return amount


class Client:
    def __repr__(self) -> str:
        return "Client(api_key='hush')"


def charging() -> Workflow:
    wf = Workflow("charging", policy=Policy(by=("finance",)))

    @wf.step(start=True)
    async def orders(names: list[str]) -> list[Order]:
        return [Order(customer=name, card=Card(holder=name, number="4111")) for name in names]

    @wf.step(after=each(orders))
    async def item(order: Order, ctx: Context) -> int:
        return await ctx.call(charge, order.customer, amount=7, card=order.card, once=True)

    @wf.step(after=gather(item))
    async def total(paid: list[int]) -> int:
        return sum(paid)

    return wf


async def cut(wf: Workflow) -> Checkpoint:
    """Return the checkpoint of a run that died between intents and results."""
    for commits in range(2, 10):
        recorder = ListRecorder(dies_after=commits)
        try:
            await wf.run(["ana", "ben"], storage=recorder)
        except PowerCut:
            journals = [one["journal"] for one in recorder.latest.body["position"]["live"].values()]
            if sum(len(journal) and "result" not in journal[0] for journal in journals) == 2:
                return recorder.latest
    raise AssertionError("no such moment")


async def test_two_calls_of_a_map_can_be_told_apart() -> None:
    wf = charging()
    outcome = await wf.run(checkpoint=await cut(wf))
    assert isinstance(outcome, Waiting)
    first, second = (request.card for request in outcome.requests)
    shown = {piece["title"]: piece["value"] for piece in second["evidence"]}
    assert shown["Call arguments"] == {
        "customer": "ben",
        "amount": 7,
        "card": {"holder": "ben", "number": "•••"},
    }
    assert shown["Step input"] == {"customer": "ben", "card": {"holder": "ben", "number": "•••"}}
    assert (first["subject"], second["subject"]) == tuple(
        f"Did 'charge' succeed (customer {name}, amount 7)?" for name in ("ana", "ben")
    )
    assert (first["context"]["item"], second["context"]["item"]) == (1, 2)
    assert datetime.fromisoformat(second["context"]["begun"]).tzinfo
    assert {request.by for request in outcome.requests} == {("finance",)}
    assert "4111" not in str([request.model_dump() for request in outcome.requests])
    assert finished(await answered(wf, outcome, {"action": "again"})) == 14


def charging_by(price: Callable[[], int]) -> Workflow:
    wf = Workflow("charging")

    @wf.step(start=True)
    async def item(names: list[str], ctx: Context) -> int:
        card = Card(holder="ana", number="4111")
        paid = [await ctx.call(charge, name, amount=price(), card=card, once=True) for name in names]
        return sum(paid)

    return wf


async def cut_at_the_call(wf: Workflow) -> Waiting:
    recorder = ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await wf.run(["ana"], storage=recorder)
    outcome = await wf.run(checkpoint=recorder.latest)
    assert isinstance(outcome, Waiting)
    return outcome


def amount_shown(outcome: Waiting) -> Any:
    (request,) = outcome.requests
    return next(one["value"] for one in request.card["evidence"] if "arguments" in one["title"])["amount"]


async def test_a_call_is_made_again_only_as_it_was_shown() -> None:
    price = [7]
    wf = charging_by(lambda: price[0])
    outcome = await cut_at_the_call(wf)
    assert amount_shown(outcome) == 7
    price[0] = 900
    outcome = await answered(wf, outcome, {"action": "again"})
    assert isinstance(outcome, Waiting)
    assert amount_shown(outcome) == 900
    (request,) = outcome.requests
    assert request.card["asked_again"] == {"parts": ["arguments"], "was": "call-1.0", "answered": True}
    assert finished(await answered(wf, outcome, {"action": "again"})) == 900


async def test_a_call_whose_arguments_differ_each_time_is_not_asked_about_forever() -> None:
    numbers = count()
    wf = charging_by(lambda: next(numbers))
    outcome = await cut_at_the_call(wf)
    for _ in range(3):
        outcome = await answered(wf, outcome, {"action": "again"})
        assert isinstance(outcome, Waiting)
    outcome = await answered(wf, outcome, {"action": "again"})
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "ReplayMismatch"


async def test_an_intent_that_was_recorded_without_arguments_is_still_asked_about() -> None:
    wf = charging()
    text = (await cut(wf)).model_dump()
    for record in text["body"]["position"]["live"].values():
        for entry in record["journal"]:
            del entry["args"], entry["at"]
    outcome = await wf.run(checkpoint=Checkpoint.model_validate(text))
    assert isinstance(outcome, Waiting)
    assert [[piece["title"] for piece in request.card["evidence"]] for request in outcome.requests] == [
        ["Step input"],
        ["Step input"],
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "kept"),
    [
        (("ana", 7), {"card": None}, {"customer": "ana", "amount": 7, "card": None}),
        (("ana", 7, None, "1234"), {}, {"customer": "ana", "amount": 7, "card": None, "pin": "•••"}),
        (("ana",), {"wrong": 1}, {"1": "ana", "wrong": 1}),
    ],
)
def test_arguments_are_kept_by_name_without_secrets(args: Any, kwargs: Any, kept: Any) -> None:
    assert intent(charge, args, kwargs, AT) == {"args": kept, "at": "2026-01-01T00:00:00+00:00"}


def test_what_an_object_says_of_itself_is_not_kept() -> None:
    assert intent(lambda client: None, (Client(),), {}, AT)["args"] == {"client": "(Client)"}


def test_large_arguments_are_cut() -> None:
    kept = intent(lambda rows, text: None, (list(range(100_000)), "x" * 9_000), {}, AT)["args"]
    assert len(str(kept)) < 2_000


async def test_the_arguments_of_a_call_that_is_done_are_not_kept() -> None:
    wf, recorder = charging(), ListRecorder()
    assert finished(await wf.run(["ana"], storage=recorder)) == 7
    entries = [
        entry
        for commit in recorder.commits
        if commit.checkpoint
        for record in commit.checkpoint.body["position"]["live"].values()
        for entry in record["journal"]
    ]
    assert {"args" in entry for entry in entries if "result" in entry} == {False}


def test_arguments_that_a_function_takes_as_they_come_are_shown_by_their_names():
    def pay(order: int, **options: int) -> None: ...

    now = datetime.now(UTC)
    assert intent(pay, (7,), {"amount": 3}, now)["args"] == {"order": 7, "amount": 3}
    assert intent(pay, (7,), {}, now)["args"] == {"order": 7}
