"""A process whose children run an agent of the ADK with a real MCP server that asks people, and kill themselves
(SIGKILL); says what came of it.

``python -m tests.agents.dying_elicitation FOLDER``. A child dies when the server has asked, while a person thinks, when
the server has the answer, and in the turn of the model that follows. With ``serve`` behind it: the server, over stdio.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.agents.dying import Life
from tests.agents.test_elicitation import SEND, restaurant
from tests.workflow.world import flow
from wfdash.agents import elicitation_callback, run_agent
from wfdash.workflow import Context, Policy, Workflow


class Ledger(list[str]):
    """What the tool did, in a file too."""

    def append(self, what: str) -> None:
        super().append(what)
        with (Path(sys.argv[1]) / "ledger").open("a") as file:
            file.write(f"{what}\n")


class Dining(Life):
    """Processes that die while a person thinks, too: the question is recorded, and the step has ended."""

    async def _call(self, wf: Workflow, *message: Any, answer: Any = None) -> None:
        await super()._call(wf, *message, answer=answer)
        if json.loads(self.result.read_text())["asked"]:
            self.did("person thinks")

    def dine(self) -> Workflow:
        from google.adk.agents import LlmAgent
        from google.adk.tools.mcp_tool import McpToolset
        from google.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams
        from mcp import StdioServerParameters
        from mcp.types import ElicitResult

        from tests.agents.test_google_adk import Script, results, say, use

        life, folder = self, self.log.parent

        class Guest(Script):
            async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
                self.seen[:] = [llm_request.contents]
                found = results(self)
                life.did(f"model {len(found)}")
                self.seen.clear()
                said = [say(one["content"][0]["text"]) for one in found]
                self.turns[:] = [said or [use("book", name="Eva")]]
                async for one in super().generate_content_async(llm_request, stream):
                    yield one

        async def dine(name: str, ctx: Context) -> str:
            ask = elicitation_callback(ctx, server="Chez Ana", policy=Policy(by="ana"))

            async def asking(*given: Any) -> Any:
                said = await ask(*given)
                life.did("server is answered" if isinstance(said, ElicitResult) else "server asks")
                return said

            command = ["-m", "tests.agents.dying_elicitation", str(folder), "serve"]
            server = StdioServerParameters(command=sys.executable, args=command, cwd=Path(__file__).parents[2])
            shop = McpToolset(
                connection_params=StdioConnectionParams(server_params=server, timeout=60), elicitation_callback=asking
            )
            try:
                agent = LlmAgent(name="guest", model=Guest(turns=[], seen=[]), tools=[shop])
                return (await run_agent(ctx, agent, name)).output
            finally:
                await shop.close()

        return flow(dine, name="dine", people=True)


def story(folder: Path) -> dict[str, Any]:
    """Run the agent to its end over all these deaths."""
    life = Dining(folder, "server asks", "person thinks", "server is answered", "model 1")
    questions = list[str]()
    found = life.call(life.dine, "A table for Eva")
    while found["asked"]:
        questions += found["asked"]
        found = life.call(life.dine, answer=SEND)
    ledger = (folder / "ledger").read_text().splitlines()
    return {"killed": life.killed, "asked": questions, "output": found["output"], "did": life.lines(), "ledger": ledger}


if __name__ == "__main__":
    if sys.argv[2:] == ["serve"]:
        restaurant(Ledger()).run("stdio")
    else:
        import google.adk.tools.mcp_tool  # noqa: F401, before anything is forked

        print(json.dumps(story(Path(sys.argv[1]))))
