"""A step by itself is run by the engine: same checks, same replay, no database."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from pydantic import BaseModel

from wfdash.contract import InvalidInput
from wfdash.testing import RunFailed, Unanswered, run_step
from wfdash.workflow import Approval, Context, Workflow, all_of


class Claim(BaseModel):
    employee: str
    amount: Decimal


claims = Workflow("claims")


def charge(amount: Decimal) -> str:
    raise AssertionError("no test may really charge")


@claims.step(start=True)
def read(text: str) -> Claim:
    return Claim(employee=text, amount=Decimal(len(text)))


@claims.step(after=read)
async def pay(claim: Claim, ctx: Context) -> Claim | str:
    decision = await ctx.ask(Approval(subject=f"Pay {claim.amount}?", edit=Claim, proposal=claim))
    if not decision.approved:
        return f"rejected: {decision.reason}"
    await ctx.sleep(timedelta(days=30))
    days = await ctx.ask("How many days?", answer=int)
    if await ctx.receive("hurry", bool):
        return await ctx.call(charge, decision.value.amount)
    return Claim(employee=decision.value.employee, amount=decision.value.amount * days)


@claims.step(after=all_of(pay))
async def last(parts: list[Claim | str], ctx: Context) -> int:
    return len(parts) + ctx.attempt


prices = iter(range(10))


@claims.step(after=last)
async def moving(n: int, ctx: Context) -> str:
    await ctx.ask(Approval(subject=f"Pay {next(prices)}?"))
    await ctx.ask("And?")
    return "paid"


CLAIM = Claim(employee="Jana", amount=Decimal("2.50"))


async def test_a_step_returns_what_its_function_returns() -> None:
    assert await run_step(read, "Jana") == Claim(employee="Jana", amount=Decimal(4))
    answers = {"Pay 2.50?": {"action": "approve"}, "How many days?": 3, "hurry": False}
    assert await run_step(pay, CLAIM, answers=answers) == Claim(employee="Jana", amount=Decimal("7.50"))
    assert await run_step(last, ["a", CLAIM]) == 3


async def test_answers_may_be_in_the_order_in_which_the_step_asks_and_calls_be_replaced() -> None:
    calls = {"charge": lambda amount: f"fake {amount}"}
    assert await run_step(pay, CLAIM, answers=["approve", 3, True], calls=calls) == "fake 2.50"
    assert await run_step(pay, CLAIM, answers=[{"action": "reject", "reason": "no"}]) == "rejected: no"


async def test_a_question_without_an_answer_and_an_answer_without_a_question_are_errors() -> None:
    with pytest.raises(Unanswered, match=r"step 'pay' asks 'How many days\?'"):
        await run_step(pay, CLAIM, answers=["approve"])
    with pytest.raises(Unanswered, match="did not ask"):
        await run_step(read, "Jana", answers={"Pay?": "approve"})
    with pytest.raises(Unanswered, match="did not ask"):
        await run_step(read, "Jana", answers=["approve"])


async def test_what_does_not_fit_is_refused_as_in_earnest() -> None:
    with pytest.raises(InvalidInput, match="employee"):
        await run_step(pay, {"amount": "1"})
    with pytest.raises(InvalidInput, match="Must be one of"):
        await run_step(pay, CLAIM, answers=["aprove"])
    with pytest.raises(RunFailed, match="AssertionError: no test may really charge"):
        await run_step(pay, CLAIM, answers=["approve", 3, True])


async def test_a_step_that_does_not_repeat_itself_is_asked_again() -> None:
    with pytest.raises(Unanswered, match=r"asks 'Pay 1\?'"):
        await run_step(moving, 1, answers={"Pay 0?": "approve"})
