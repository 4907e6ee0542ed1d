from signals import orders

from wfdash.workflow import Finished, Waiting


async def test_an_order_waits_until_all_of_it_is_paid() -> None:
    outcome = await orders.run(message={"number": "O-7", "total": "30"})
    for signal in ({"amount": "10"}, {"amount": "20"}, {"tracking": "RR-8"}):
        assert isinstance(outcome, Waiting)
        (request,) = outcome.requests
        assert request.kind == "signal"
        outcome = await orders.run(checkpoint=outcome.checkpoint, answers={request.key: signal})
    assert isinstance(outcome, Finished)
    assert outcome.output == "O-7 is on its way: RR-8"


async def test_a_person_decides_what_becomes_of_the_rest() -> None:
    waiting = await orders.run(message={"number": "O-8", "total": "30"})
    waiting = await orders.run(checkpoint=waiting.checkpoint, answers={waiting.requests[0].key: {"amount": "50"}})
    assert waiting.requests[0].card["subject"] == "20 too much was paid"
    waiting = await orders.run(checkpoint=waiting.checkpoint, answers={waiting.requests[0].key: {"action": "keep"}})
    assert waiting.checkpoint.body["state"] == {"rest": "keep"}
