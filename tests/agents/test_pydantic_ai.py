"""Agents of pydantic-ai in a step: turns and tools are made once, and people decide about tool calls."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pydantic_ai = pytest.importorskip("pydantic_ai")

from pydantic import SecretStr, TypeAdapter  # noqa: E402
from pydantic_ai import Agent, ApprovalRequired, ModelRetry, RunContext, RunUsage, UsageLimits  # noqa: E402
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import AgentInfo, FunctionModel  # noqa: E402

from checkpoints.memory import MemoryStorage  # noqa: E402
from checkpoints.records import Answer  # noqa: E402
from tests.agents.serving import ANSWERS, APPROVE, serving  # noqa: E402
from tests.workflow.world import ListRecorder, flow, handed_over  # noqa: E402
from wfdash.agents import run_agent  # noqa: E402
from wfdash.contract import Failed, Finished, Waiting, pack_transcript  # noqa: E402
from wfdash.engines.native import NativeEngine  # noqa: E402
from wfdash.values.schemas.secrets import HIDDEN  # noqa: E402
from wfdash.workflow import Context, Workflow  # noqa: E402


class Script:
    """A model that says these things in turn, and counts how often it was asked."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns, self.asked, self.seen = turns, 0, []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(messages)
        done = sum(isinstance(message, ModelResponse) for message in messages)
        self.asked += 1
        return ModelResponse(parts=self.turns[done])


def support(script: Script, calls: list[Any], *, approval: bool = True) -> Workflow:
    agent = Agent(FunctionModel(script))

    @agent.tool_plain
    def look_up(order: int) -> dict[str, int]:
        """Look an order up."""
        calls.append(("look_up", order))
        return {"paid": 40}

    @agent.tool_plain(requires_approval=approval)
    def refund(order: int, name: str) -> str:
        """Pay the money back."""
        calls.append(("refund", order, name))
        return f"refunded {order} to {name}"

    @agent.tool_plain
    def fussy(order: int) -> str:
        calls.append(("fussy", order))
        if order < 10:
            raise ModelRetry("order numbers have two digits")
        return "fine"

    async def answer(question: str, ctx: Context) -> dict[str, Any]:
        reply = await run_agent(ctx, agent, question)
        return {"said": reply.output, "turns": reply.usage.turns, "messages": len(reply.history)}

    return flow(answer, name="support")


def limited(script: Script, calls: list[int], **options: Any) -> Workflow:
    agent = Agent(FunctionModel(script))

    @agent.tool_plain
    def look_up(order: int) -> str:
        calls.append(order)
        return "paid"

    async def answer(question: str, ctx: Context) -> dict[str, Any]:
        reply = await run_agent(ctx, agent, question, **options)
        return {"said": reply.output, "turns": reply.usage.turns, "messages": len(reply.history)}

    return flow(answer, name="support", people=True)


LOOK = [ToolCallPart("look_up", {"order": 7}, tool_call_id="a")]
LOOK_AGAIN = [ToolCallPart("look_up", {"order": 8}, tool_call_id="c")]
REFUND = [ToolCallPart("refund", {"order": 7, "name": "ana"}, tool_call_id="b")]
SAID = [TextPart("All done.")]


def tool_results(script: Script) -> list[Any]:
    return [part.content for message in script.seen[-1] for part in message.parts if isinstance(part, ToolReturnPart)]


async def start(wf: Workflow, storage: MemoryStorage) -> Any:
    return await wf.run("Where is my money?", storage=storage, run_id="r")


