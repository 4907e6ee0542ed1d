"""The workflows with which the engine of Agent Framework is put through what engines promise."""

# ruff: noqa: I002
import itertools
from collections.abc import Sequence
from typing import Any, Never

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    Executor,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    executor,
    handler,
    response_handler,
)

from tests.engines.agent_framework.desk import Scripted, said
from wfdash.engines import serve
from wfdash.engines.conformance import Ledger, Sample, Samples, Unstorable


def noting(ledger: Ledger, name: str, *, last: bool = False, noted: bool = True) -> Any:
    """Return an executor that notes its name and passes the text on; the last one gives it."""

    async def run(text: str, ctx: WorkflowContext[str, str]) -> None:
        if noted:
            ledger.note(name)
        await (ctx.yield_output(text) if last else ctx.send_message(text))

    return executor(run, id=name)


def in_a_row(name: str, executors: Sequence[Any]) -> Any:
    builder = WorkflowBuilder(start_executor=executors[0], name=name)
    for one, other in itertools.pairwise(executors):
        builder = builder.add_edge(one, other)
    return builder.build()


class Asker(Executor):
    """Asks one question, and passes on the text and the answer."""

    def __init__(self, name: str, question: str = "What of {}?") -> None:
        super().__init__(id=name)
        self.question = question

    @handler
    async def begin(self, text: str, ctx: WorkflowContext) -> None:
        await ctx.request_info({"question": self.question.format(text), "text": text}, str)

    @response_handler
    async def answered(self, asked: dict, word: str, ctx: WorkflowContext[str, str]) -> None:
        await ctx.send_message(f"{asked['text']} {word}")


class InTurn(Executor):
    """Asks until the word is stop."""

    @handler
    async def begin(self, text: str, ctx: WorkflowContext) -> None:
        await ctx.request_info({"question": "Which word?", "text": text}, str)

    @response_handler
    async def answered(self, asked: dict, word: str, ctx: WorkflowContext[Never, str]) -> None:
        text = f"{asked['text']} {word}"
        if word == "stop":
            await ctx.yield_output(text)
        else:
            await ctx.request_info({"question": "Which word?", "text": text}, str)


class Anything(Executor):
    """Asks for any JSON, and gives it."""

    @handler
    async def begin(self, text: str, ctx: WorkflowContext) -> None:
        await ctx.request_info("Anything?", Any)

    @response_handler
    async def answered(self, asked: str, answer: Any, ctx: WorkflowContext[Never, Any]) -> None:
        await ctx.yield_output(answer)


def four_steps(ledger: Ledger) -> Any:
    names = ["one", "two", "three", "four"]
    return in_a_row("four_steps", [noting(ledger, name, last=name == "four") for name in names])


def asking(ledger: Ledger) -> Any:
    return in_a_row("asking", [noting(ledger, "before"), Asker("ask"), noting(ledger, "after", last=True)])


def asking_more(ledger: Ledger) -> Any:
    steps = [noting(ledger, "before"), Asker("ask"), noting(ledger, "after")]
    return in_a_row("asking", [*steps, noting(ledger, "more", last=True, noted=False)])


def asking_two(ledger: Ledger) -> Any:
    left, right = Asker("left", "Left?"), Asker("right", "Right?")
    start = noting(ledger, "start", noted=False)

    async def join(texts: list[str], ctx: WorkflowContext[Never, str]) -> None:
        words = [text.partition(" ")[2] for text in texts]
        await ctx.yield_output(" ".join([texts[0].partition(" ")[0], *words]))

    builder = WorkflowBuilder(start_executor=start, name="asking_two").add_fan_out_edges(start, [left, right])
    return builder.add_fan_in_edges([left, right], executor(join, id="join")).build()


def asking_in_turn(ledger: Ledger) -> Any:
    return WorkflowBuilder(start_executor=InTurn(id="ask"), name="asking_in_turn").build()


def failing(ledger: Ledger) -> Any:
    async def prints(text: str, ctx: WorkflowContext[Never, str]) -> None:
        ledger.note("prints")
        ledger.fail_if_asked()
        await ctx.yield_output(text)

    return in_a_row("failing", [Asker("ask", "Print it?"), executor(prints, id="prints")])


def slow(ledger: Ledger) -> Any:
    async def work(text: str, ctx: WorkflowContext[Never, str]) -> None:
        await ledger.held()
        await ctx.yield_output(text)

    return WorkflowBuilder(start_executor=executor(work, id="work"), name="slow").build()


def unstorable(ledger: Ledger) -> Any:
    async def make(text: str, ctx: WorkflowContext[Unstorable]) -> None:
        await ctx.send_message(Unstorable())

    async def use(value: Unstorable, ctx: WorkflowContext[Never, str]) -> None:
        await ctx.yield_output("used")

    return in_a_row("unstorable", [executor(make, id="make"), executor(use, id="use")])


def echoing(ledger: Ledger) -> Any:
    return WorkflowBuilder(start_executor=Anything(id="ask"), name="echoing").build()


def _recall(messages: Sequence[Message]) -> list[str]:
    return [" ".join(said(messages))]


def chatting(ledger: Ledger) -> Any:
    return WorkflowBuilder(start_executor=Agent(Scripted(_recall), name="memory"), name="chatting").build()


def secret(ledger: Ledger) -> Any:
    return serve(in_a_row("secret", [noting(ledger, "one", last=True)]), secrets=["number"])


SAMPLES = Samples(
    steps=Sample(make=four_steps),
    asks=Sample(make=asking),
    changed=Sample(make=asking_more),
    asks_two=Sample(make=asking_two, width=2),
    asks_in_turn=Sample(make=asking_in_turn),
    fails=Sample(make=failing),
    slow=Sample(make=slow),
    unstorable=Sample(make=unstorable),
    echoes=Sample(make=echoing, output=lambda text, given: given[0][1]),
    chats=Sample(make=chatting),
    secret=(Sample(make=secret), frozenset({"number"})),
)
