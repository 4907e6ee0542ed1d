"""What outcomes of ``run`` offer to people who write them in a notebook or a test."""

from __future__ import annotations

import pytest

from wfdash.contract import RunFailed, StillWaiting
from wfdash.workflow import Approval, Context, Failed, Finished, Waiting, Workflow

orders = Workflow("orders")


@orders.step(start=True)
async def review(n: int, ctx: Context) -> str:
    if n == 0:
        raise ValueError("nothing to pay")
    if n < 0:
        await ctx.sleep(3600)
    decision = await ctx.ask(Approval(subject=f"Pay {n}?"))
    days = await ctx.ask("How many days?", answer=int) if decision.approved else 0
    return f"{decision.action} {days} {decision.reason}"


async def test_a_waiting_run_is_answered_by_the_name_of_an_action_or_by_a_value() -> None:
    waiting = await orders.run(1)
    assert isinstance(waiting, Waiting)
    assert waiting.request.card["subject"] == "Pay 1?"
    with pytest.raises(StillWaiting, match="Pay 1"):
        waiting.result()
    again = await orders.run(checkpoint=waiting.checkpoint, answers=waiting.answer("approve", reason="fine"))
    assert isinstance(again, Waiting)
    with pytest.raises(ValueError, match="takes a value alone"):
        again.answer(3, reason="no such field")
    finished = await orders.run(checkpoint=again.checkpoint, answers=again.answer(3))
    assert isinstance(finished, Finished)
    assert finished.result() == "approve 3 fine"


async def test_a_failed_run_says_which_step_and_why() -> None:
    failed = await orders.run(0)
    assert isinstance(failed, Failed)
    with pytest.raises(RunFailed, match=r"^step 'review': ValueError: nothing to pay$") as error:
        failed.result()
    assert error.value.error == failed.error


async def test_a_run_that_only_sleeps_has_no_request() -> None:
    sleeping = await orders.run(-1)
    assert isinstance(sleeping, Waiting)
    with pytest.raises(LookupError, match="it sleeps"):
        _ = sleeping.request


async def test_what_an_outcome_does_not_have_says_why() -> None:
    finished, failed, waiting = Finished.model_construct(output=3), await orders.run(0), await orders.run(1)
    assert (finished.requests, failed.requests) == ((), ())
    with pytest.raises(RunFailed, match="nothing to pay"):
        _ = failed.output
    with pytest.raises(RunFailed, match="nothing to pay"):
        failed.answer("approve")
    with pytest.raises(StillWaiting, match="Pay 1"):
        _ = waiting.output
    with pytest.raises(LookupError, match="has ended"):
        _ = finished.request


async def test_an_outcome_is_not_true_or_false() -> None:
    for outcome in (Finished.model_construct(output=3), await orders.run(0), await orders.run(1)):
        with pytest.raises(TypeError, match=r"say outcome\.result\(\)"):
            assert outcome
