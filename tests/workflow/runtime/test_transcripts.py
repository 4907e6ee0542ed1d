"""``ctx.transcript``: a step's conversation is in every checkpoint that follows, and grows with the run."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from checkpoints.content import chunks, encoder
from checkpoints.content.canonical_json import dumps
from checkpoints.file import FileStorage
from checkpoints.memory import MemoryStorage
from checkpoints.records import Answer
from tests.workflow.world import ListRecorder, finished, flow, handed_over
from wfdash.contract import Failed, Finished
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Context, Workflow, each
from wfdash.workflow.evidence import Message, ToolUse

ASKED = Message(role="user", text="Pay?")
CALLED = Message(role="assistant", calls=(ToolUse(id="c", name="pay", arguments={"sum": 5}),))


def said_at(checkpoint) -> list[str]:
    return [
        message.text or message.calls[0].name for message in NativeEngine().show(handed_over(checkpoint)).transcript
    ]


async def test_a_conversation_grows_and_an_earlier_checkpoint_has_less_of_it():
    wf, storage = Workflow("chat"), MemoryStorage()

    @wf.step(start=True)
    async def talk(ctx: Context) -> int:
        ctx.transcript([ASKED])
        first = await ctx.ask("one?", answer=int)
        ctx.transcript([ASKED, CALLED])
        second = await ctx.ask("two?", answer=int)
        ctx.transcript([ASKED, CALLED, {"role": "tool", "call": "c", "text": f"{first + second}"}])
        return first + second

    outcome = await wf.run(None, storage=storage)
    parked = [outcome.checkpoint]
    for value in (1, 2):
        answers = {outcome.request.key: Answer(key=outcome.request.key, value=value)}
        outcome = await wf.run(answers=answers, storage=storage, run_id=outcome.checkpoint.run)
        parked.append(outcome.checkpoint)
    assert [said_at(one) for one in parked] == [["Pay?"], ["Pay?", "pay"], ["Pay?", "pay", "3"]]
    again = await wf.run(
        answers={"talk-1.0": Answer(key="talk-1.0", value=9)},
        checkpoint=handed_over(parked[0]),
        storage=ListRecorder(),
        run_id=parked[0].run,
    )
    assert said_at(again.checkpoint) == ["Pay?", "pay"]


async def test_a_later_step_that_continues_a_conversation_takes_its_place():
    async def first(ctx: Context) -> str:
        ctx.transcript([ASKED])
        return "x"

    def second(given: str, ctx: Context) -> str:
        ctx.transcript([ASKED, CALLED])
        return given

    async def third(given: str, ctx: Context) -> str:
        ctx.transcript([Message(role="user", text="Another")])
        return given

    done = await flow(first, second, third).run(None, storage=MemoryStorage())
    assert said_at(done.checkpoint) == ["Pay?", "pay", "Another"]


async def test_many_steps_at_once_each_have_their_own():
    wf = Workflow("many")
    wf.step(start=True, name="read")(lambda: [1, 2, 3])

    @wf.step(after=each("read"))
    async def talk(n: int, ctx: Context) -> int:
        await asyncio.sleep(0.001 * n)
        ctx.transcript([Message(role="user", text=str(n))])
        return n

    done = await wf.run(None, storage=MemoryStorage())
    assert said_at(done.checkpoint) == ["1", "2", "3"]


@pytest.mark.parametrize("wrong", [[{"role": "boss"}], [{"text": "x"}], "text", [3], [{"role": "user", "pin": "x"}]])
async def test_what_is_no_message_fails_the_step_with_what_is_wrong(wrong):
    async def talk(ctx: Context) -> None:
        ctx.transcript(wrong)

    outcome = await flow(talk).run(None, storage=MemoryStorage())
    assert isinstance(outcome, Failed)
    assert "ctx.transcript takes messages" in outcome.error.message


async def test_text_that_no_database_takes_is_stored_all_the_same():
    async def talk(ctx: Context) -> int:
        ctx.transcript([Message(role="user", text="a\x00b")])
        return 1

    done = await flow(talk).run(None, storage=MemoryStorage())
    assert (finished(done), said_at(done.checkpoint)) == (1, ["a␀b"])


async def test_each_turn_of_a_long_conversation_costs_as_much_as_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded, turns = 0, list[int]()

    def dumps_counting(value: Any) -> bytes:
        nonlocal encoded
        text = dumps(value)
        encoded += len(text)
        return text

    for module in (encoder, chunks):
        monkeypatch.setattr(module, "dumps", dumps_counting)

    async def reply(_: Any, ctx: Context) -> None:
        said = list[dict[str, Any]]()
        for turn in range(12):
            said.append({"role": "tool", "text": await ctx.call(read_page, turn)})
            ctx.transcript([dict(one) for one in said])
            turns.append(encoded)

    async def read_page(turn: int) -> str:
        return f"page {turn} " * 3000

    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        outcome = await flow(reply).run(None, storage=storage)
    assert isinstance(outcome, Finished)
    costs = [after - before for before, after in pairwise(turns)]
    assert costs[-1] < 1.2 * costs[1], costs
