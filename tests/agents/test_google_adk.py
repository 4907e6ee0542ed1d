"""Agents of Google's ADK in a step: turns and tools are made once, and people decide about tool calls."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.apps import App
from google.adk.auth import AuthConfig
from google.adk.auth.auth_schemes import CustomAuthScheme
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events import RequestInput
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext, exit_loop
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import Workflow as Graph
from google.genai import types

from checkpoints.memory import MemoryStorage
from tests.agents.serving import ANSWERS, APPROVE, serving
from tests.workflow.world import flow
from wfdash.agents import run_agent
from wfdash.contract import Failed, Finished, Waiting
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Policy, Workflow


class Script(BaseLlm):
    """A model that says these things in turn, as many as were asked for before, and counts how often it was asked."""

    model: str = "script"
    turns: list[list[types.Part]]
    seen: list[Any] = []
    pause: float = 0

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.seen.append(llm_request.contents)
        parts = self.turns[len(self.seen) - 1]
        await asyncio.sleep(self.pause)
        for word in (parts[0].text or "").split(" ") if stream else ():
            said = types.Content(role="model", parts=[types.Part(text=word)])
            yield LlmResponse(content=said, partial=True)
        used = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=2)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=used)


def script(*turns: list[types.Part], **options: Any) -> Script:
    return Script(turns=list(turns), seen=[], **options)


def use(tool: str, /, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=tool, args=arguments))


def say(text: str) -> types.Part:
    return types.Part(text=text)


LOOK, REFUND, SAID = [use("look_up", order=7)], [use("refund", order=7, name="ana")], [say("All done.")]


def support(model: Script, calls: list[Any], **options: Any) -> LlmAgent:
    def look_up(order: int, tool_context: ToolContext) -> str:
        calls.append(("look_up", order))
        tool_context.state["seen"] = [*tool_context.state.get("seen", []), order]
        return "paid 40"

    def refund(order: int, name: str) -> str:
        """Pay the money back."""
        calls.append(("refund", order, name))
        return f"refunded {order} to {name}"

    tools = [look_up, FunctionTool(refund, require_confirmation=True)]
    return LlmAgent(name="support", model=model, instruction="You help. {seen?}", tools=tools, **options)


def results(model: Script) -> list[Any]:
    """Return what the model has got from tools before its last turn."""
    parts = [part for content in model.seen[-1] for part in content.parts]
    return [part.function_response.response for part in parts if part.function_response]


async def answered(wf: Workflow, storage: Any, waiting: Any, *answers: Any) -> Any:
    """Answer one question after another."""
    for answer in answers:
        assert isinstance(waiting, Waiting), waiting
        waiting = await wf.run(answers={waiting.requests[0].key: answer}, storage=storage, run_id="r")
    return waiting


@pytest.mark.parametrize("question", ["Where is my money?", "Hand over, please"])
async def test_turns_and_tools_are_made_once_and_the_run_goes_on_after_an_approval(question: str):
    over = [[use("transfer_to_agent", agent_name="support")]] if question.startswith("Hand over") else []
    model, calls, storage = script(*over, LOOK, REFUND, SAID), [], MemoryStorage()
    agent = support(model, calls)
    front = LlmAgent(name="front", model=model, sub_agents=[agent]) if over else agent

    async def answer(question: str, ctx: Context) -> Any:
        reply = await run_agent(ctx, front, question)
        return {"said": reply.output, "turns": reply.usage.turns, "in": reply.usage.input_tokens}

    wf = flow(answer, name="support")
    waiting = await wf.run(question, storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    (request,) = waiting.requests
    assert (request.kind, request.card["subject"]) == ("tool_call", "order 7, ana · refund")
    assert question in str(request.card["evidence"])
    assert (calls, len(model.seen)) == ([("look_up", 7)], 2 + len(over))
    done = await answered(wf, storage, waiting, APPROVE)
    assert isinstance(done, Finished), done
    turns = 3 + len(over)
    assert done.output == {"said": "All done.", "turns": turns, "in": 3 * turns}
    assert (calls, len(model.seen)) == ([("look_up", 7), ("refund", 7, "ana")], turns)
    said = NativeEngine().show(done.checkpoint).transcript
    assert [one.role for one in said if one.role != "system"][-6:] == [
        *(["tool"] if over else ["user"]),
        *("assistant", "tool", "assistant", "tool", "assistant"),
    ]
    assert [message.role for message in said[:2]] == ["system", "user"]
    assert [message.text for message in said if message.role == "tool"][-1] == "refunded 7 to ana"
    assert "[7]" in next(message.text for message in reversed(said) if message.role == "system"), "the state of a tool"


@pytest.mark.parametrize(("answer", "called", "result"), ANSWERS)
async def test_people_edit_reject_or_answer_in_place_of_a_tool(answer: Any, called: list[Any], result: str):
    model, calls, storage = script(REFUND, SAID), [], MemoryStorage()
    wf = serving(support(model, calls))
    waiting = await wf.run("Refund it", storage=storage, run_id="r")
    assert isinstance(await answered(wf, storage, waiting, answer), Finished)
    assert calls == called
    assert [*results(model)[0].values()] == [result]


async def test_calls_of_one_turn_are_asked_at_once_and_each_is_made_when_it_is_answered():
    again = use("refund", order=9, name="eva")
    model, calls, storage = script([*LOOK, *REFUND, again], SAID), [], MemoryStorage()
    wf = serving(support(model, calls), policies={"refund": Policy(by="finance")})
    waiting = await wf.run("Refund both", storage=storage, run_id="r")
    first, second = waiting.requests
    assert first.by == second.by == ("finance",)
    one = await wf.run(answers={second.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(one, Waiting)
    assert calls == [("look_up", 7), ("refund", 9, "eva")]
    done = await wf.run(answers={first.key: {"action": "reject", "feedback": "No"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert (calls[2:], len(model.seen)) == ([], 2)
    assert results(model) == [{"result": "paid 40"}, {"error": "No"}, {"result": "refunded 9 to eva"}]


async def test_what_a_tool_wants_to_know_from_people_is_a_field_of_the_form():
    """In the shape of the ADK's sample of a time-off request: the tool asks while it runs, and gets what people say."""
    calls: list[Any] = []

    def time_off(days: int, tool_context: ToolContext) -> Any:
        confirmation = tool_context.tool_confirmation
        calls.append(confirmation and (confirmation.confirmed, confirmation.payload))
        if confirmation is None:
            tool_context.request_confirmation(hint="How many days?", payload={"approved_days": 0})
            return {"status": "A manager has to say so."}
        tool_context.state["days"] = confirmation.payload["approved_days"]
        return {"approved": confirmation.payload["approved_days"], "wanted": days}

    model, storage = script([use("time_off", days=5)], SAID), MemoryStorage()
    agent = LlmAgent(name="leave", model=model, tools=[time_off], instruction="{days?}")
    wf = serving(agent)
    waiting = await wf.run("Five days, please", storage=storage, run_id="r")
    (request,) = waiting.requests
    assert request.card["proposal"] == {"days": 5, "confirmation": {"approved_days": 0}}
    assert "How many days?" in str(request.card["evidence"])
    edited = {"action": "edit", "arguments": {"days": 5, "confirmation": {"approved_days": 3}}}
    assert isinstance(await answered(wf, storage, waiting, edited), Finished)
    assert calls == [None, (True, {"approved_days": 3})]
    assert results(model)[0]["result"] == {"approved": 3, "wanted": 5}


