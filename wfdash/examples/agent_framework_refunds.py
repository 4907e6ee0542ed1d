"""A workflow of Microsoft Agent Framework, served as it is: an agent proposes refunds, people approve each of them.

Its model is scripted and needs no network; any chat client of the framework takes its place. Needs the extra
``agent-framework``, so it is not in the demo: ``wfdash up wfdash.examples.agent_framework_refunds``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Never

from agent_framework import (
    Agent,
    AgentExecutorRequest,
    AgentExecutorResponse,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    WorkflowBuilder,
    WorkflowContext,
    executor,
    tool,
)
from pydantic import BaseModel, Field

from wfdash.engines import serve
from wfdash.questions.policy import Policy

ORDERS = {1042: ("Desk lamp", 89.9), 1077: ("Office chair", 420.0), 1080: ("Bookshelf", 149.0)}
ORDER = re.compile(r"\b(\d{4})\b")


class Complaint(BaseModel):
    """What a customer writes."""

    customer: str = Field("Mara Lindt", min_length=1, max_length=80)
    message: str = Field(
        "Orders 1042 and 1077 arrived broken. I want my money back.",
        min_length=1,
        max_length=2_000,
        json_schema_extra={"format": "textarea"},
    )


class Reply(BaseModel):
    """What the customer gets."""

    customer: str
    text: str


@tool
def look_up(order: int) -> str:
    """Look an order up by its number."""
    if order not in ORDERS:
        return f"There is no order {order}."
    item, paid = ORDERS[order]
    return f"Order {order}: {item}, paid {paid:.2f} euros."


@tool(approval_mode="always_require")
def refund(order: int, amount: float) -> str:
    """Pay money back to the customer of an order, in euros."""
    return f"{amount:.2f} euros were paid back for order {order}."


class ScriptedModel(FunctionInvocationLayer, BaseChatClient):
    """Says what a model might: looks orders up, proposes a refund for each, then writes to the customer."""

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, **_: Any) -> Any:
        said = _next(messages)
        if stream:
            return ResponseStream(_in_words(said), finalizer=ChatResponse.from_updates)
        return _at_once(said)


async def _at_once(said: list[Content]) -> ChatResponse:
    return ChatResponse(messages=[Message(role="assistant", contents=said)])


async def _in_words(said: list[Content]) -> AsyncIterator[ChatResponseUpdate]:
    for content in said:
        words = re.findall(r"\S+\s*", content.text or "")
        for piece in [Content.from_text(word) for word in words] or [content]:
            yield ChatResponseUpdate(role="assistant", contents=[piece])


def _next(messages: Sequence[Message]) -> list[Content]:
    """Return what the scripted model says next: a text, or calls of tools."""
    contents = [content for message in messages for content in message.contents]
    orders = [int(number) for number in ORDER.findall(" ".join(m.text for m in messages if m.role == "user"))]
    known = [order for order in dict.fromkeys(orders) if order in ORDERS]
    results = [str(content.result) for content in contents if content.type == "function_result"]
    if not known:
        return [Content.from_text("What is the number of your order? You find it on the invoice, four digits.")]
    if not results:
        calls = [_call("look_up", order=order) for order in known]
        return [Content.from_text("I look up what was ordered."), *calls]
    if len(results) == len(known):
        return [_call("refund", order=order, amount=ORDERS[order][1]) for order in known]
    paid = [result for result in results if "paid back" in result]
    answers = [content.text for content in contents if content.type == "text" and "person" in (content.text or "")]
    sorry = "I am sorry about your order."
    return [Content.from_text(" ".join([sorry, *(paid or ["We cannot pay anything back."]), *map(str, answers)]))]


def _call(name: str, **arguments: Any) -> Content:
    return Content.from_function_call(call_id=f"{name}-{arguments['order']}", name=name, arguments=arguments)


@executor(id="complaint")
async def complaint(given: Complaint, ctx: WorkflowContext[AgentExecutorRequest]) -> None:
    """Hand the complaint to the clerk."""
    ctx.set_state("customer", given.customer)
    message = Message(role="user", contents=[f"{given.customer} writes: {given.message}"])
    await ctx.send_message(AgentExecutorRequest(messages=[message], should_respond=True))


@executor(id="reply")
async def reply(said: AgentExecutorResponse, ctx: WorkflowContext[Never, Reply]) -> None:
    """Send what the clerk wrote."""
    await ctx.yield_output(Reply(customer=ctx.get_state("customer"), text=said.agent_response.text))


def build() -> Any:
    """Return the workflow: complaint, clerk, reply."""
    clerk = Agent(
        ScriptedModel(),
        name="clerk",
        description="Answers customers, and proposes refunds.",
        instructions="You answer customers of a furniture shop. Pay back what was paid for goods that arrived broken.",
        tools=[look_up, refund],
    )
    builder = WorkflowBuilder(start_executor=complaint, name="refund_clerk", output_from=[reply])
    return builder.add_edge(complaint, clerk).add_edge(clerk, reply).build()


refund_clerk = serve(
    build(), title="Refund clerk", doc=__doc__ or "", policies={"refund": Policy(due="8h", on_timeout="reject")}
)
