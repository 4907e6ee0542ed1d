"""Agents of the OpenAI Agents SDK in a step: turns and tools are made once, and people decide about tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, FunctionTool, Model, ModelResponse, SQLiteSession, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from checkpoints.memory import MemoryStorage
from tests.agents.serving import ANSWERS, serving
from tests.workflow.world import flow
from wfdash.agents import run_agent
from wfdash.contract import Failed, Finished, Waiting
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Workflow


class Script(Model):
    """A model that says these things in turn, and counts how often it was asked."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns, self.asked, self.seen = turns, 0, []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:  # noqa: A002
        self.seen.append(input)
        turn = self.turns[self.asked]
        self.asked += 1
        usage = Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
        return ModelResponse(output=turn, usage=usage, response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def use(tool: str, call: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call", name=tool, call_id=call, id=call, arguments=json.dumps(arguments)
    )


def say(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


def support(script: Script, calls: list[Any], **options: Any) -> Workflow:
    @function_tool
    def look_up(order: int) -> str:
        calls.append(("look_up", order))
        return "paid 40"

    @function_tool(needs_approval=True)
    def refund(order: int, name: str) -> str:
        """Pay the money back."""
        calls.append(("refund", order, name))
        return f"refunded {order} to {name}"

    agent = Agent(name="support", model=script, tools=[look_up, refund])
    front = Agent(name="front", model=script, handoffs=[agent])

    async def answer(question: str, ctx: Context) -> dict[str, Any]:
        reply = await run_agent(ctx, front if question.startswith("Hand over") else agent, question, **options)
        return {"said": reply.output, "turns": reply.usage.turns}

    return flow(answer, name="support")


LOOK, REFUND, SAID = [use("look_up", "a", order=7)], [use("refund", "b", order=7, name="ana")], [say("All done.")]


def results(script: Script) -> list[str]:
    return [str(item["output"]) for item in script.seen[-1] if item.get("type") == "function_call_output"]


@pytest.mark.parametrize("question", ["Where is my money?", "Hand over, please"])
async def test_turns_and_tools_are_made_once_and_the_run_goes_on_after_an_approval(question: str):
    over = [[use("transfer_to_support", "t")]] if question.startswith("Hand over") else []
    script, calls, storage = Script(*over, LOOK, REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await wf.run(question, storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    (request,) = waiting.requests
    assert (request.kind, request.card["subject"]) == ("tool_call", "order 7, ana · refund")
    assert question in str(request.card["evidence"])
    assert (calls, script.asked) == ([("look_up", 7)], 2 + len(over))
    done = await wf.run(answers={request.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert done.output == {"said": "All done.", "turns": 3 + len(over)}
    transcript = NativeEngine().show(done.checkpoint).transcript
    assert [message.role for message in transcript if message.role != "system"][-6:] == [
        *(["tool"] if over else ["user"]),
        *("assistant", "tool", "assistant", "tool", "assistant"),
    ]
    assert [call.name for message in transcript for call in message.calls][-2:] == ["look_up", "refund"]
    assert (calls, script.asked) == ([("look_up", 7), ("refund", 7, "ana")], 3 + len(over))


@pytest.mark.parametrize(("answer", "called", "result"), ANSWERS)
async def test_people_edit_reject_or_answer_in_place_of_a_tool(answer: Any, called: list[Any], result: str):
    script, calls, storage = Script(REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await wf.run("Refund it", storage=storage, run_id="r")
    done = await wf.run(answers={waiting.requests[0].key: answer}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert calls == called
    assert results(script) == [result]


async def test_two_calls_are_asked_at_once_and_may_be_answered_apart():
    script, calls, storage = Script([*REFUND, use("refund", "c", order=9, name="eva")], SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await wf.run("Refund both", storage=storage, run_id="r")
    first, second = waiting.requests
    one = await wf.run(answers={second.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(one, Waiting)
    assert calls == []
    done = await wf.run(answers={first.key: {"action": "reject", "feedback": "No"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert calls == [("refund", 9, "eva")]
    assert script.asked == 2


async def test_a_session_is_refused_with_what_to_do_instead():
    agent = Agent(name="support", model=Script(SAID))
    failed = await serving(agent, session=SQLiteSession("customer")).run("Where is my money?")
    assert isinstance(failed, Failed)
    assert "session= is not supported" in failed.error.message
    assert "history=" in failed.error.message


async def test_a_secret_of_a_tools_schema_is_not_in_the_record_of_a_call_that_is_made_once():
    seen: list[str] = []

    async def login(context: Any, arguments: str) -> str:
        seen.append(json.loads(arguments)["pin"])
        return "welcome"

    fields = {"user": {"type": "string"}, "pin": {"type": "string", "format": "password"}}
    schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    tool = FunctionTool(name="login", description="", params_json_schema=schema, on_invoke_tool=login)
    agent = Agent(name="support", model=Script([use("login", "a", user="ana", pin="4711")], SAID), tools=[tool])
    wf, storage = serving(agent, once=["login"]), MemoryStorage()
    assert isinstance(await wf.run("Log me in", storage=storage, run_id="r"), Finished)
    assert seen == ["4711"]
    kept = [await storage.load("r", one) for one in await storage.list_checkpoint_ids("r")]
    lives = [live for one in kept for live in one.body["position"]["live"].values()]
    intents = [entry["args"] for live in lives for entry in live["journal"] if "args" in entry]
    assert {"user": "ana", "pin": "•••"} in intents
    assert not [one for one in intents if "4711" in one.values()]


@pytest.mark.parametrize("question", ["Where is my money?", "Hand over, please"])
async def test_a_person_lets_an_agent_continue_beyond_its_turns_and_nothing_is_made_again(question: str):
    over = [[use("transfer_to_support", "t")]] if question.startswith("Hand over") else []
    script, calls, storage = Script(*over, LOOK, REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls, max_turns=1 + len(over), more_turns=2)
    waiting = await wf.run(question, storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    (request,) = waiting.requests
    assert (request.kind, request.card["subject"]) == ("approval", "Continue for 2 more turns?")
    assert "Max turns" in request.card["body"]
    assert "paid 40" in str(request.card["evidence"])
    # An approval of a tool in the turns that were added, and the last of these after it.
    waiting = await wf.run(answers={request.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    assert waiting.requests[0].kind == "tool_call"
    done = await wf.run(answers={waiting.requests[0].key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert done.output == {"said": "All done.", "turns": 3 + len(over)}
    assert (calls, script.asked) == ([("look_up", 7), ("refund", 7, "ana")], 3 + len(over))
    assert results(script) == ["paid 40", "refunded 7 to ana"] or over


async def test_an_agent_that_may_not_continue_fails_with_the_sdks_error():
    script, calls, storage = Script(LOOK, REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls, max_turns=1, more_turns=2)
    waiting = await wf.run("Where is my money?", storage=storage, run_id="r")
    reject = {"action": "reject", "reason": "enough"}
    outcome = await wf.run(answers={waiting.requests[0].key: reject}, storage=storage, run_id="r")
    assert isinstance(outcome, Failed)
    assert (outcome.error.type, calls) == ("MaxTurnsExceeded", [("look_up", 7)])


async def test_a_conversation_that_the_provider_keeps_cannot_be_continued_from_its_messages():
    outcome = await support(Script(SAID), [], more_turns=2, conversation_id="c").run("Where is my money?")
    assert isinstance(outcome, Failed)
    assert "more_turns= does not go with conversation_id=" in outcome.error.message
