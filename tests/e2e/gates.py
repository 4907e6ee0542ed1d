"""A workflow for stories of the reviewer's desk: its input says what is asked, of whom, and by which policy."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from wfdash.workflow import Approval, Choice, Context, Form, Option, Policy, Question, ToolCall, Workflow


class Refund(BaseModel):
    """What is decided."""

    customer: str
    amount: float = Field(gt=0, le=5000)
    note: str = ""


class Gate(BaseModel):
    """One question, and how it is decided."""

    subject: str
    refund: Refund
    risk: str | None = None
    policy: dict[str, Any] = {}
    plain: bool = False
    """Whether the card says nothing of what happens next."""


gate = Workflow("gate", title="Refund gate")


@gate.step(start=True)
async def review(asked: Gate, ctx: Context) -> Refund:
    """Ask people; returns what they agreed to."""
    card = Approval(
        subject=asked.subject,
        body=f"**{asked.refund.customer}** wants their money back.",
        proposal=asked.refund,
        edit=Refund,
        risk=asked.risk,
        require_reason=True,
        consequence=None if asked.plain else {"approve": "The money is sent today.", "reject": "They are told why."},
        undo=None if asked.plain else "A refund can be charged again by hand.",
    )
    decision = await ctx.ask(card, policy=Policy(**asked.policy))
    if not decision.approved:
        raise ValueError(f"rejected: {decision.reason}")
    return decision.edited or asked.refund


kinds = Workflow("kinds", title="Every kind", policy=Policy(by="cfo"))


@kinds.step(start=True)
async def ask_all(message: None, ctx: Context) -> None:
    """Ask with every kind of card at once."""
    refund = Refund(customer="Kim", amount=120)
    reasons = [Option(name="late", label="Late"), Option(name="lost", label="Lost"), Option(name="both", label="Both")]
    await asyncio.gather(
        ctx.ask(Approval(subject="An edit", proposal=refund, edit=Refund, require_reason=True), name="edit"),
        ctx.ask(ToolCall(tool="pay", arguments=refund.model_dump(), parameters=Refund, require_feedback=True)),
        ctx.ask(Choice(subject="A choice", options=reasons), name="choice"),
        ctx.ask(Choice(subject="Some of them", options=reasons, multiple=True, at_least=1), name="some"),
        ctx.ask(Question(subject="A question"), name="question"),
        ctx.ask(Form(subject="A form"), Refund, name="form"),
    )


class Go(BaseModel):
    """What lets the purchase go on."""

    amount: int = Field(ge=1, le=1000)


log = logging.getLogger(__name__)
purchase = Workflow("purchase", title="Purchase")


@purchase.step(start=True)
async def prepare(item: str, ctx: Context) -> int:
    """Wait for a signal."""
    log.info("Prepared %s", item)
    go = await ctx.receive("go", Go)
    return go.amount


async def _charge() -> None:
    await asyncio.sleep(600)


@purchase.step(after=prepare)
async def charge(amount: int, ctx: Context) -> None:
    """Take much too long."""
    log.warning("Charging %d", amount)
    await ctx.call(_charge, once=True, name="bank")


dictation = Workflow("dictation", title="Dictation")


@dictation.step(start=True)
async def write_down(book: str) -> None:
    """Log each line that is added to a file, until one says "end"."""
    done, lines = 0, [""]
    while lines[-1:] != ["end"]:
        lines = Path(book).read_text().splitlines()
        for line in lines[done:]:
            log.info(line)
        done = len(lines)
        await asyncio.sleep(0.05)
