"""Versions of one native workflow, as its author changes it from day to day."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from wfdash.workflow import Context, Workflow


class Claim(BaseModel):
    amount: int


async def ask(claim: Claim, ctx: Context) -> int:
    given = int(await ctx.ask("how much?", answer=int))
    ctx.state["seen"] = given
    return given


async def file_away(text: str) -> str:
    return f"{text}, filed"


def expense(
    *, step: str = "review", extra: bool = False, queue: str = "default", state: Any = None, **facts: Any
) -> Workflow:
    """read -> a step that asks -> pay; ``extra`` adds one more at the end, ``facts`` go to the step that asks."""
    wf = Workflow("expense", queue=queue, state=state)

    @wf.step(start=True)
    async def read(claim: Claim) -> Claim:
        return claim

    asked = wf.step(after=read, name=step, **facts)(ask)

    @wf.step(after=asked)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    if extra:
        wf.step(after=pay, name="archive")(file_away)
    return wf


class Question(BaseModel):
    """What someone asks first."""

    text: str
    password: str = ""


def chat(name: str = "chat", **options) -> Workflow:
    """Return a chat: each turn appends to what was said, and asks a person where the text ends in a question mark."""
    wf = Workflow(name, title="Chat", **options)

    @wf.step(start=True)
    async def begin(question: Question, ctx: Context) -> list[str]:
        ctx.state["said"] = [question.text]
        return ctx.state["said"]

    @wf.step(follow_up=True)
    async def reply(message: str, ctx: Context) -> list[str]:
        if message.endswith("?"):
            message += str(await ctx.ask("What do I say?", answer=str))
        ctx.state["said"] = [*ctx.state["said"], message]
        return ctx.state["said"]

    return wf
