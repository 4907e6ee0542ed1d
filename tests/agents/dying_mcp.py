"""A process whose children run an agent with a real MCP server and kill themselves (SIGKILL); says what came of it.

``python -m tests.agents.dying_mcp FOLDER LIBRARY``: a child dies after the second of three approved calls was made and
before it was recorded, and the next one in the turn of the model that follows.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.agents.dying import APPROVE, Life
from wfdash.agents import run_agent
from wfdash.workflow import Context, Workflow

HERE = str(Path(__file__).parents[2])
FILES = ("f0", "f1", "f2")
HAPPENED = "deleted f1"


def server_of(folder: Path) -> list[str]:
    return ["-m", "tests.agents.mcp_shop", str(folder / "ledger")]


async def openai(life: Life, folder: Path, question: str, ctx: Context) -> Any:
    from agents import Agent
    from agents.mcp import MCPServerStdio

    from tests.agents.test_openai_agents import Script, say, use

    class Dying(Script):
        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> Any:  # noqa: A002
            self.asked = 0 if isinstance(input, str) else sum("output" in one for one in input)
            life.did(f"model {self.asked}")
            return await super().get_response(system_instructions, input, *args, **options)

    class Shop(MCPServerStdio):
        async def call_tool(self, name: str, arguments: Any, *args: Any, **options: Any) -> Any:
            found = await super().call_tool(name, arguments, *args, **options)
            life.did(f"called {arguments.get('name', name)}")
            return found

    params: Any = {"command": sys.executable, "args": server_of(folder), "cwd": HERE}
    policy: Any = {"always": {"tool_names": ["delete_file"]}}
    async with Shop(params=params, require_approval=policy, client_session_timeout_seconds=60) as server:
        turns = [[use("list_files", "l")], *[[use("delete_file", f"d{name}", name=name)] for name in FILES]]
        agent = Agent(name="files", model=Dying(*turns, [say("done")]), mcp_servers=[server])
        return (await run_agent(ctx, agent, question, once=["delete_file"])).output


async def pydantic(life: Life, folder: Path, question: str, ctx: Context) -> Any:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    deletes = [ToolCallPart("delete_file", {"name": name}, tool_call_id=f"d{name}") for name in FILES]
    turns = [ToolCallPart("list_files", {}, tool_call_id="l"), *deletes, TextPart("done")]

    def say(messages: Any, info: Any) -> ModelResponse:
        made = sum(isinstance(message, ModelResponse) for message in messages)
        life.did(f"model {made}")
        return ModelResponse(parts=[turns[made]])

    async def process(run: Any, call_tool: Any, name: str, arguments: dict[str, Any]) -> Any:
        found = await call_tool(name, arguments)
        life.did(f"called {arguments.get('name', name)}")
        return found

    transport = StdioTransport(command=sys.executable, args=server_of(folder), cwd=HERE)
    shop = MCPToolset(transport, process_tool_call=process)
    toolset = shop.approval_required(lambda run, tool, arguments: tool.name == "delete_file")
    agent = Agent(FunctionModel(say), toolsets=[toolset])
    return (await run_agent(ctx, agent, question, once=["delete_file"])).output


async def adk(life: Life, folder: Path, question: str, ctx: Context) -> Any:
    from google.adk.agents import LlmAgent
    from google.adk.tools.mcp_tool import McpToolset
    from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
    from mcp import StdioServerParameters

    from tests.agents.test_google_adk import Script, results, say, use

    class Dying(Script):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            self.seen[:] = [None, llm_request.contents]
            made = len(results(self))
            life.did(f"model {made}")
            self.seen[:] = [None] * made
            async for one in super().generate_content_async(llm_request, stream):
                yield one

    class Shop(McpToolset):
        async def get_tools(self, readonly_context: Any = None) -> Any:
            found = await super().get_tools(readonly_context)
            for tool in found:
                tool.run_async = partial(self.call, tool.run_async)
            return found

        async def call(self, use: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
            found = await use(args=args, tool_context=tool_context)
            life.did(f"called {args.get('name', 'list_files')}")
            return found

    server = StdioServerParameters(command=sys.executable, args=server_of(folder), cwd=HERE)
    shop = Shop(
        connection_params=StdioConnectionParams(server_params=server, timeout=60),
        require_confirmation=lambda name="": bool(name),
    )
    turns = [[use("list_files")], *[[use("delete_file", name=name)] for name in FILES]]
    agent = LlmAgent(name="files", model=Dying(turns=[*turns, [say("done")]]), tools=[shop])
    try:
        return (await run_agent(ctx, agent, question, once=["delete_file"])).output
    finally:
        await shop.close()


def workflow(life: Life, folder: Path, library: str) -> Workflow:
    wf = Workflow("files")
    run = {"openai": openai, "pydantic": pydantic, "adk": adk}[library]

    @wf.step(start=True, people=True)
    async def clear(question: str, ctx: Context) -> Any:
        return await run(life, folder, question, ctx)

    return wf


def story(folder: Path, library: str) -> dict[str, Any]:
    """Run the agent to its end over two deaths."""
    life, questions = Life(folder, "called f1", "model 3"), list[str]()
    make = partial(workflow, life, folder, library)
    found = life.call(make, "Clear the folder")
    while found["asked"]:
        questions += found["asked"]
        unknown = found["asked"][0].startswith("Did 'delete_file' succeed")
        happened = {"action": "happened", "result": HAPPENED}
        found = life.call(make, answer=happened if unknown else APPROVE)
    ledger = (folder / "ledger").read_text().split()
    return {"killed": life.killed, "asked": questions, "output": found["output"], "did": life.lines(), "ledger": ledger}


if __name__ == "__main__":
    if sys.argv[2] == "openai":
        import agents.mcp  # noqa: F401, before anything is forked
    elif sys.argv[2] == "adk":
        import google.adk.tools.mcp_tool  # noqa: F401
    else:
        import pydantic_ai.mcp  # noqa: F401
    print(json.dumps(story(Path(sys.argv[1]), sys.argv[2])))
