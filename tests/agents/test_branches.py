"""Agents and tools beside each other that begin in another order in a replay get each its own results again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")
pytest.importorskip("agents")

from tests.workflow.world import flow
from wfdash.agents import run_agent
from wfdash.contract import Finished, Waiting
from wfdash.workflow import Context, Workflow

NAMES = ("ana", "ben", "eva")
PAUSES = ({"ana": 0.0, "ben": 0.03, "eva": 0.06}, {"ana": 0.06, "ben": 0.03, "eva": 0.0})


def greeting_pydantic(name: str, made: list[str]) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def say(messages: Any, info: Any) -> ModelResponse:
        made.append(f"turn {name}")
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("greet", {"name": name}, tool_call_id=f"call-{name}")])
        return ModelResponse(parts=[TextPart(messages[-1].parts[0].content)])

    agent = Agent(FunctionModel(say), name="greeter")

    @agent.tool_plain
    def greet(name: str) -> str:
        made.append(f"tool {name}")
        return f"hello {name}"

    return agent


def greeting_openai(name: str, made: list[str]) -> Any:
    from agents import Agent, function_tool

    from tests.agents.test_openai_agents import Script, say, use

    class Noted(Script):
        async def get_response(self, *args: Any, **options: Any) -> Any:
            made.append(f"turn {name}")
            return await super().get_response(*args, **options)

    @function_tool
    def greet(name: str) -> str:
        made.append(f"tool {name}")
        return f"hello {name}"

    model = Noted([use("greet", f"call-{name}", name=name)], [say(f"hello {name}")])
    return Agent(name="greeter", model=model, tools=[greet])


def beside(make: Any, made: list[str], pauses: dict[str, float]) -> Workflow:
    async def step(n: int, ctx: Context) -> Any:
        async def branch(name: str) -> Any:
            await asyncio.sleep(pauses[name])
            return (await run_agent(ctx, make(name, made), f"Greet {name}")).output

        said = await asyncio.gather(*map(branch, NAMES))
        await ctx.ask("Enough?")
        return said

    return flow(step, name="beside", people=True)


@pytest.mark.parametrize("make", [greeting_pydantic, greeting_openai])
async def test_agents_of_one_step_that_begin_in_another_order(make: Any):
    made: list[str] = []
    first = await beside(make, made, PAUSES[0]).run(1)
    assert isinstance(first, Waiting), first
    done = await beside(make, made, PAUSES[1]).run(answers={first.request.key: "yes"}, checkpoint=first.checkpoint)
    assert isinstance(done, Finished), done
    assert done.output == [f"hello {name}" for name in NAMES]
    assert sorted(made) == sorted([f"tool {name}" for name in NAMES] + [f"turn {name}" for name in NAMES] * 2)


def hooked_openai(made: list[str], pauses: dict[str, float]) -> Workflow:
    """Tools of one turn, and agents as tools, before which a hook waits."""
    from agents import Agent, RunHooks, function_tool

    from tests.agents.test_openai_agents import Script, say, use

    class Slow(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            await asyncio.sleep(pauses[context.tool_call_id.split("-")[1]])

    @function_tool
    def greet(name: str) -> str:
        made.append(f"tool {name}")
        return f"hello {name}"

    def helper(name: str) -> Any:
        inner = Agent(name="helper", model=Script([say(f"helped {name}")]))
        return inner.as_tool(f"help_{name}", "Helps")

    turn = [use("greet", f"a-{name}", name=name) for name in NAMES]
    turn += [use(f"help_{name}", f"b-{name}", input="Help") for name in NAMES]
    boss = Script(turn, [say("done")])
    agent = Agent(name="boss", model=boss, tools=[greet, *map(helper, NAMES)])

    async def step(n: int, ctx: Context) -> Any:
        reply = await run_agent(ctx, agent, "All", hooks=Slow())
        await ctx.ask("Enough?")
        return [one["output"] for one in reply.history if isinstance(one, dict) and "output" in one]

    return flow(step, name="hooked", people=True)


async def test_tools_and_agents_as_tools_of_one_turn_of_openai_that_begin_in_another_order():
    made: list[str] = []
    first = await hooked_openai(made, PAUSES[0]).run(1)
    assert isinstance(first, Waiting), first
    answers = {first.request.key: "yes"}
    done = await hooked_openai(made, PAUSES[1]).run(answers=answers, checkpoint=first.checkpoint)
    assert isinstance(done, Finished), done
    assert done.output == [f"hello {name}" for name in NAMES] + [f"helped {name}" for name in NAMES]
    assert made == [f"tool {name}" for name in NAMES]
