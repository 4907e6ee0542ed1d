"""A question is the same one only while what is decided on is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from checkpoints.records import Answer, Checkpoint
from tests.workflow.world import ListRecorder, answered, failed, finished, flow, handed_over
from wfdash.contract import Outcome, Waiting
from wfdash.questions.evidence import Text
from wfdash.values.display import to_display
from wfdash.values.fingerprints import digest, identify
from wfdash.workflow import Approval, Choice, Context, Decision, Question, ToolCall, Workflow
from wfdash.workflow.errors import InvalidCall


class Vendor(BaseModel):
    name: str
    iban: str


def asks(card: Callable[[], Any], **options: Any) -> Workflow:
    """Return a workflow that asks ``card()`` and returns what came of it."""

    async def ask(ctx: Context) -> Any:
        given = await ctx.ask(card(), **options)
        return [given.action, given.value] if isinstance(given, Decision) else given

    return flow(ask)


def asks_both(subjects: list[str]) -> Workflow:
    """Return a workflow that asks several things at once."""

    async def ask(ctx: Context) -> list[bool]:
        given = await asyncio.gather(*(ctx.ask(Approval(subject=one)) for one in subjects))
        return [one.approved for one in given]

    return flow(ask)


def example_of(schema: dict[str, Any]) -> Any:
    """Return an answer that fits."""
    return {"action": schema["properties"]["action"]["enum"][0]} if "properties" in schema else 7


def waiting(outcome: Outcome) -> Any:
    """Return the one request of a run that waits."""
    assert isinstance(outcome, Waiting), outcome
    (request,) = outcome.requests
    return request


APPROVE = {"action": "approve"}


@pytest.mark.parametrize("part", ["subject", "body", "proposal", "consequence", "undo"])
async def test_what_is_decided_on_is_asked_again_when_it_changed(part: str) -> None:
    given: dict[str, Any] = {"subject": "Pay?", "proposal": 1}
    wf = asks(lambda: Approval(**given))
    outcome = await wf.run(None)
    given[part] = {"approve": "more"} if part == "consequence" else "more"
    again = await answered(wf, outcome, APPROVE)
    request = waiting(again)
    assert request.card["asked_again"] == {"parts": [part], "was": "ask-1.0", "answered": True}
    assert request.key == "ask-1.0~1"
    assert request.card[part] == given[part]
    assert finished(await answered(wf, again, APPROVE)) == ["approve", given.get("proposal")]


@pytest.mark.parametrize("part", ["current", "evidence", "risk", "context"])
async def test_what_only_helps_to_decide_may_differ_and_that_is_an_event(part: str) -> None:
    given: dict[str, Any] = {"subject": "Pay?", "proposal": 1}
    values = {"evidence": [Text(value="12:01")], "risk": "high", "context": {"at": "12:01"}, "current": 2}
    wf, recorder = asks(lambda: Approval(**given)), ListRecorder()
    outcome = await wf.run(None)
    given[part] = values[part]
    assert finished(await answered(wf, outcome, APPROVE, storage=recorder)) == ["approve", 1]
    (event,) = [e for commit in recorder.commits for e in commit.events if e.kind == "request.drifted"]
    assert (event.data["key"], event.data["parts"]) == ("ask-1.0", [part])


async def test_evidence_counts_where_nothing_is_proposed() -> None:
    found = ["clean"]
    wf = asks(lambda: Approval(subject="Merge?", evidence=[Text(value=found[0])]))
    outcome = await wf.run(None)
    found[0] = "3 viruses"
    assert waiting(await answered(wf, outcome, APPROVE)).card["asked_again"]["parts"] == ["evidence"]


async def test_an_author_says_what_may_move_and_gets_the_proposal_that_was_shown() -> None:
    prices = iter([100, 9000])
    wf = asks(lambda: Approval(subject=f"Pay {(price := next(prices))}?", proposal={"amount": price}), same=())
    assert finished(await answered(wf, await wf.run(None), APPROVE)) == ["approve", {"amount": 100}]


async def test_an_author_says_what_else_must_stay() -> None:
    seen = iter([Text(value="a"), Text(value="b"), Text(value="b")])
    wf = asks(lambda: Approval(subject="Pay?", proposal=1, evidence=[next(seen)]), same=("proposal", "evidence"))
    again = await answered(wf, await wf.run(None), APPROVE)
    assert waiting(again).card["asked_again"]["parts"] == ["evidence"]
    assert finished(await answered(wf, again, APPROVE)) == ["approve", 1]


async def test_a_part_that_there_is_not_is_refused() -> None:
    assert "names price" in failed(await asks(lambda: "?", same="price").run(None))


async def test_a_question_that_no_one_answered_yet_is_replaced() -> None:
    subjects, recorder = ["first", "other"], ListRecorder()
    wf = asks_both(subjects)
    outcome = await wf.run(None)
    subjects[0] = "second"
    answers = {"ask-1.1": APPROVE}
    again = await wf.run(checkpoint=handed_over(outcome.checkpoint), answers=answers, storage=recorder)
    request = waiting(again)
    assert (request.card["subject"], request.key) == ("second", "ask-1.0~1")
    assert request.card["asked_again"] == {"parts": ["subject"], "was": "ask-1.0", "answered": False}
    assert recorder.kinds[:2] == ["request.replaced", "request.opened"]
    assert {key for commit in recorder.commits for key in commit.closed} == {"ask-1.0", "ask-1.1"}
    with pytest.raises(InvalidCall, match="no such pending request"):
        await wf.run(checkpoint=again.checkpoint, answers={"ask-1.0": APPROVE})
    assert finished(await answered(wf, again, APPROVE)) == [True, True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((Question(subject="?"), int), (Question(subject="?"), bool)),
        ((Choice(subject="?", options=["a", "b"]), None), (Choice(subject="?", options=["a", "c"]), None)),
        ((Choice(subject="?", options={"a": "Keep"}), None), (Choice(subject="?", options={"a": "Delete"}), None)),
        ((Approval(subject="?", edit=Vendor), None), (Approval(subject="?"), None)),
        ((ToolCall(tool="keep"), None), (ToolCall(tool="drop"), None)),
    ],
)
async def test_what_an_answer_means_is_always_the_same(before: Any, after: Any) -> None:
    wf, now = Workflow("asks"), [before]

    @wf.step(start=True)
    async def ask(ctx: Context) -> str:
        return str(await ctx.ask(now[0][0], now[0][1], same=()))

    outcome = await wf.run(None)
    now[0] = after
    again = await answered(wf, outcome, lambda request: example_of(request.answer_schema))
    assert waiting(again).card["asked_again"]["was"] == "ask-1.0"


async def test_a_docstring_or_the_order_of_names_is_no_other_question() -> None:
    class Other(BaseModel):
        """Now with words."""

        name: str
        iban: str

    Other.__name__ = "Vendor"
    forms = [(Vendor, {"a": 1, "b": 2}), (Other, {"b": 2, "a": 1})]
    wf = asks(lambda: Approval(subject="?", edit=forms[0][0], proposal=forms[0][1]))
    outcome = await wf.run(None)
    forms.pop(0)
    assert finished(await answered(wf, outcome, {"action": "reject"})) == ["reject", None]


def test_fields_that_are_called_like_notes_count() -> None:
    form = {"type": "object", "properties": {"title": {"type": "string", "title": "Name"}}}
    other = {"type": "object", "properties": {"description": {"type": "string"}}}
    noted = {"type": "object", "properties": {"title": {"type": "string"}}, "x-type": "m:T"}
    assert identify({}, form, ()).prints != identify({}, other, ()).prints
    assert identify({}, form, ()).prints == identify({}, noted, ()).prints


def test_a_set_and_an_object_are_shown_alike_in_every_process() -> None:
    assert to_display({"b", "c", "a"}) == ["a", "b", "c"]
    assert digest(to_display(object())) == digest(to_display(object()))


async def test_a_step_that_went_on_from_the_answer_does_not_ask_again() -> None:
    wf, subject, sent = Workflow("pays"), ["first"], []

    @wf.step(start=True)
    async def pay(ctx: Context) -> str:
        await ctx.ask(Approval(subject=subject[0]))
        await ctx.call(sent.append, 1)
        await ctx.ask(Approval(subject="second"))
        return "paid"

    outcome = await answered(wf, await wf.run(None), APPROVE)
    subject[0] = "DELETE THE DATABASE"
    text = failed(await answered(wf, outcome, APPROVE))
    assert text.startswith("ReplayMismatch: step 'pay': the approval asked another question than the one")
    assert "subject differ" in text
    assert sent == [1]


async def test_a_question_that_differs_each_time_ends_in_an_error_that_says_what_to_do() -> None:
    numbers = iter(range(100))
    wf = asks(lambda: Approval(subject=f"at {next(numbers)}"))
    outcome = await wf.run(None)
    for _ in range(3):
        outcome = await answered(wf, outcome, APPROVE)
    lost = await answered(wf, outcome, APPROVE)
    assert "each time it ran (subject differ): get what changes through ctx.call" in failed(lost)
    assert waiting(await wf.run(checkpoint=lost.checkpoint)).card["asked_again"]["answered"] is True


async def test_of_questions_open_at_once_only_the_changed_one_is_asked_again() -> None:
    subjects = ["a", "b", "c"]
    wf = asks_both(subjects)
    outcome = await wf.run(None)
    key = {request.card["subject"]: request.key for request in outcome.requests}
    subjects[:] = ["b", "a!", "c"]
    outcome = await wf.run(checkpoint=outcome.checkpoint, answers={key["b"]: {"action": "reject"}})
    assert {request.card["subject"]: request.key for request in outcome.requests} == {
        "a!": f"{key['a']}~1",
        "c": key["c"],
    }
    assert finished(await answered(wf, outcome, APPROVE)) == [False, True, True]


async def test_the_rounds_of_a_loop_are_questions_of_their_own() -> None:
    async def ask(ctx: Context) -> int:
        rounds = 0
        while (await ctx.ask(Approval(subject=f"round {rounds}?"))).approved:
            rounds += 1
        return rounds

    wf = flow(ask)
    outcome = await wf.run(None)
    for _ in range(3):
        outcome = await answered(wf, outcome, APPROVE)
    assert finished(await answered(wf, outcome, {"action": "reject"})) == 3


async def test_a_checkpoint_without_fingerprints_goes_on() -> None:
    subject = ["first"]
    wf = asks(lambda: Approval(subject=subject[0], proposal=7))
    text = (await wf.run(None)).checkpoint.model_dump()
    (live,) = text["body"]["position"]["live"].values()
    del live["journal"][0]["prints"]
    subject[0] = "second"
    old = Checkpoint.model_validate(text)
    assert finished(await wf.run(checkpoint=old, answers={"ask-1.0": APPROVE})) == ["approve", 7]


async def test_an_answer_on_its_way_to_the_old_question_does_not_answer_the_new_one() -> None:
    subjects, recorder = ["first", "other"], ListRecorder()
    wf = asks_both(subjects)
    outcome = await wf.run(None)
    subjects[0] = "second"
    recorder.answered.put_nowait(Answer(key=outcome.requests[0].key, value=APPROVE, by="ana", at=datetime.now(UTC)))
    again = await wf.run(checkpoint=outcome.checkpoint, answers={"ask-1.1": APPROVE}, storage=recorder)
    assert waiting(again).card["subject"] == "second"


@pytest.mark.parametrize("proposal", [Vendor(name="Acme", iban="DE1"), {"name": "Acme", "iban": "DE1"}])
async def test_a_decision_knows_its_value_who_took_it_and_when(proposal: Any) -> None:
    taken: list[Decision] = []

    async def ask(ctx: Context) -> None:
        taken.append(await ctx.ask(Approval(subject="?", proposal=proposal, edit=Vendor)))

    wf = flow(ask)
    outcome = await wf.run(None)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    for value in (APPROVE, {"action": "edit", "edited": {"name": "Acme", "iban": "FR2"}}, {"action": "reject"}):
        await answered(wf, outcome, lambda r, value=value: Answer(key=r.key, value=value, by="ana", at=at))
    assert [one.value for one in taken] == [Vendor(name="Acme", iban="DE1"), Vendor(name="Acme", iban="FR2"), None]
    assert {one.proposal for one in map(_hashed, taken)} == {"DE1"}
    assert {(one.by, one.at, one.lapsed) for one in taken} == {("ana", at, False)}


def _hashed(decision: Decision) -> Any:
    return decision.model_copy(update={"proposal": decision.proposal.iban})


async def test_a_decision_says_that_no_one_took_it_in_time() -> None:
    taken: list[Any] = []

    async def ask(ctx: Context) -> None:
        from wfdash.workflow import Policy

        policy = Policy(due=timedelta(hours=1), on_timeout="reject")
        taken.append(await ctx.ask(Approval(subject="?"), policy=policy))

    wf = flow(ask)
    outcome = await wf.run(None)
    late = waiting(outcome).due + timedelta(seconds=1)
    given = {"action": "reject", "reason": "Not answered in time."}
    await answered(wf, outcome, lambda r: Answer(key=r.key, value=given, at=late))
    await answered(wf, outcome, lambda r: Answer(key=r.key, value=given, by="ana", at=late))
    assert [(one.by, one.lapsed) for one in taken] == [(None, True), ("ana", False)]


async def test_a_decision_can_be_handed_in_as_an_answer() -> None:
    wf = asks(lambda: Approval(subject="?", proposal=7))
    assert finished(await answered(wf, await wf.run(None), Decision(action="approve"))) == ["approve", 7]


async def test_a_decision_that_is_passed_on_is_the_answer_alone() -> None:
    async def ask(ctx: Context) -> Decision:
        return await ctx.ask(Approval(subject="?", proposal=Vendor(name="Acme", iban="DE1")))

    async def use(decision: Decision) -> str:
        with pytest.raises(AttributeError, match=r"return decision\.value"):
            _ = decision.value
        return f"{decision.action} {decision.by}"

    wf = flow(ask, use)
    assert finished(await answered(wf, await wf.run(None), APPROVE)) == "approve None"
