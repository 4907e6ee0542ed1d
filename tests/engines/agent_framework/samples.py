"""Workflows of Agent Framework as authors write them: annotations are evaluated, as the framework wants it."""

# ruff: noqa: I002
import fractions
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, Field, field_validator

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    Case,
    Content,
    Default,
    Executor,
    FunctionInvocationContext,
    WorkflowBuilder,
    WorkflowContext,
    WorkflowExecutor,
    executor,
    handler,
    response_handler,
    tool,
)

from tests.engines.agent_framework.desk import Scripted, results, said


class Draft(BaseModel):
    title: str
    amount: float


class Verdict(BaseModel):
    verdict: Literal["publish", "reject"]
    words: str = Field(default="", max_length=100)

    @field_validator("words")
    @classmethod
    def _no_shouting(cls, words: str) -> str:
        if words and words.isupper():
            raise ValueError("do not shout")
        return words


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    held: T


@dataclass
class Route:
    city: str
    stops: list[int]


class Reviewer(Executor):
    """Asks what to do with a draft."""

    def __init__(self) -> None:
        super().__init__(id="reviewer")
        self.seen = 0

    @handler
    async def review(self, draft: Draft, ctx: WorkflowContext[Draft]) -> None:
        self.seen += 1
        await ctx.request_info(draft, Verdict)

    @response_handler
    async def decided(self, draft: Draft, verdict: Verdict, ctx: WorkflowContext[Draft, str]) -> None:
        if verdict.verdict == "publish":
            await ctx.yield_output(f"{draft.title} published after {self.seen}: {verdict.words}")
        else:
            await ctx.yield_output(f"{draft.title} rejected")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"seen": self.seen}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


@executor(id="write")
async def write(title: str, ctx: WorkflowContext[Draft]) -> None:
    """Write a draft."""
    ctx.set_state("author", "ana")
    await ctx.send_message(Draft(title=title, amount=3.5))


def review_workflow() -> Any:
    return WorkflowBuilder(start_executor=write, name="review").add_edge(write, Reviewer()).build()


class Questionnaire(Executor):
    """Asks several questions at once, and gives every answer."""

    def __init__(self) -> None:
        super().__init__(id="questionnaire")
        self.answers: list[Any] = []

    @handler
    async def begin(self, message: str, ctx: WorkflowContext) -> None:
        await ctx.request_info({"question": "Go ahead?"}, bool)
        await ctx.request_info("Which colour?\nBlue is usual.", Colour)
        await ctx.request_info({"question": "Which way?", "map": "north"}, Route)

    @response_handler
    async def yes_or_no(self, asked: dict, answer: bool, ctx: WorkflowContext[None, str]) -> None:
        await self._take(answer, ctx)

    @response_handler
    async def colour(self, asked: str, answer: Colour, ctx: WorkflowContext[None, str]) -> None:
        await self._take(answer, ctx)

    @response_handler
    async def route(self, asked: dict, answer: Route, ctx: WorkflowContext[None, str]) -> None:
        await self._take(answer, ctx)

    async def _take(self, answer: Any, ctx: Any) -> None:
        self.answers.append(answer)
        if len(self.answers) == 3:
            await ctx.yield_output(" | ".join(map(repr, self.answers)))

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"answers": self.answers}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.answers = list(state["answers"])


def questionnaire() -> Any:
    return WorkflowBuilder(start_executor=Questionnaire(), name="questionnaire").build()


class Listener(Executor):
    """Asks something, and takes any answer."""

    @handler
    async def begin(self, message: str, ctx: WorkflowContext) -> None:
        await ctx.request_info("Well?", object)

    @response_handler
    async def answered(self, asked: str, answer: object, ctx: WorkflowContext[None, object]) -> None:
        await ctx.yield_output(answer)


def open_question() -> Any:
    return WorkflowBuilder(start_executor=Listener(id="listener"), name="listener").build()


class Counter(Executor):
    """Asks again and again, until the answer is 0."""

    def __init__(self, most: int = 10_000) -> None:
        super().__init__(id="counter")
        self.count, self.most = 0, most

    @handler
    async def begin(self, message: str, ctx: WorkflowContext) -> None:
        await ctx.request_info("Another one?", int)

    @response_handler
    async def counted(self, asked: str, answer: int, ctx: WorkflowContext[None, int]) -> None:
        self.count += answer
        if self.count >= self.most:
            await ctx.yield_output(self.count)
        else:
            await ctx.request_info("Another one?", int)

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"count": self.count}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def counting(most: int) -> Any:
    return WorkflowBuilder(start_executor=Counter(most), name="counting").build()


def nested_review(*, propagate: bool = True) -> Any:
    inner = WorkflowExecutor(review_workflow(), id="desk", propagate_request=propagate)

    @executor(id="archive")
    async def archive(published: str, ctx: WorkflowContext[None, str]) -> None:
        await ctx.yield_output(f"archived: {published}")

    return WorkflowBuilder(start_executor=inner, name="nested").add_edge(inner, archive).build()


REFUNDS: list[tuple[int, float]] = []
"""What the tool was called with."""


@tool(approval_mode="always_require")
def refund(order: int, amount: float) -> str:
    """Pay money back to a customer."""
    REFUNDS.append((order, amount))
    return f"paid {amount}"


@tool
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: 40 EUR"