async def test_a_long_running_tool_is_answered_by_people():
    """In the shape of the ADK's sample of a reimbursement: the tool returns a ticket, and the answer comes later."""
    calls: list[Any] = []

    def ask_for_approval(amount: int) -> Any:
        calls.append(amount)
        return {"status": "pending", "ticket": "T-1"}

    model, storage = script([use("ask_for_approval", amount=200)], SAID), MemoryStorage()
    wf = serving(LlmAgent(name="money", model=model, tools=[LongRunningFunctionTool(ask_for_approval)]))
    waiting = await wf.run("200 for a hotel", storage=storage, run_id="r")
    (request,) = waiting.requests
    assert [action["name"] for action in request.card["actions"]] == ["respond"]
    assert "T-1" in str(request.card["evidence"])
    done = await answered(wf, storage, waiting, {"action": "respond", "response": '{"status": "approved"}'})
    assert (done.output, calls, results(model)) == ("All done.", [200], [{"status": "approved"}])


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated")  # The ADK's own AgentTool gives it.
async def test_a_sub_agent_asks_as_the_agent_does_however_it_is_called():
    """As a tool in a session of its own, and as a sub-agent with a mode, which the ADK makes a tool."""
    for mode in (None, "single_turn"):
        model, calls, storage = script([use("support", request="Refund it")], REFUND, SAID, SAID), [], MemoryStorage()
        inner = support(model, calls, description="Helps", **({"mode": mode} if mode else {}))
        boss = (
            LlmAgent(name="boss", model=model, sub_agents=[inner])
            if mode
            else LlmAgent(name="boss", model=model, tools=[AgentTool(inner)])
        )
        wf = serving(boss)
        waiting = await wf.run("Delegate", storage=storage, run_id="r")
        assert isinstance(waiting, Waiting), waiting
        done = await answered(wf, storage, waiting, APPROVE)
        assert isinstance(done, Finished), done
        assert (done.output, calls, len(model.seen)) == ("All done.", [("refund", 7, "ana")], 4), mode


