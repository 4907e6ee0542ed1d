"""Branches of a step that begin in another order when it runs again get each its own results again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from tests.workflow.world import ListRecorder, PowerCut, flow
from wfdash.contract import Failed, Finished, Waiting
from wfdash.workflow import Context, Workflow
from wfdash.workflow.runtime import step_ops
from wfdash.workflow.runtime.drive import Drive

PAUSES = [(0.0, 0.02, 0.04), (0.04, 0.02, 0.0)]
"""Seconds before each branch begins, in one process and the next."""


def beside(calls: list[Any], pauses: tuple[float, ...], once: bool = False) -> Workflow:
    async def fetch(number: int, note: str) -> str:
        calls.append(number)
        return f"{note} {number}"

    async def step(n: int, ctx: Context) -> Any:
        async def branch(number: int) -> str:
            await asyncio.sleep(pauses[number])
            found = await ctx.call(fetch, number, note="found", once=once)
            return found + await ctx.ask(f"Is {found} right?")

        return await asyncio.gather(*(branch(number) for number in range(len(pauses))))

    return flow(step, name="beside", people=True)


@pytest.mark.parametrize("once", [False, True])
async def test_recorded_calls_of_branches_are_found_again_by_their_arguments(once: bool):
    calls: list[Any] = []
    first = await beside(calls, PAUSES[0], once).run(1)
    assert isinstance(first, Waiting), first
    words = {request.key: request.card["subject"].split()[2] for request in first.requests}
    done = await beside(calls, PAUSES[1], once).run(answers=words, checkpoint=first.checkpoint)
    assert isinstance(done, Finished), done
    assert done.output == ["found 00", "found 11", "found 22"]
    assert calls == [0, 1, 2]


async def test_a_branch_that_had_not_begun_at_a_kill_does_not_get_the_result_of_another():
    for commits in range(1, 12):
        calls: list[Any] = []
        recorder = ListRecorder(dies_after=commits)
        try:
            first = await beside(calls, PAUSES[0]).run(1, storage=recorder, run_id="r")
        except PowerCut:
            first = None
        if first is not None:
            break
        before = len(calls)
        again = await beside(calls, PAUSES[1]).run(checkpoint=recorder.latest)
        assert isinstance(again, Waiting), again
        words = {request.key: request.card["subject"].split()[2] for request in again.requests}
        done = await beside(calls, PAUSES[0]).run(answers=words, checkpoint=again.checkpoint)
        assert done.output == ["found 00", "found 11", "found 22"], commits
        assert len(calls) <= before + 3, calls
    assert commits > 1


@dataclass(frozen=True)
class Key:
    text: str


def paying(
    paid: list[Any], pauses: tuple[float, ...], rest: float = 0.0, *, pack: Any = str, once: bool = False
) -> Workflow:
    async def pay(number: int, key: Any) -> int:
        paid.append((number, key))
        return number

    async def step(n: int, ctx: Context) -> Any:
        async def branch(number: int) -> str:
            await asyncio.sleep(pauses[number])
            key = pack(ctx.effect_key)
            await asyncio.sleep(rest)
            found = await ctx.call(pay, number, key, once=once)
            return str(found) + await ctx.ask(f"Is {found} right?")

        return await asyncio.gather(*(branch(number) for number in range(len(pauses))))

    return flow(step, name="paying", people=True)


async def answered_in(flow: Workflow, first: Waiting) -> Any:
    words = {request.key: request.card["subject"].split()[1] for request in first.requests}
    return await flow.run(answers=words, checkpoint=first.checkpoint)


async def test_calls_with_effect_keys_are_found_again_in_another_order():
    paid: list[tuple[int, str]] = []
    first = await paying(paid, PAUSES[0]).run(1)
    done = await answered_in(paying(paid, PAUSES[1]), first)
    assert done.output == ["00", "11", "22"]
    assert len(paid) == len({key for _, key in paid}) == 3


async def test_branches_that_read_their_effect_keys_at_once_have_keys_of_their_own():
    paid: list[tuple[int, str]] = []
    assert isinstance(await paying(paid, (0.0, 0.0, 0.0), rest=0.01).run(1), Waiting)
    assert len({key for _, key in paid}) == 3


async def test_no_branch_gets_the_effect_key_or_result_of_another_after_a_kill():
    for commits in range(1, 15):
        paid: list[tuple[int, str]] = []
        recorder = ListRecorder(dies_after=commits)
        try:
            await paying(paid, PAUSES[0]).run(1, storage=recorder, run_id="r")
            break
        except PowerCut:
            again = await paying(paid, PAUSES[1]).run(checkpoint=recorder.latest)
        assert (await answered_in(paying(paid, PAUSES[0]), again)).output == ["00", "11", "22"], commits
        assert len({key for _, key in paid}) == len(set(paid)) == 3, paid
    assert commits > 6


async def test_what_is_recorded_of_a_call_before_it_is_made_has_its_own_key():
    recorder, last = ListRecorder(dies_after=2), ListRecorder()
    with pytest.raises(PowerCut):
        await paying([], PAUSES[0], once=True).run(1, storage=recorder, run_id="r")
    await paying([], PAUSES[1], once=True).run(checkpoint=recorder.latest, storage=last)
    points = [commit.checkpoint for commit in last.commits if commit.checkpoint is not None]
    journal = [entry for point in points for entry in point.body["position"]["live"]["1"]["journal"]]
    kept = {entry["t"]: entry["args"]["key"] for entry in journal if "args" in entry}
    assert kept == {task: f"r:step.1:{task}.0" for task in (".1", ".2", ".3")}


async def test_an_effect_key_inside_of_an_object_is_refused_where_it_is_that_of_another():
    paid: list[tuple[int, str]] = []

    recorder = ListRecorder(dies_after=2)
    with pytest.raises(PowerCut):
        await paying(paid, PAUSES[0], pack=Key).run(1, storage=recorder, run_id="r")
    again = await paying(paid, PAUSES[1], pack=Key).run(checkpoint=recorder.latest)
    assert isinstance(again, Failed), again
    assert "Key holds the effect key of another" in again.error.message


async def test_a_call_whose_arguments_change_is_refused_and_not_made_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(step_ops, "PATIENCE", 0.3)
    paid: list[tuple[int, str]] = []
    first = await paying(paid, PAUSES[0], pack=lambda key: str(uuid4())).run(1)
    done = await answered_in(paying(paid, PAUSES[0], pack=lambda key: str(uuid4())), first)
    assert isinstance(done, Failed), done
    assert "with other arguments" in done.error.message
    assert [number for number, _ in paid] == [0, 1, 2]


async def test_a_run_parks_although_its_branches_become_idle_between_two_looks(monkeypatch: pytest.MonkeyPatch):
    perform = Drive._perform

    def slowly(drive: Drive) -> None:
        perform(drive)
        time.sleep(step_ops.SETTLE)

    monkeypatch.setattr(Drive, "_perform", slowly)
    assert isinstance(await asyncio.wait_for(paying([], PAUSES[0]).run(1), 20), Waiting)
