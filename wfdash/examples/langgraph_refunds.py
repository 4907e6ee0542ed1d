"""An agent written for LangGraph pays money back, each payment only once a person approves. The graph is served as it
is: ``wfdash up wfdash.examples.langgraph_refunds``. Its model is scripted and needs no network.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt

from wfdash.engines import serve
from wfdash.examples.langgraph_model import ScriptedChatModel
from wfdash.questions.policy import Policy

PRICES = {1042: 39.9, 1077: 12.5}


class Support(TypedDict):
    """What the agent knows: the conversation, and which orders were paid back."""

    messages: Annotated[list[AnyMessage], add_messages]
    refunded: dict[str, float]


class Request(TypedDict):
    """What a customer writes."""

    messages: Annotated[list[AnyMessage], add_messages]


def refund(order: int, amount: float) -> dict[str, Any]:
    """Return a call of the tool, as a model makes it."""
    return {"name": "refund", "args": {"order": order, "amount": amount}, "id": f"refund-{order}", "type": "tool_call"}


MODEL = ScriptedChatModel(
    replies=[
        AIMessage("I will refund both orders.", tool_calls=[refund(order, price) for order, price in PRICES.items()]),
        AIMessage("Thank you for your patience. What was approved is on its way to your account."),
    ]
)


def think(state: Support) -> dict[str, Any]:
    """Let the model say what to do next."""
    return {"messages": [MODEL.invoke(state["messages"])]}


def review(state: Support) -> dict[str, Any]:
    """Ask people about each payment, and make those that they approve."""
    calls = calls_in(state)
    verbs = ["approve", "edit", "reject"]
    decisions = interrupt(
        {
            "action_requests": [{"name": one["name"], "args": one["args"]} for one in calls],
            "review_configs": [{"action_name": "refund", "allowed_decisions": verbs}],
        }
    )["decisions"]
    done: list[ToolMessage] = []
    refunded = dict(state.get("refunded") or {})
    for call, decision in zip(calls, decisions, strict=True):
        args = decision["edited_action"]["args"] if decision["type"] == "edit" else call["args"]
        rejected = decision["type"] == "reject"
        text = f"Rejected: {decision.get('message') or 'no reason'}" if rejected else f"Paid {args['amount']:.2f}"
        if not rejected:
            refunded[str(args["order"])] = args["amount"]
        done.append(ToolMessage(text, name=call["name"], tool_call_id=call["id"]))
    return {"messages": done, "refunded": refunded}


def calls_in(state: Support) -> list[Any]:
    """Return the calls of tools in the last message."""
    last = state["messages"][-1]
    return list(last.tool_calls) if isinstance(last, AIMessage) else []


def next_step(state: Support) -> str:
    """Return where to go after the model has spoken."""
    return "review" if calls_in(state) else END


builder = StateGraph(Support, input_schema=Request)
builder.add_node(think)
builder.add_node(review)
builder.add_edge(START, "think")
builder.add_conditional_edges("think", next_step, ["review", END])
builder.add_edge("review", "think")

langgraph_refunds = serve(
    builder.compile(),
    title="Refunds by an agent",
    doc="An agent written for LangGraph pays money back, each payment only once a person approves.",
    policies={"refund": Policy(due="8h")},
)
