"""A long history: an agent of pydantic-ai calls a tool 40 times, alone and under ``run_agent``, in processor time.

The model is OpenAI's client as it is, whose requests a transport in this process answers: encoding the history for
each turn is a part of what an agent costs, alone as well. A scripted model that reads nothing would leave it out.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.benchmarks.world import Report, fresh_django, median

TURNS = 40
ROUNDS = 7
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
BAR = 1.5
"""Of the plain agent's processor time."""


class Scripted(httpx.AsyncBaseTransport):
    """A provider that wants the tool once a turn, and ends after so many turns."""

    turn = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer once the whole request has been encoded, as a stream where that is asked for."""
        streams = b'"stream":true' in await request.aread()
        self.turn += 1
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if self.turn <= TURNS:
            function = {"name": "look", "arguments": json.dumps({"place": self.turn})}
            calls = [{"index": 0, "id": f"call {self.turn}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        part = "delta" if streams else "message"
        answer = {"id": "x", "created": 1, "model": "m", "usage": USAGE}
        answer["choices"] = [{"index": 0, part: message, "finish_reason": "stop"}]
        if part == "message":
            return httpx.Response(200, json=answer | {"object": "chat.completion"})
        line = json.dumps(answer | {"object": "chat.completion.chunk"})
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, text=f"data: {line}\n\ndata: [DONE]\n\n", headers=headers)


def agent_of(size: int) -> Agent[Any, str]:
    """Return an agent whose tool returns a text of so many bytes."""
    client = AsyncOpenAI(api_key="none", http_client=httpx.AsyncClient(transport=Scripted()))
    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))

    @agent.tool_plain
    def look(place: int) -> str:
        return f"{place:04d} lorem ipsum"[:16].ljust(16) * (size // 16)

    return agent


async def processor(run: Callable[[], Awaitable[Any]]) -> float:
    """Return its seconds of processor time."""
    before = time.process_time()
    done = await run()
    assert done.output == "done", done
    return time.process_time() - before


async def ratio(size: int) -> float:
    """Return the median over rounds, in turns."""
    from checkpoints.database.storage import DatabaseStorage
    from wfdash.agents import run_agent
    from wfdash.workflow import Context, Workflow

    workflow, storage = Workflow("agent"), DatabaseStorage()

    async def work(ctx: Context) -> str:
        return str((await run_agent(ctx, agent_of(size), "go")).output)

    workflow.step(start=True)(work)
    found = []
    for _ in range(ROUNDS):
        alone = await processor(lambda: agent_of(size).run("go"))
        ours = await processor(lambda: workflow.run(message=None, storage=storage))
        found.append(ours / alone)
    await storage.aclose()
    return median(found[1:])


def main() -> int:
    """Measure, with results of 100 bytes and of 100 kB."""
    report = Report(f"an agent of {TURNS} turns: processor time, recorded / alone")
    with fresh_django():
        for size, name in ((100, "100 bytes"), (100_000, "100 kB")):
            report.at_most(f"tools that return {name}", asyncio.run(ratio(size)), BAR, "x")
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
