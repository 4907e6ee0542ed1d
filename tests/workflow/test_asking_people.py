"""Steps that ask people: in sequence, in parallel, in loops; parked and resumed, or answered while they wait."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from checkpoints.records import Answer, Phase
from tests.workflow.world import ListRecorder, answered, finished, handed_over
from wfdash.contract import InvalidInput
from wfdash.workflow import Approval, Choice, Context, Decision, Form, Question, Waiting, Workflow, each, gather
from wfdash.workflow.errors import InvalidCall


class Text(BaseModel):
    text: str


def asking(*cards: Any, parallel: bool = False, **options: Any) -> tuple[Workflow, list[str]]:
    """A one-step workflow that asks these cards and notes each time its function starts."""
    wf, seen = Workflow("asking"), []

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        seen.append("top")
        if parallel:
            return list(await asyncio.gather(*(ctx.ask(card, **options) for card in cards)))
        return [await ctx.ask(card, **options) for card in cards]

    return wf, seen


async def test_questions_in_sequence_replay_what_was_answered():
    wf, seen = asking("first?", "second?", "third?")
    outcome = await wf.run(None)
    for number in range(3):
        assert [r.card["subject"] for r in outcome.requests] == [["first?", "second?", "third?"][number]]
        outcome = await answered(wf, outcome, f"answer {number}")
    assert finished(outcome) == ["answer 0", "answer 1", "answer 2"]
    assert len(seen) == 4


async def test_parallel_questions_are_open_at_once_and_may_be_answered_in_any_order():
    wf, _ = asking("a?", "b?", "c?", parallel=True)
    outcome = await wf.run(None)
    assert len(outcome.requests) == 3
    for subject in ("b?", "c?", "a?"):
        key = next(r.key for r in outcome.requests if r.card["subject"] == subject)
        checkpoint = handed_over(outcome.checkpoint)
        outcome = await wf.run(answers={key: subject.upper()}, checkpoint=checkpoint)
    assert finished(outcome) == ["A?", "B?", "C?"]


async def test_an_approval_gives_a_decision_and_lists_the_fields_of_each_action():
    wf = Workflow("approval")

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        decision: Decision = await ctx.ask(Approval(subject="Publish?", proposal=Text(text="a"), edit=Text))
        return f"{decision.action} {decision.reason} {decision.edited.text if decision.edited else ''}"

    outcome = await wf.run(None)
    request = outcome.requests[0]
    assert request.kind == "approval"
    assert request.card["proposal"] == {"text": "a"}
    assert [(a["name"], a["fields"]) for a in request.card["actions"]] == [
        ("approve", []),
        ("edit", ["edited"]),
        ("reject", ["reason"]),
    ]
    assert finished(await answered(wf, outcome, {"action": "reject", "reason": "no"})) == "reject no "
    edited = {"action": "edit", "edited": {"text": "b"}}
    assert finished(await answered(wf, outcome, edited)) == "edit None b"
    for wrong in ({"action": "edit"}, {"action": "maybe"}, {}, {"action": "approve", "more": 1}):
        with pytest.raises(InvalidInput):
            await answered(wf, outcome, wrong)


async def test_a_choice_gives_the_chosen_name():
    wf, _ = asking(Choice(subject="Which?", options={"a": "The first", "b": "The second"}))
    outcome = await wf.run(None)
    assert [a["label"] for a in outcome.requests[0].card["actions"]] == ["The first", "The second"]
    assert finished(await answered(wf, outcome, {"action": "b"})) == ["b"]


async def test_a_form_and_a_typed_question_give_their_types():
    wf = Workflow("typed")

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        form = await ctx.ask(Form(subject="Write"), answer=Text)
        number = await ctx.ask(Question(subject="How many?"), answer=int)
        return form.text * number

    outcome = await answered(wf, await wf.run(None), {"text": "x"})
    assert outcome.requests[0].answer_schema == {"type": "integer"}
    assert finished(await answered(wf, outcome, 3)) == "xxx"


async def test_who_answered_is_known_to_the_step():
    wf = Workflow("four_eyes")

    @wf.step(start=True)
    async def ask(ctx: Context) -> list[Any]:
        await ctx.ask("first?", by="finance")
        await ctx.ask("second?", not_by=[name for a in ctx.answers for name in a.voters])
        return [a.by for a in ctx.answers]

    outcome = await wf.run(None)
    assert outcome.requests[0].by == ("finance",)
    first = Answer(key=outcome.requests[0].key, value="yes", by="ana", acting_for="rex", others=("olga",))
    outcome = await wf.run(answers={first.key: first}, checkpoint=outcome.checkpoint)
    assert outcome.requests[0].not_by == ("ana", "olga", "rex")
    second = Answer(key=outcome.requests[0].key, value="yes", by="ben")
    assert finished(await wf.run(answers={second.key: second}, checkpoint=outcome.checkpoint)) == ["ana", "ben"]


async def test_an_answer_that_arrives_while_others_work_goes_to_the_live_step():
    wf, seen = Workflow("live"), []
    may_end = asyncio.Event()

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        seen.append("top")
        return str(await ctx.ask("go on?"))

    @wf.step(after=ask)
    async def after(text: str) -> str:
        may_end.set()
        return text

    @wf.step(start=True)
    async def slow() -> None:
        await asyncio.wait_for(may_end.wait(), 60)

    recorder = ListRecorder()
    run = asyncio.create_task(wf.run(None, storage=recorder))
    await recorder.until(lambda r: any(c.opened for c in r.commits))
    key = next(c.opened[0].key for c in recorder.commits if c.opened)
    recorder.answered.put_nowait(Answer(key=key, value="yes"))
    assert finished(await run) == ["yes", None]
    assert seen == ["top"]
    assert [c.closed for c in recorder.commits if c.closed] == [(key,)]


async def test_only_the_answered_item_runs_again():
    wf, starts = Workflow("items"), []
    wf.step(start=True, name="read")(lambda items: items)

    @wf.step(after=each("read"))
    async def ask(n: int, ctx: Context) -> str:
        starts.append(n)
        return f"{n} {await ctx.ask(f'item {n}?')}"

    wf.step(after=gather(ask), name="collect")(lambda found: found)
    outcome = await wf.run([0, 1, 2])
    assert len(outcome.requests) == 3
    middle = next(r for r in outcome.requests if r.card["subject"] == "item 1?")
    outcome = await wf.run(answers={middle.key: "ok"}, checkpoint=handed_over(outcome.checkpoint))
    assert starts == [0, 1, 2, 1]
    assert finished(await answered(wf, outcome, "ok")) == ["0 ok", "1 ok", "2 ok"]


async def test_a_thousand_rounds_of_asking_in_a_loop_of_steps():
    wf = Workflow("rounds", max_steps=10)

    @wf.step(start=True, after="again")
    async def ask(n: int, ctx: Context) -> int:
        return n + int(await ctx.ask("one more?", answer=int))

    wf.step(after=ask, when=lambda n: n < 1000, name="again")(lambda n: n)
    wf.step(after=ask, otherwise=True, name="end")(lambda n: n)
    outcome = await wf.run(0)
    sizes = []
    while isinstance(outcome, Waiting):
        sizes.append(len(outcome.checkpoint.model_dump_json()))
        outcome = await wf.run(answers={outcome.requests[0].key: 1}, checkpoint=outcome.checkpoint)
    assert finished(outcome) == 1000
    assert max(sizes) < min(sizes) + 100


async def test_parked_is_durable_in_one_commit():
    wf, _ = asking("yes?")
    recorder = ListRecorder()
    await wf.run(None, storage=recorder)
    last = recorder.commits[-1]
    assert last.standing.phase is Phase.WAITING
    assert last.checkpoint.requests == last.opened
    assert len(recorder.commits) == 2
    assert [e.kind for e in last.events] == ["request.opened", "step.waiting", "run.waiting"]


async def test_a_question_left_behind_is_withdrawn():
    wf = Workflow("first_wins")

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        tasks = [asyncio.create_task(ctx.ask(text)) for text in ("a?", "b?")]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return str(done.pop().result())

    recorder = ListRecorder()
    outcome = await wf.run(None, storage=recorder)
    first, second = outcome.requests
    again = ListRecorder()
    outcome = await wf.run(answers={first.key: "me"}, checkpoint=outcome.checkpoint, storage=again)
    assert finished(outcome) == "me"
    assert sorted(k for c in again.commits for k in c.closed) == sorted([first.key, second.key])
    assert "request.withdrawn" in again.kinds
    assert outcome.checkpoint.requests == ()


async def test_an_answer_the_step_cannot_read_is_asked_for_again():
    wf = Workflow("strict")
    wanted: list[Any] = [Annotated[str, AfterValidator(int)]]

    @wf.step(start=True)
    async def ask(ctx: Context) -> Any:
        return await ctx.ask(Question(subject="n?"), answer=wanted[0])

    outcome = await wf.run(None)
    request = outcome.requests[0].model_copy(update={"answer_schema": {}})
    checkpoint = outcome.checkpoint.model_copy(update={"requests": (request,)})
    outcome = await wf.run(answers={request.key: "text"}, checkpoint=checkpoint)
    (again,) = outcome.requests
    assert "invalid literal" in again.card["asked_again"]["problem"]
    assert finished(await wf.run(answers={again.key: "7"}, checkpoint=handed_over(outcome.checkpoint))) == 7


async def test_unknown_answer_keys_are_refused():
    wf, _ = asking("yes?")
    outcome = await wf.run(None)
    with pytest.raises(InvalidCall, match="nobody asked"):
        await wf.run(answers={"nobody asked": 1}, checkpoint=outcome.checkpoint)


async def test_requests_of_a_sub_workflow_surface_on_the_parent_run():
    child, _ = asking("inside?")
    wf = Workflow("parent")
    wf.sub("part", child, start=True)
    wf.step(after="part", name="end")(lambda got: got[0])
    outcome = await wf.run(None)
    assert outcome.requests[0].step == "part/ask"
    assert finished(await answered(wf, outcome, "yes")) == "yes"
