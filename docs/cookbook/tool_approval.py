"""An agent that calls tools. Reading is free; what changes something needs a person's approval."""

from typing import Any

from pydantic import BaseModel

from wfdash.workflow import Context, Policy, ToolCall, Workflow
from wfdash.workflow.evidence import Table


class Turn(BaseModel):
    """What the model wants next: a tool with its arguments, or nothing but its answer."""

    say: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}


class Chat(BaseModel):
    messages: list[dict[str, str]]


support = Workflow("support_agent", title="Support agent", policy=Policy(by="support", due="1d"), max_steps=40)


@support.step(start=True)
async def begin(question: str) -> Chat:
    return Chat(messages=[{"role": "user", "content": question}])


@support.step(after=["begin", "act"])
async def think(chat: Chat, ctx: Context) -> Chat | str:
    turn = await ctx.call(model, chat.messages)
    if not turn.tool:
        return turn.say
    ctx.state["turn"] = turn.model_dump()
    return chat


@support.step(after=think)
async def act(chat: Chat, ctx: Context) -> Chat:
    turn = Turn.model_validate(ctx.state["turn"])
    result = await use_tool(turn, chat, ctx)
    return Chat(messages=[*chat.messages, {"role": "tool", "content": f"{turn.tool}: {result}"}])


async def use_tool(turn: Turn, chat: Chat, ctx: Context) -> str:
    if turn.tool in FREE:
        return await ctx.call(FREE[turn.tool], **turn.arguments)
    tool = GUARDED[turn.tool]
    card = ToolCall(
        tool=tool,
        arguments=turn.arguments,
        evidence=[Table(title="Conversation", rows=chat.messages)],
        risk="medium",
        undo="None: the money is gone",
    )
    decision = await ctx.ask(card)
    if decision.approved:
        return await ctx.call(tool, **decision.arguments, once=True)
    return decision.response or f"not allowed: {decision.feedback or 'no reason was given'}"


@support.step(after=think)
async def reply(text: str) -> str:
    return text


def look_up(order: str) -> str:
    """Read an order."""
    return f"order {order}: 2 teapots, one arrived broken"


def refund(order: str, amount: float) -> str:
    """Pay money back to the customer."""
    return f"{amount:.2f} paid for {order}"


FREE = {"look_up": look_up}
GUARDED = {"refund": refund}


async def model(messages: list[dict[str, str]]) -> Turn:
    """Call a language model here. This one has learned its three turns by heart."""
    done = [message["content"] for message in messages if message["role"] == "tool"]
    if not done:
        return Turn(tool="look_up", arguments={"order": "A-7"})
    if len(done) == 1:
        return Turn(tool="refund", arguments={"order": "A-7", "amount": 80})
    return Turn(say=f"Done ({done[-1]})")
