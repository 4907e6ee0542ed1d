"""An agent answers a customer. It looks orders up on its own, and pays money back only once a person approves.
When the customer writes again, it remembers.

Its model is scripted and needs no network, unless ``WFDASH_AGENT_MODEL`` names one: then any endpoint that speaks
OpenAI's API is asked, at ``OPENAI_BASE_URL`` with the key ``OPENAI_API_KEY``.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel, Field

from wfdash.agents import run_agent
from wfdash.examples import support_shop
from wfdash.workflow import Context, Policy, Workflow


class Ticket(BaseModel):
    """What a customer writes."""

    customer: str = Field("Mara Lindt", min_length=1, max_length=80)
    message: str = Field(
        "Order 1042 arrived broken. I want my money back.",
        min_length=1,
        max_length=2_000,
        json_schema_extra={"format": "textarea"},
    )


class Solved(BaseModel):
    """What the customer gets, and what it took."""

    reply: str
    refunded: list[int]
    turns: int


Message = Annotated[
    str, Field(title="Message", min_length=1, max_length=2_000, json_schema_extra={"format": "textarea"})
]

support_agent = Workflow("support_agent", title="Support agent", doc=__doc__ or "", run_title="{customer}")


@support_agent.step(start=True, people=True)
async def answer(ticket: Ticket, ctx: Context) -> Solved:
    """Let the agent answer; every refund is approved, edited, rejected or answered by a person."""
    return await _converse(ctx, f"{ticket.customer} writes:\n\n{ticket.message}")


@support_agent.step(follow_up=True, people=True)
async def reply(message: Message, ctx: Context) -> Solved:
    """Let the agent answer what the customer writes next: it knows everything that was said and done before."""
    return await _converse(ctx, message)


async def _converse(ctx: Context, prompt: str) -> Solved:
    # The library takes a second to import, which would block the worker.
    agent = await asyncio.to_thread(support_shop.agent, support_shop.Shop())
    before = ctx.state.get("history", [])
    said = await run_agent(
        ctx, agent, prompt, history=before, policies={"refund": Policy(due="8h", on_timeout="reject")}, once=["refund"]
    )
    ctx.state["history"] = said.history
    return Solved(reply=said.output, refunded=_refunded(said.history[len(before) :]), turns=said.usage.turns)


def _refunded(history: list[Any]) -> list[int]:
    """Return the orders that were paid back in these messages, as the tool said."""
    parts = [part for message in history for part in message["parts"]]
    found = [part for part in parts if part["part_kind"] == "tool-return" and part["tool_name"] == "refund"]
    done = [support_shop.result_of(part["content"]) for part in found]
    return [one["order"] for one in done if isinstance(one, dict)]
