"""The definitions with which the native engine is put through what engines promise."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, SecretStr

from tests.workflow.world import flow
from wfdash.engines.conformance import Ledger, Sample, Samples, Unstorable
from wfdash.workflow import Context, Workflow, all_of


def four_steps(ledger: Ledger) -> Workflow:
    wf = Workflow("four_steps")

    def step(name: str, after: Any) -> Any:
        async def run(text: str) -> str:
            ledger.note(name)
            return text

        return wf.step(name=name, **({"start": True} if after is None else {"after": after}))(run)

    last = None
    for name in ("one", "two", "three", "four"):
        last = step(name, last)
    return wf


def asking(ledger: Ledger, *, more: bool = False) -> Workflow:
    wf = Workflow("asking")

    @wf.step(start=True)
    async def before(text: str) -> str:
        ledger.note("before")
        return text

    @wf.step(after=before)
    async def ask(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask(f'What of {text}?', answer=str)}"

    @wf.step(after=ask)
    async def after(text: str) -> str:
        ledger.note("after")
        return text

    if more:
        wf.step(after=after, name="more")(same)
    return wf


async def same(text: str) -> str:
    return text


def asking_more(ledger: Ledger) -> Workflow:
    return asking(ledger, more=True)


def asking_two(ledger: Ledger) -> Workflow:
    wf = Workflow("asking_two")
    start = wf.step(start=True, name="start")(same)

    @wf.step(after=start)
    async def left(text: str, ctx: Context) -> str:
        return str(await ctx.ask("Left?", answer=str))

    @wf.step(after=start)
    async def right(text: str, ctx: Context) -> str:
        return str(await ctx.ask("Right?", answer=str))

    @wf.step(after=all_of(left, right))
    async def join(words: list[str]) -> str:
        return " ".join(["paper", *words])

    return wf


def asking_in_turn(ledger: Ledger) -> Workflow:
    wf = Workflow("asking_in_turn")

    @wf.step(start=True)
    async def begin(text: str) -> str:
        return text

    @wf.step(after=[begin, "ask"], when=lambda text: not text.endswith(" stop"))
    async def ask(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask('Which word?', answer=str)}"

    wf.step(after=ask, otherwise=True, name="end")(same)
    return wf


def failing(ledger: Ledger) -> Workflow:
    async def ask(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask('Print it?', answer=str)}"

    async def prints(text: str) -> str:
        ledger.note("prints")
        ledger.fail_if_asked()
        return text

    return flow(ask, prints, name="failing")


def slow(ledger: Ledger) -> Workflow:
    async def work(text: str) -> str:
        await ledger.held()
        return text

    return flow(work, name="slow")


def asking_beside(ledger: Ledger) -> Workflow:
    wf = Workflow("asking_beside")
    start = wf.step(start=True, name="start")(same)

    @wf.step(after=start)
    async def ask(text: str, ctx: Context) -> str:
        return f"{text} {await ctx.ask('What of it?', answer=str)}"

    @wf.step(after=start)
    async def work(text: str) -> str:
        await ledger.held()
        return text

    @wf.step(after=all_of(ask, work))
    async def join(texts: list[str]) -> str:
        return texts[0]

    return wf


def unstorable(ledger: Ledger) -> Workflow:
    async def make(text: str) -> Any:
        return Unstorable()

    async def use(value: Any) -> str:
        return "used"

    return flow(make, use, name="unstorable")


def echoing(ledger: Ledger) -> Workflow:
    async def ask(text: str, ctx: Context) -> Any:
        return await ctx.ask("Anything?", answer={})

    return flow(ask, name="echoing")


def chatting(ledger: Ledger) -> Workflow:
    async def add(text: str, ctx: Context) -> str:
        ctx.state["said"] = [*ctx.state.get("said", []), text]
        return " ".join(ctx.state["said"])

    return flow(add, name="chatting", follow_up=True)


class Card(BaseModel):
    number: SecretStr


def secret(ledger: Ledger) -> Workflow:
    async def read(text: str) -> Card:
        return Card(number=SecretStr("4711"))

    async def pay(card: Card) -> str:
        return "paid"

    return flow(read, pay, name="secret")


SAMPLES = Samples(
    steps=Sample(make=four_steps),
    asks=Sample(make=asking),
    changed=Sample(make=asking_more),
    asks_two=Sample(make=asking_two, width=2),
    asks_in_turn=Sample(make=asking_in_turn),
    fails=Sample(make=failing),
    slow=Sample(make=slow),
    asks_beside=Sample(make=asking_beside, width=2),
    unstorable=Sample(make=unstorable),
    echoes=Sample(make=echoing, output=lambda text, given: given[0][1]),
    chats=Sample(make=chatting, output=lambda text, given: text),
    secret=(Sample(make=secret), frozenset({"number"})),
)
