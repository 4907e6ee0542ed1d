from __future__ import annotations

import logging

import pytest

from tests.examples.runs import answer_one, cut_after_each_checkpoint, output, waiting
from wfdash.contract import InvalidInput
from wfdash.examples.parcel import Order, parcel

GOODS = [{"name": "Book", "kilograms": 1}, {"name": "Cup", "kilograms": 0.5}]


async def test_it_waits_for_the_carrier_s_two_messages_and_says_what_it_does(caplog) -> None:
    caplog.set_level(logging.INFO)
    outcome = await parcel.run({"to": "Ana", "items": GOODS})
    assert [request.card["subject"] for request in waiting(outcome)] == ["Waits for the signal 'shipped'"]
    assert caplog.messages == ["Item 1 of 2: Book, the box weighs 1.2 kg", "Item 2 of 2: Cup, the box weighs 1.7 kg"]
    outcome = await answer_one(parcel, outcome, {"code": "RR-1"})
    assert "On its way to Ana as RR-1" in caplog.messages
    (request,) = waiting(outcome)
    assert request.due is not None
    assert output(await answer_one(parcel, outcome, {"signed_by": "Ana"})) == {"code": "RR-1", "signed_by": "Ana"}


async def test_it_survives_being_cut_off_anywhere() -> None:
    outcome = await cut_after_each_checkpoint(parcel, message=Order().model_dump(mode="json"))
    assert len(waiting(outcome)) == 1


async def test_a_box_that_is_too_heavy_is_warned_of(caplog) -> None:
    await parcel.run({"items": [{"name": "Anvil", "kilograms": 19.9}]})
    assert "WARNING" in {record.levelname for record in caplog.records}


async def test_a_message_without_a_code_is_refused() -> None:
    outcome = await parcel.run({})
    with pytest.raises(InvalidInput):
        await answer_one(parcel, outcome, {"code": ""})
