"""The four steps as an agent of the OpenAI Agents SDK: two turns of its model, and between them a tool."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.faults.crashes.engines import steps
from wfdash.agents import run_agent
from wfdash.workflow import Context, Workflow

agents_steps = Workflow("agents_steps")


class Script(Model):
    """A model that calls the tool, and is done when it has its result."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:  # noqa: A002
        worked = any(item.get("type") == "function_call_output" for item in input if isinstance(item, dict))
        steps.write_line(self.folder, "last" if worked else "first")
        return ModelResponse(output=[said() if worked else called(self.folder)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def called(folder: str) -> ResponseFunctionToolCall:
    arguments = json.dumps({"folder": folder})
    return ResponseFunctionToolCall(type="function_call", name="work", call_id="w", id="w", arguments=arguments)


def said() -> ResponseOutputMessage:
    text = ResponseOutputText(type="output_text", text="done", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])


@function_tool(needs_approval=True)
async def work(folder: str) -> str:
    await steps.work(folder)
    return "worked"


@agents_steps.step(start=True)
async def act(folder: str, ctx: Context) -> Any:
    agent = Agent(name="worker", model=Script(folder), tools=[work])
    return (await run_agent(ctx, agent, "Work, please")).output
