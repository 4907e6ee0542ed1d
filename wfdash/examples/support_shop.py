"""The agent of ``support_agent``: its orders, its tools, and a scripted model for where there is no other."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model

ORDERS = {
    1042: {"item": "Desk lamp", "paid": 89.9, "delivered": "2026-11-12"},
    1077: {"item": "Office chair", "paid": 420.0, "delivered": "2026-11-03"},
}
INSTRUCTIONS = (
    "You answer customers of a furniture shop, politely and in at most four sentences. Look an order up before you "
    "speak about it. Pay back what was paid for goods that arrived broken, never more."
)
ORDER = re.compile(r"\b(\d{4})\b")


class Shop:
    """What the agent's tools can do."""

    def look_up(self, order: int) -> dict[str, Any]:
        """Look an order up by its number."""
        return {"order": order, **ORDERS[order]} if order in ORDERS else {"error": f"There is no order {order}"}

    def refund(self, order: int, amount: float, reason: str) -> dict[str, Any]:
        """Pay money back to the customer of an order, in euros."""
        return {"order": order, "amount": amount, "reason": reason}


def agent(shop: Shop) -> Agent[None, str]:
    """Return the agent with its tools. Needs the extra ``pydantic-ai``."""
    from pydantic_ai import Agent, Tool

    tools = [Tool(shop.look_up), Tool(shop.refund, requires_approval=True)]
    return Agent(_model(), instructions=INSTRUCTIONS, tools=tools)


def _model() -> Model | str:
    """Return the model that the environment names, else the scripted one."""
    name = os.environ.get("WFDASH_AGENT_MODEL", "")
    if name:
        return name if ":" in name else f"openai-chat:{name}"
    from pydantic_ai.models.function import FunctionModel

    return FunctionModel(script, stream_function=stream_script, model_name="scripted")


def script(messages: list[Any], info: Any) -> Any:
    """Say what a model might: look the order up, propose the refund, then answer the customer."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

    said = _next(messages)
    return ModelResponse(parts=[TextPart(said) if isinstance(said, str) else ToolCallPart(*said)])


async def stream_script(messages: list[Any], info: Any) -> Any:
    """Yield the same as ``script``, word by word."""
    from pydantic_ai.models.function import DeltaToolCall

    said = _next(messages)
    if isinstance(said, str):
        for word in re.findall(r"\S+\s*", said):
            yield word
    else:
        tool, arguments = said
        import json

        yield {0: DeltaToolCall(name=tool, json_args=json.dumps(arguments))}


def _next(messages: list[Any]) -> str | tuple[str, dict[str, Any]]:
    """Return what the scripted model says next: a text, or a tool and its arguments."""
    parts = [part for message in messages for part in message.parts]
    prompts = [place for place, part in enumerate(parts) if part.part_kind == "user-prompt"]
    numbers = [found[1] for place in prompts if (found := ORDER.search(str(parts[place].content)))]
    if not numbers:
        return "What is the number of your order? You find it on the invoice, four digits."
    order = int(numbers[-1])
    if paid := next((one for one in _results(parts[: prompts[-1]], "refund") if one["order"] == order), None):
        return f"We have paid back {paid['amount']:.2f} euros for order {order} already. A bank takes up to three days."
    results = [part for part in parts[prompts[-1] :] if part.part_kind == "tool-return"]
    return _after_look_up(results) if results else ("look_up", {"order": order})


def result_of(content: Any) -> Any:
    """Return what a tool returned: of a call that a person changed, without the sentence that says so."""
    return content["result"] if isinstance(content, dict) and content.keys() == {"note", "result"} else content


def _results(parts: list[Any], tool: str) -> list[dict[str, Any]]:
    found = [result_of(part.content) for part in parts if part.part_kind == "tool-return" and part.tool_name == tool]
    return [one for one in found if isinstance(one, dict)]


def _after_look_up(results: list[Any]) -> str | tuple[str, dict[str, Any]]:
    found = results[0].content
    if "error" in found:
        return f"I cannot find that order. {found['error']}: please check the number."
    if len(results) == 1:
        return "refund", {"order": found["order"], "amount": found["paid"], "reason": f"{found['item']} arrived broken"}
    paid = result_of(results[-1].content)
    if isinstance(paid, dict):
        return f"I am sorry about your {found['item'].lower()}. We have paid back {paid['amount']:.2f} euros."
    return f"I am sorry about your {found['item'].lower()}. About your money: {paid}"