def _clerk(messages: Any) -> list[Any]:
    done = results(messages)
    if not done:
        return ["Let me see.", Content.from_function_call(call_id="c1", name="look_up", arguments={"order": 7})]
    if len(done) == 1:
        return [
            Content.from_function_call(call_id="c2", name="refund", arguments={"order": 7, "amount": 40.0}),
            Content.from_function_call(call_id="c3", name="refund", arguments={"order": 8, "amount": 5.0}),
        ]
    told = [text for text in said(messages) if "person" in text]
    return [f"Results: {'; '.join(done[1:])}. {' '.join(told)}".strip()]


def clerk() -> Agent:
    return Agent(Scripted(_clerk), name="clerk", description="Pays refunds.", tools=[refund, look_up])


def refunds() -> Any:
    return WorkflowBuilder(start_executor=clerk(), name="refunds").build()


def _parrot(messages: Any) -> list[Any]:
    return [f"heard {len(said(messages))}: {said(messages)[-1]}"]


def chat() -> Any:
    return WorkflowBuilder(start_executor=Agent(Scripted(_parrot), name="parrot"), name="chat").build()


BROKEN: list[bool] = []
"""Whether the printer is out of paper."""


class Printer(Executor):
    def __init__(self) -> None:
        super().__init__(id="printer")

    @handler
    async def begin(self, message: str, ctx: WorkflowContext) -> None:
        await ctx.request_info("Print?", str)

    @response_handler
    async def printed(self, asked: str, answer: str, ctx: WorkflowContext[None, str]) -> None:
        if BROKEN:
            raise OSError("out of paper")
        await ctx.yield_output(f"printed {answer}")


def failing() -> Any:
    return WorkflowBuilder(start_executor=Printer(), name="failing").build()


class Locksmith(Executor):
    """Keeps what no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__(id="locksmith")
        self.kept: Any = None

    @handler
    async def begin(self, message: str, ctx: WorkflowContext[None, str]) -> None:
        self.kept = threading.Lock()
        await ctx.yield_output("done")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"kept": self.kept}


def unkeepable() -> Any:
    return WorkflowBuilder(start_executor=Locksmith(), name="unkeepable").build()


class Collector(Executor):
    """Keeps an object of a class that its workflow names nowhere."""

    def __init__(self) -> None:
        super().__init__(id="collector")
        self.found: Any = None

    @handler
    async def begin(self, message: str, ctx: WorkflowContext[None, str]) -> None:
        self.found = fractions.Fraction(1, 3)
        await ctx.yield_output("done")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"found": self.found}


def unknown_class() -> Any:
    return WorkflowBuilder(start_executor=Collector(), name="unknown_class").build()


def is_dear(draft: Any) -> bool:
    return draft.amount > 3


def is_odd(text: Any) -> bool:
    return len(text) % 2 == 1


@executor(id="cheap")
async def cheap(draft: Draft, ctx: WorkflowContext[str]) -> None:
    await ctx.send_message(draft.title)


@executor(id="other")
async def other(title: str, ctx: WorkflowContext[None, str]) -> None:
    await ctx.yield_output(title)


def routed() -> Any:
    cases = [Case(condition=is_dear, target=Reviewer()), Default(target=cheap)]
    builder = WorkflowBuilder(start_executor=write, name="routed").add_switch_case_edge_group(write, cases)
    return builder.add_edge(cheap, other, condition=is_odd).build()


def from_draft() -> Any:
    return WorkflowBuilder(start_executor=Reviewer(), name="from_draft").build()


@executor(id="archive")
async def archive(draft: Draft, ctx: WorkflowContext[None, str]) -> None:
    await ctx.yield_output(f"{draft.title} archived")


def review_and_archive() -> Any:
    reviewer = Reviewer()
    builder = WorkflowBuilder(start_executor=write, name="review").add_edge(write, reviewer)
    return builder.add_edge(reviewer, archive).build()


@tool(approval_mode="always_require")
def sign(text: str, ctx: FunctionInvocationContext) -> str:
    """Sign a text."""
    return f"signed by {ctx.kwargs.get('clerk')}"


def _signer(messages: Any) -> list[Any]:
    return results(messages) or [Content.from_function_call(call_id="s1", name="sign", arguments={"text": "x"})]


def signing() -> Any:
    agent = Agent(Scripted(_signer), name="signer", tools=[sign])
    return WorkflowBuilder(start_executor=agent, name="signing").build()


def nested_refunds() -> Any:
    office = WorkflowExecutor(refunds(), id="office", propagate_request=True, allow_direct_output=True)
    return WorkflowBuilder(start_executor=office, name="nested_refunds").build()


class Formless:
    """A class of which nothing is known."""

    def __init__(self, anything: Any) -> None:
        self.anything = anything


class Vague(Executor):
    @handler
    async def begin(self, message: str, ctx: WorkflowContext) -> None:
        await ctx.request_info("What?", Formless)

    @response_handler
    async def answered(self, asked: str, answer: Formless, ctx: WorkflowContext) -> None:
        pass


def formless() -> Any:
    return WorkflowBuilder(start_executor=Vague(id="formless"), name="formless").build()


class Asker(Executor):
    """Asks, and fails on the answer *fail*."""

    @handler
    async def ask(self, text: str, ctx: WorkflowContext) -> None:
        await ctx.request_info(f"{self.id}: {text}?", str)

    @response_handler
    async def answered(self, asked: str, word: str, ctx: WorkflowContext) -> None:
        if word == "fail":
            raise ValueError(f"{self.id} fails")


def two_askers() -> Any:
    @executor(id="start")
    async def start(text: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(text)

    askers = [Asker(id="first"), Asker(id="second")]
    return WorkflowBuilder(start_executor=start, name="two_askers").add_fan_out_edges(start, askers).build()