@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of Workflow")
async def test_branches_that_run_beside_each_other_get_each_its_own_results_again():
    calls: list[Any] = []

    async def look_up(order: int) -> str:
        calls.append(order)
        return f"order {order}"

    def refund(order: int, name: str) -> str:
        calls.append(("refund", order))
        return "refunded"

    def branch(order: int, pause: float) -> LlmAgent:
        model = script([use("look_up", order=order)], [use("refund", order=order, name="x")], SAID, pause=pause)
        models.append(model)
        tools = [look_up, FunctionTool(refund, require_confirmation=True)]
        return LlmAgent(name=f"branch{order}", model=model, tools=tools, output_key=f"said{order}")

    models: list[Script] = []
    both = ParallelAgent(name="both", sub_agents=[branch(1, 0.02), branch(2, 0)])
    loop = script([use("exit_loop")])
    end = LlmAgent(name="end", model=script([say("{}")]), instruction="{said1} {said2}")
    again = LoopAgent(name="again", sub_agents=[LlmAgent(name="turn", model=loop, tools=[exit_loop])], max_iterations=3)
    wf, storage = serving(SequentialAgent(name="all", sub_agents=[both, again, end])), MemoryStorage()
    waiting = await wf.run("Both", storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    assert calls == [2, 1], "the quicker branch came first"
    done = await answered(wf, storage, waiting, APPROVE, APPROVE)
    assert isinstance(done, Finished), done
    assert sorted(map(str, calls[2:])) == ["('refund', 1)", "('refund', 2)"]
    assert [results(model)[0] for model in models] == [{"result": "order 1"}, {"result": "order 2"}]
    assert (done.output, len(loop.seen)) == ("{}", 1)
    said = NativeEngine().show(done.checkpoint).transcript
    assert [message.text for message in said if message.role == "user"] == ["Both"]


async def test_the_history_gives_a_later_run_its_messages_its_state_and_the_agent_that_spoke_last():
    calls: list[Any] = []
    over = [use("transfer_to_agent", agent_name="support")]
    model = script(over, LOOK, SAID, [say("Still here.")])

    def note(callback_context: Any) -> None:
        callback_context.state["noted"] = True  # Of an event that says nothing.

    agent = support(model, calls, after_agent_callback=note)
    front = LlmAgent(name="front", model=model, sub_agents=[agent])

    async def chat(question: str, ctx: Context) -> Any:
        first = await run_agent(ctx, front, question)
        await ctx.ask("Go on?")
        again = await run_agent(ctx, front, "And now?", history=first.history)
        return [first.output, again.output]

    wf, storage = flow(chat, name="chat"), MemoryStorage()
    done = await answered(wf, storage, await wf.run("Hello", storage=storage, run_id="r"), "yes")
    assert isinstance(done, Finished), done
    assert done.output == ["All done.", "Still here."]
    assert results(model)[-1] == {"result": "paid 40"}
    said = NativeEngine().show(done.checkpoint).transcript
    assert "[7]" in [one.text for one in said if one.role == "system"][-1], "the state, read by that agent"


async def test_what_the_model_writes_is_streamed_once_and_each_turn_is_an_event_with_its_tokens():
    model, storage = script(SAID), MemoryStorage()

    async def answer(question: str, ctx: Context) -> str:
        reply = await run_agent(ctx, LlmAgent(name="a", model=model), question)
        await ctx.ask("Enough?")
        return str(reply.output)

    wf = flow(answer, name="streaming")
    stream = wf.run_stream("Hello", storage=storage, run_id="r")
    seen = [event async for event in stream]
    assert [event.data["text"] for event in seen if event.kind == "stream"] == ["All", "done."]
    (turn,) = [event.data["data"] for event in seen if event.kind == "custom"]
    assert turn == {"model": "script", "input_tokens": 3, "output_tokens": 2}
    again = wf.run_stream(answers={stream.outcome.requests[0].key: "yes"}, storage=storage, run_id="r")
    assert [event.kind for event in [one async for one in again] if event.kind in ("stream", "custom")] == []


async def test_a_person_lets_an_agent_continue_beyond_its_turns_and_nothing_is_made_again():
    model, calls, storage = script(LOOK, REFUND, SAID), [], MemoryStorage()
    wf = serving(support(model, calls), run_config=RunConfig(max_llm_calls=1), more_turns=2)
    waiting = await wf.run("Where is my money?", storage=storage, run_id="r")
    assert waiting.requests[0].card["subject"] == "Continue for 2 more turns?"
    assert "paid 40" in str(waiting.requests[0].card["evidence"])
    done = await answered(wf, storage, waiting, APPROVE, APPROVE)
    assert (done.output, len(model.seen)) == ("All done.", 3)
    wf, storage = (
        serving(support(script(LOOK), []), run_config=RunConfig(max_llm_calls=1), more_turns=2),
        MemoryStorage(),
    )
    waiting = await wf.run("Where is my money?", storage=storage, run_id="r")
    failed = await answered(wf, storage, waiting, {"action": "reject", "reason": "enough"})
    assert failed.error.type == "LlmCallsLimitExceededError"


async def test_an_error_of_a_tool_or_of_a_model_ends_the_run_and_is_said():
    def broken(order: int) -> str:
        raise ValueError(f"no order {order}")

    failed = await serving(LlmAgent(name="a", model=script([use("broken", order=7)]), tools=[broken])).run("Hello")
    assert isinstance(failed, Failed)
    assert (failed.error.type, failed.error.message) == ("ValueError", "no order 7")
    refused = LlmResponse(error_code="SAFETY", error_message="blocked")

    class Refusing(Script):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            yield refused

    failed = await serving(LlmAgent(name="a", model=Refusing(turns=[]))).run("Hello")
    assert isinstance(failed, Failed)
    assert failed.error.message == "SAFETY: blocked"


async def test_what_cannot_be_recorded_is_not_handed_to_a_model_as_the_error_of_a_tool():
    async def inner(run: ToolContext) -> str:
        return str(await asking())

    async def answer(question: str, ctx: Context) -> Any:
        nonlocal asking
        asking = lambda: ctx.ask("Well?")  # noqa: E731
        plugins = [ReflectAndRetryToolPlugin()]
        agent = LlmAgent(name="a", model=script([use("inner")], SAID), tools=[inner])
        return (await run_agent(ctx, App(name="app", root_agent=agent, plugins=plugins), question)).output

    asking: Any = None
    failed = await flow(answer, name="asks").run("Hello")
    assert isinstance(failed, Failed), failed
    assert "ctx.ask" in failed.error.message


class Own(BaseAgent):
    pass


class Gone(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> Any:
        raise ConnectionError("the server is gone")


def sign_in(tool_context: ToolContext) -> None:
    tool_context.request_credential(AuthConfig(auth_scheme=CustomAuthScheme(type_="own"), credential_key="k"))


def ask_input() -> Any:
    yield RequestInput(message="Well?")


REFUSED = [
    (lambda: {"agent": Own(name="own")}, "is a Own, whose code cannot be recorded"),
    (lambda: {"code_executor": UnsafeLocalCodeExecutor()}, "code_executor of 'a' cannot be recorded"),
    (lambda: {"options": {"session_service": InMemorySessionService()}}, "session_service= is not supported.*history="),
    (lambda: {"options": {"run_config": RunConfig(support_cfc=True)}}, "live sessions cannot be recorded"),
    (lambda: {"tools": [AgentTool(LlmAgent(name="b"))], "options": {"once": ["b"]}}, "once= names the agent 'b'"),
    (lambda: {"tools": [Graph(name="graph", edges=[("START", sign_in)])]}, "the tool 'graph' is a workflow"),
    (lambda: {"tools": [sign_in], "model": script([use("sign_in")])}, "asks for credentials"),
    (lambda: {"tools": [ask_input], "model": script([use("ask_input")])}, "asks for credentials or for an answer"),
    (lambda: {"tools": [Gone()]}, "the server is gone"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
async def test_what_cannot_be_recorded_is_refused_with_what_to_do_instead(given: Any, said: str):
    made = given()
    options = made.pop("options", {})
    agent = made.pop("agent", None) or LlmAgent(**{"name": "a", "model": script(SAID), **made})
    failed = await serving(agent, **options).run("Hello")
    assert isinstance(failed, Failed)
    assert re.search(said, failed.error.message), failed.error.message
