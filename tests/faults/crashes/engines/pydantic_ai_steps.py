"""The four steps as an agent of pydantic-ai: two turns of its model, and between them a tool that must run once."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.faults.crashes.engines import steps
from wfdash.agents import run_agent
from wfdash.workflow import Context, Workflow

pydantic_ai_steps = Workflow("pydantic_ai_steps")


async def work(folder: str) -> str:
    await steps.work(folder)
    return "worked"


@pydantic_ai_steps.step(start=True)
async def act(folder: str, ctx: Context) -> Any:
    def say(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        worked = any(part.part_kind == "tool-return" for message in messages for part in message.parts)
        steps.write_line(folder, "last" if worked else "first")
        return ModelResponse(parts=[TextPart("done") if worked else ToolCallPart("work", {"folder": folder})])

    agent = Agent(FunctionModel(say), tools=[Tool(work, requires_approval=True)])
    return (await run_agent(ctx, agent, "Work, please", once=("work",))).output