async def test_turns_and_tools_are_made_once_and_the_run_goes_on_after_an_approval():
    script, calls, storage = Script(LOOK, REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await start(wf, storage)
    assert isinstance(waiting, Waiting)
    (request,) = waiting.requests
    assert (request.kind, request.card["subject"]) == ("tool_call", "order 7, ana · refund")
    assert request.card["body"] == "Pay the money back."
    assert "Where is my money?" in str(request.card["evidence"])
    assert (calls, script.asked) == ([("look_up", 7)], 2)
    done = await wf.run(answers={request.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished)
    assert done.output == {"said": "All done.", "turns": 3, "messages": 6}
    assert (calls, script.asked) == ([("look_up", 7), ("refund", 7, "ana")], 3)


@pytest.mark.parametrize(("answer", "called", "result"), ANSWERS)
async def test_people_edit_reject_or_answer_in_place_of_a_tool(answer: Any, called: list[Any], result: str):
    script, calls, storage = Script(REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await start(wf, storage)
    done = await wf.run(answers={waiting.requests[0].key: answer}, storage=storage, run_id="r")
    assert isinstance(done, Finished)
    assert calls == called
    assert tool_results(script) == [result]


async def test_two_calls_are_asked_at_once_and_may_be_answered_apart():
    both = [*REFUND, ToolCallPart("refund", {"order": 9, "name": "eva"}, tool_call_id="c")]
    script, calls, storage = Script(both, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await start(wf, storage)
    first, second = waiting.requests
    one = await wf.run(answers={second.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(one, Waiting)
    assert calls == []
    done = await wf.run(answers={first.key: {"action": "reject", "feedback": "No"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished)
    assert calls == [("refund", 9, "eva")]
    assert script.asked == 2


async def test_a_tool_that_asks_the_model_to_try_again_is_not_called_again_on_replay():
    fussy = [[ToolCallPart("fussy", {"order": order}, tool_call_id=str(order))] for order in (1, 10)]
    script, calls, storage = Script(*fussy, REFUND, SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await start(wf, storage)
    done = await wf.run(answers={waiting.requests[0].key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished)
    assert calls == [("fussy", 1), ("fussy", 10), ("refund", 7, "ana")]
    assert script.asked == 4


async def test_what_the_model_writes_is_streamed_once_and_each_turn_is_an_event_with_its_tokens():
    async def words(messages: list[ModelMessage], info: AgentInfo) -> Any:
        for word in ("All ", "done."):
            yield word

    agent, storage = Agent(FunctionModel(stream_function=words)), MemoryStorage()

    async def answer(question: str, ctx: Context) -> str:
        reply = await run_agent(ctx, agent, question)
        return str(await ctx.ask(f"{reply.output} Right?"))

    wf = flow(answer, name="streaming")
    stream = wf.run_stream("Hello", storage=storage, run_id="r")
    seen = [event async for event in stream]
    assert [event.data["text"] for event in seen if event.kind == "stream"] == ["All ", "done."]
    turns = [event.data for event in seen if event.kind == "custom"]
    assert [(one["name"], one["data"]["model"]) for one in turns] == [("model turn", "function::words")]
    assert turns[0]["data"]["output_tokens"] > 0
    (request,) = stream.outcome.requests
    again = wf.run_stream(answers={request.key: "yes"}, storage=storage, run_id="r")
    assert [event.kind for event in [one async for one in again] if event.kind in ("stream", "custom")] == []
    assert again.outcome.result() == "yes"


async def test_a_history_continues_a_conversation_and_comes_back_longer():
    script, storage = Script(SAID, [TextPart("As I said.")]), MemoryStorage()
    agent = Agent(FunctionModel(script))

    async def talk(question: str, ctx: Context) -> list[int]:
        first = await run_agent(ctx, agent, question)
        second = await run_agent(ctx, agent, "And now?", history=first.history)
        return [len(first.history), len(second.history)]

    done = await flow(talk, name="chat").run("Hello", storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert done.output == [2, 4]


async def test_an_object_that_is_no_agent_is_refused():
    async def step(n: int, ctx: Context) -> None:
        await run_agent(ctx, object(), "Hello")

    failed = await flow(step, name="wrong").run(1, storage=MemoryStorage(), run_id="r")
    assert "run_agent needs an agent of pydantic-ai, openai-agents or google-adk, not object" in failed.error.message


async def test_tools_of_one_turn_are_called_once_each_and_keep_their_results_apart():
    several = [ToolCallPart("look_up", {"order": order}, tool_call_id=str(order)) for order in (3, 1, 2)]
    script, calls, storage = Script([*several, *REFUND], SAID), [], MemoryStorage()
    wf = support(script, calls)
    waiting = await start(wf, storage)
    assert isinstance(waiting, Waiting), waiting
    done = await wf.run(answers={waiting.requests[0].key: {"action": "approve"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert sorted(calls) == [("look_up", 1), ("look_up", 2), ("look_up", 3), ("refund", 7, "ana")]
    assert script.asked == 2


async def test_every_checkpoint_has_the_conversation_up_to_there():
    script, calls, recorder = Script(LOOK, REFUND, SAID), [], ListRecorder()
    wf = support(script, calls)
    waiting = await wf.run("Where is my money?", storage=recorder, run_id="r")
    answers = {waiting.request.key: Answer(key=waiting.request.key, value={"action": "approve"})}
    await wf.run(answers=answers, checkpoint=handed_over(waiting.checkpoint), storage=recorder, run_id="r")
    shown = [NativeEngine().show(commit.checkpoint).transcript for commit in recorder.commits if commit.checkpoint]
    sizes = [len(transcript) for transcript in shown]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (0, 6)
    assert [message.role for message in shown[-1]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    question, looked, result, *_, last = shown[-1]
    assert (question.text, last.text) == ("Where is my money?", "All done.")
    assert (looked.calls[0].name, looked.calls[0].arguments, looked.calls[0].id) == ("look_up", {"order": 7}, "a")
    assert (result.call, result.name, result.text, result.failed) == ("a", "look_up", '{"paid":40}', False)
    parked = NativeEngine().show(handed_over(waiting.checkpoint)).transcript
    assert [call.name for call in parked[-1].calls] == ["refund"]
    assert all(before == after[: len(before)] for before, after in pairwise(shown))


async def test_a_card_has_the_conversation_and_the_secrets_of_tools_are_in_neither():
    agent = Agent(FunctionModel(Script([ToolCallPart("unlock", {"pin": "hunter22", "door": 3}, tool_call_id="a")])))

    @agent.tool_plain(requires_approval=True)
    def unlock(pin: SecretStr, door: int) -> str:
        return "open"

    waiting = await serving(agent).run("Open door 3", storage=MemoryStorage(), run_id="r")
    (piece,) = waiting.request.card["evidence"]
    assert piece["kind"] == "transcript"
    assert piece["value"][1]["calls"][0]["arguments"] == {"pin": HIDDEN, "door": 3}
    assert pack_transcript(NativeEngine().show(waiting.checkpoint).transcript) == piece["value"]


async def test_a_tool_that_asks_for_a_retry_has_failed_in_the_conversation():
    script = Script([ToolCallPart("fussy", {"order": 7}, tool_call_id="a")], SAID)
    done = await start(support(script, []), MemoryStorage())
    transcript = NativeEngine().show(done.checkpoint).transcript
    assert [(message.role, message.failed, message.call) for message in transcript] == [
        ("user", False, ""),
        ("assistant", False, ""),
        ("tool", True, "a"),
        ("assistant", False, ""),
    ]


async def test_the_conversation_of_a_run_that_waits_has_the_results_of_the_tools_beside():
    waiting = await start(support(Script([*LOOK, *REFUND], SAID), []), MemoryStorage())
    shown = NativeEngine().show(waiting.checkpoint).transcript
    assert [(message.call, message.text) for message in shown if message.role == "tool"] == [("a", '{"paid":40}')]
    done = await start(support(Script([*LOOK, *REFUND], SAID), [], approval=False), MemoryStorage())
    after = NativeEngine().show(done.checkpoint).transcript
    assert [message.call for message in after if message.role == "tool"] == ["a", "b"]


async def test_what_a_tool_says_about_a_call_is_on_its_card():
    agent = Agent(FunctionModel(Script(REFUND, SAID)))

    @agent.tool
    def refund(ctx: RunContext[None], order: int, name: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "over the limit", "risk": "high"})
        return "refunded"

    storage = MemoryStorage()
    waiting = await start(serving(agent), storage)
    about, _ = waiting.request.card["evidence"]
    assert (about["title"], about["value"]) == ("About this call", {"reason": "over the limit", "risk": "high"})
    done = await serving(agent).run(answers={waiting.request.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done


async def test_a_model_is_told_of_a_change_beside_a_value_and_not_at_all_where_that_is_switched_off():
    note = 'A person changed this call before it was made, to these arguments: {"order": 8}'
    for tell, told in [(True, {"note": note, "result": {"order": 8}}), (False, {"order": 8})]:
        script, storage = Script([ToolCallPart("give", {"order": 7}, tool_call_id="a")], SAID), MemoryStorage()
        agent = Agent(FunctionModel(script))

        @agent.tool_plain(requires_approval=True)
        def give(order: int) -> dict[str, int]:
            return {"order": order}

        wf = serving(agent, tell_changes=tell)
        waiting = await start(wf, storage)
        answer = {"action": "edit", "arguments": {"order": 8}}
        await wf.run(answers={waiting.request.key: answer}, storage=storage, run_id="r")
        (result,) = tool_results(script)
        assert result == told


async def test_a_tool_whose_result_is_refused_by_a_type_is_not_called_again():
    calls: list[str] = []
    script = Script([ToolCallPart("check", {}, tool_call_id="a")], REFUND, SAID)
    agent = Agent(FunctionModel(script))

    @agent.tool_plain
    def check() -> str:
        calls.append("check")
        TypeAdapter(int).validate_python("seven")
        return "never"

    @agent.tool_plain(requires_approval=True)
    def refund(order: int, name: str) -> str:
        return "refunded"

    wf, storage = serving(agent), MemoryStorage()
    waiting = await start(wf, storage)
    done = await wf.run(answers={waiting.request.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert calls == ["check"]


def delegating(ledger: list[str], **options: Any) -> Workflow:
    """An agent whose tool runs another agent, which needs an approval."""
    clerk = Agent(FunctionModel(Script(REFUND, [TextPart("paid")])))
    boss = Agent(FunctionModel(Script([ToolCallPart("delegate", {}, tool_call_id="d")], SAID)), deps_type=Context)

    @clerk.tool_plain(requires_approval=True)
    def refund(order: int, name: str) -> str:
        ledger.append("refund")
        return "refunded"

    @boss.tool
    async def delegate(ctx: RunContext[Context]) -> str:
        ledger.append("delegate")
        return str((await run_agent(ctx.deps, clerk, "Pay it")).output)

    async def answer(question: str, ctx: Context) -> Any:
        return (await run_agent(ctx, boss, question, deps=ctx, **options)).output

    return flow(answer, name="delegating", people=True)


async def test_a_tool_that_runs_an_agent_which_asks_is_refused_in_words_or_replayed_as_a_step():
    ledger: list[str] = []
    refused = await start(delegating(ledger), MemoryStorage())
    assert refused.error.type == "InvalidCall"
    assert "run_agent(..., replayed=['delegate'])" in refused.error.message
    ledger.clear()
    wf, storage = delegating(ledger, replayed=["delegate"]), MemoryStorage()
    waiting = await start(wf, storage)
    assert isinstance(waiting, Waiting), waiting
    done = await wf.run(answers={waiting.request.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert ledger == ["delegate", "delegate", "refund"]


async def test_a_tool_is_either_made_once_or_replayed():
    both = await start(delegating([], once=["delegate"], replayed=["delegate"]), MemoryStorage())
    assert "once= and replayed= both name delegate" in both.error.message


@pytest.mark.parametrize("limits", [UsageLimits(request_limit=2), UsageLimits(total_tokens_limit=120)])
async def test_a_person_lets_an_agent_continue_beyond_its_limit_and_nothing_is_made_again(limits: UsageLimits):
    script, calls, storage = Script(LOOK, LOOK_AGAIN, SAID), [], MemoryStorage()
    wf = limited(script, calls, usage_limits=limits, more_turns=3)
    waiting = await start(wf, storage)
    assert isinstance(waiting, Waiting), waiting
    (request,) = waiting.requests
    assert (request.kind, request.card["subject"]) == ("approval", "Continue for 3 more turns?")
    assert "The agent has reached a limit: " in request.card["body"]
    assert "Where is my money?" in str(request.card["evidence"])
    before = script.asked
    done = await wf.run(answers={request.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert done.output == {"said": "All done.", "turns": 3, "messages": 6}
    assert (calls, script.asked, before) == ([7, 8], 3, 2)


async def test_an_agent_that_uses_up_its_turns_again_is_asked_about_again():
    script, calls, storage = Script(LOOK, LOOK_AGAIN, SAID), [], MemoryStorage()
    wf = limited(script, calls, usage_limits=UsageLimits(request_limit=1), more_turns=1)
    outcome = await start(wf, storage)
    for count in (1, 2):
        assert (isinstance(outcome, Waiting), script.asked) == (True, count), outcome
        outcome = await wf.run(answers={outcome.requests[0].key: APPROVE}, storage=storage, run_id="r")
    assert outcome.output == {"said": "All done.", "turns": 3, "messages": 6}
    assert calls == [7, 8]


@pytest.mark.parametrize("more", [None, 3])
async def test_an_agent_that_may_not_continue_fails_with_its_librarys_error(more: int | None):
    script, calls, storage = Script(LOOK, LOOK_AGAIN, SAID), [], MemoryStorage()
    wf = limited(script, calls, usage_limits=UsageLimits(request_limit=1), more_turns=more)
    outcome = await start(wf, storage)
    if more is not None:
        reject = {"action": "reject", "reason": "it goes round in circles"}
        outcome = await wf.run(answers={outcome.requests[0].key: reject}, storage=storage, run_id="r")
    assert isinstance(outcome, Failed)
    assert (outcome.error.type, calls) == ("UsageLimitExceeded", [7])


async def test_turns_after_a_limit_count_in_a_usage_that_agents_share():
    script, storage, wf = Script(LOOK, LOOK_AGAIN, SAID), MemoryStorage(), Workflow("support")
    agent = Agent(FunctionModel(script))
    agent.tool_plain(name="look_up")(lambda order: "paid")

    @wf.step(start=True, people=True)
    async def answer(question: str, ctx: Context) -> list[int]:
        used = RunUsage(requests=4)
        limits = UsageLimits(request_limit=5)
        reply = await run_agent(ctx, agent, question, usage=used, usage_limits=limits, more_turns=5)
        return [used.requests, reply.usage.turns]

    waiting = await start(wf, storage)
    done = await wf.run(answers={waiting.requests[0].key: APPROVE}, storage=storage, run_id="r")
    assert done.output == [7, 7]


async def test_a_call_beyond_a_limit_is_not_made_and_the_model_hears_that():
    script, calls, storage = Script(LOOK, LOOK_AGAIN, SAID), [], MemoryStorage()
    wf = limited(script, calls, usage_limits=UsageLimits(tool_calls_limit=1), more_turns=3)
    waiting = await start(wf, storage)
    done = await wf.run(answers={waiting.requests[0].key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert calls == [7]
    assert tool_results(script) == ["paid", "The tool call was interrupted before a result was produced."]


async def test_the_question_about_more_turns_shows_no_secret_of_a_tool():
    script = Script([ToolCallPart("log_in", {"name": "ana", "password": "swordfish"}, tool_call_id="a")], SAID)
    agent = Agent(FunctionModel(script))

    @agent.tool_plain
    def log_in(name: str, password: SecretStr) -> str:
        return "welcome"

    wf = serving(agent, usage_limits=UsageLimits(request_limit=1), more_turns=1)
    waiting = await start(wf, MemoryStorage())
    evidence = str(waiting.requests[0].card["evidence"])
    assert ("welcome" in evidence, "swordfish" in evidence) == (True, False)


async def test_no_turns_at_all_are_refused():
    outcome = await start(limited(Script(SAID), [], more_turns=0), MemoryStorage())
    assert isinstance(outcome, Failed)
    assert "more_turns=0: give at least 1" in outcome.error.message
