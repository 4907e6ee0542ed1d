"""A workflow's file that lies elsewhere now, or says something else of an answer, changes nothing for open runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from checkpoints.records import Answer, Checkpoint
from tests.workflow.world import ListRecorder, failed, finished, handed_over
from wfdash.contract import InvalidInput, Waiting
from wfdash.engines import catalog
from wfdash.web.pages.ui.card.card import asked_again
from wfdash.workflow import Approval, Context, Question, Workflow
from wfdash.workflow.answers import MARK, check_answer

SOURCE = """
from pydantic import BaseModel, field_validator
from wfdash.workflow import Context, Question, Workflow

class Refused(Exception):
    pass

class Vendor(BaseModel):
    iban: str

    @field_validator("iban")
    @classmethod
    def _known(cls, value):
        if not value.startswith("DE"):
            raise ValueError("must be a German account")
        return value

def charge():
    raise Refused("no")

child = Workflow("child")

@child.step(start=True)
async def inner(message: str, ctx: Context) -> str:
    try:
        await ctx.call(charge)
    except Refused as refused:
        told = str(refused)
    vendor = await ctx.ask(Question(subject="Which?"), answer=Vendor)
    return f"{told} {vendor.iban}"

wf = Workflow("moving")
wf.sub("payment", child, start=True)
"""


@pytest.fixture
def serve(settings, tmp_path: Path) -> Callable[[str], Workflow]:
    """Serve the file from a folder, in a process that has never seen it elsewhere."""
    settings.WFDASH_APPS = []

    def load(folder: str, name: str = "flows.py") -> Workflow:
        for module in [name for name in sys.modules if name.startswith("wfdash_served_flows")]:
            del sys.modules[module]
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_text(SOURCE)
        settings.WFDASH_WORKFLOWS = [str(path)]
        catalog.load.cache_clear()
        found = catalog.get("moving").definition
        assert isinstance(found, Workflow)
        return found

    yield load
    catalog.load.cache_clear()


async def started(wf: Workflow) -> Waiting:
    outcome = await wf.run("go")
    assert isinstance(outcome, Waiting), outcome
    return outcome


async def test_validators_still_judge_and_calls_still_raise_after_a_file_moved(serve) -> None:
    before = await started(serve("one"))
    (request,) = before.requests
    assert "flows" not in str(request.answer_schema[MARK])
    after = serve("two")
    assert after.version == before.checkpoint.version
    assert check_answer(after.graph, request, {"iban": "FR1"})[0]["msg"] == "Must be a German account"
    checkpoint = handed_over(before.checkpoint)
    with pytest.raises(InvalidInput):
        await after.run(answers={request.key: {"iban": "FR1"}}, checkpoint=checkpoint)
    done = await after.run(answers={request.key: {"iban": "DE1"}}, checkpoint=checkpoint)
    assert finished(done) == "no DE1"


async def test_requests_that_name_the_folder_of_a_file_still_find_their_type(serve) -> None:
    before = await started(serve("one"))
    (request,) = before.requests
    named = {**request.answer_schema, MARK: "wfdash_served_flows_0123456789ab:Vendor"}
    old = request.model_copy(update={"answer_schema": named})
    for after in (serve("two"), serve("three", "renamed.py")):
        assert check_answer(after.graph, old, {"iban": "FR1"})
        assert not check_answer(after.graph, old, {"iban": "DE1"})


async def test_a_type_that_is_gone_is_told_of(serve, caplog) -> None:
    wf = serve("one")
    (request,) = (await started(wf)).requests
    gone = request.model_copy(update={"answer_schema": {**request.answer_schema, MARK: ":Supplier"}})
    with caplog.at_level(logging.WARNING, "wfdash.workflow.answers"):
        assert check_answer(wf.graph, gone, {"iban": "FR1"}) == []
    assert ":Supplier of an answer no longer exists" in caplog.text


class Wide(BaseModel):
    iban: str


class Narrow(BaseModel):
    iban: str

    @field_validator("iban")
    @classmethod
    def _known(cls, value: str) -> str:
        if not value.startswith("DE"):
            raise ValueError("must be a German account")
        return value


def asking(kind: Any, ask: Callable[[Context], Any] | None = None) -> Workflow:
    wf = Workflow("asking")

    @wf.step(start=True)
    async def buy(ctx: Context) -> str:
        vendor = await (ask(ctx) if ask else ctx.ask(Question(subject="Which?"), answer=kind))
        await ctx.call(str, name="after")
        return str(vendor.iban)

    return wf


async def resumed(wf: Workflow, checkpoint: Checkpoint, value: Any, recorder: ListRecorder | None = None) -> Any:
    """Go on as a worker does, to which an answer comes that someone else accepted."""
    (request,) = checkpoint.requests
    answers = {request.key: Answer(key=request.key, value=value, by="ana")}
    return await wf.run(answers=answers, checkpoint=handed_over(checkpoint), storage=recorder or ListRecorder())


async def test_an_answer_that_the_step_cannot_take_any_more_is_asked_for_again() -> None:
    before, recorder = await asking(Wide).run(None), ListRecorder()
    again = await resumed(asking(Narrow), before.checkpoint, {"iban": "FR1"}, recorder)
    assert isinstance(again, Waiting), again
    (request,) = again.requests
    note = request.card["asked_again"]
    assert (note["parts"], note["answered"]) == (["answer"], True)
    assert "must be a German account" in note["problem"]
    (event,) = [e for commit in recorder.commits for e in commit.events if e.kind == "request.replaced"]
    assert event.data["parts"] == ["answer"]
    right = await asking(Narrow).run(answers={request.key: {"iban": "DE1"}}, checkpoint=handed_over(again.checkpoint))
    assert finished(right) == "DE1"


async def test_an_answer_that_the_step_went_on_from_is_not_asked_for_again() -> None:
    def twice(ctx: Context) -> Any:
        async def ask() -> Any:
            vendor = await ctx.ask(Question(subject="Which?"), answer=kinds[-1])
            await ctx.ask("Sure?")
            return vendor

        return ask()

    kinds: list[Any] = [Wide]
    wf = asking(None, twice)
    first = await wf.run(None)
    (request,) = first.requests
    second = await wf.run(answers={request.key: {"iban": "FR1"}}, checkpoint=handed_over(first.checkpoint))
    assert isinstance(second, Waiting)
    kinds.append(Narrow)
    (request,) = second.requests
    outcome = await wf.run(answers={request.key: "yes"}, checkpoint=handed_over(second.checkpoint))
    assert failed(outcome).startswith("WrongType")


async def test_it_is_not_asked_for_without_end() -> None:
    wf = Workflow("never")

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        return await ctx.ask(Approval(subject="Which?", edit=Narrow, proposal={"iban": "DE1"}))

    outcome = await wf.run(None)
    bad = {"action": "edit", "edited": {"iban": "FR1"}}
    for _ in range(4):
        assert isinstance(outcome, Waiting), outcome
        outcome = await resumed(wf, outcome.checkpoint, bad)
    assert failed(outcome).startswith("WrongType")


def test_the_card_says_what_is_wrong_with_the_earlier_answer() -> None:
    note = {"parts": ["answer"], "was": "ask-1.0", "answered": True, "problem": "answer.iban: must be German"}
    again = asked_again({"asked_again": note}, {"asked_again": {}})
    assert again is not None
    assert again.reason == "the step can no longer use the earlier answer (answer.iban: must be German)"
    assert not again.changes
