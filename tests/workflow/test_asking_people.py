"""Steps that wait for people and programs: questions, signals, comments, and what is not awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from checkpoints.records import Answer, Phase
from tests.workflow.world import ListRecorder, answered, failed, finished, flow, handed_over
from wfdash.contract import InvalidInput
from wfdash.domain.json_patch import comments_in, listed, place_of, shows_lines, with_those_of
from wfdash.domain.votes import Vote, choice_of
from wfdash.questions.card import LineComment
from wfdash.questions.cards import prepare
from wfdash.questions.choices import key_prefix, name_in
from wfdash.questions.evidence import Diff
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall
from wfdash.values.fingerprints import identify
from wfdash.workflow import Approval, Choice, Context, Decision, Form, Question, Waiting, Workflow, each, gather
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.flaws import await_flaws


class Text(BaseModel):
    text: str


def asking(*cards: Any, parallel: bool = False, **options: Any) -> tuple[Workflow, list[str]]:
    """A one-step workflow that asks these cards and notes each time its function starts."""
    seen = []

    async def ask(ctx: Context) -> Any:
        seen.append("top")
        if parallel:
            return list(await asyncio.gather(*(ctx.ask(card, **options) for card in cards)))
        return [await ctx.ask(card, **options) for card in cards]

    return flow(ask), seen


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
    async def ask(ctx: Context) -> str:
        decision: Decision = await ctx.ask(Approval(subject="Publish?", proposal=Text(text="a"), edit=Text))
        return f"{decision.action} {decision.reason} {decision.edited.text if decision.edited else ''}"

    wf = flow(ask)
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
    async def ask(ctx: Context) -> str:
        form = await ctx.ask(Form(subject="Write"), answer=Text)
        number = await ctx.ask(Question(subject="How many?"), answer=int)
        return form.text * number

    wf = flow(ask)
    outcome = await answered(wf, await wf.run(None), {"text": "x"})
    assert outcome.requests[0].answer_schema == {"type": "integer"}
    assert finished(await answered(wf, outcome, 3)) == "xxx"


async def test_who_answered_is_known_to_the_step():
    async def ask(ctx: Context) -> list[Any]:
        await ctx.ask("first?", by="finance")
        await ctx.ask("second?", not_by=[name for a in ctx.answers for name in a.voters])
        return [a.by for a in ctx.answers]

    wf = flow(ask)
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
    async def ask(ctx: Context) -> str:
        tasks = [asyncio.create_task(ctx.ask(text)) for text in ("a?", "b?")]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return str(done.pop().result())

    wf = flow(ask)
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


class Parcel(BaseModel):
    code: str
    grams: int = 0


def plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, Parcel) else value


def receiving(*waits: tuple[Any, ...], parallel: bool = False, **options: Any) -> tuple[Workflow, list[str]]:
    seen = []

    async def wait(ctx: Context) -> Any:
        seen.append("top")
        if parallel:
            return list(await asyncio.gather(*(ctx.receive(*one, **options) for one in waits)))
        return [plain(await ctx.receive(*one, **options)) for one in waits]

    return flow(wait), seen


async def test_a_step_parks_until_the_signal_is_there_and_gets_it_as_its_type():
    wf, seen = receiving(("shipped", Parcel))
    outcome = await wf.run(None)
    (request,) = outcome.requests
    assert (request.kind, request.card["subject"]) == ("signal", "Waits for the signal 'shipped'")
    assert name_in(request.key) == "shipped"
    assert request.key.startswith(key_prefix("shipped"))
    assert request.answer_schema["required"] == ["code"]
    outcome = await answered(wf, outcome, {"code": "x1"})
    assert finished(outcome) == [{"code": "x1", "grams": 0}]
    assert len(seen) == 2


async def test_signals_in_sequence_replay_what_came():
    wf, seen = receiving(("item", str), ("item", str), ("end",))
    outcome = await wf.run(None)
    for value in ("a", "b", {"any": [1]}):
        outcome = await answered(wf, outcome, value)
    assert finished(outcome) == ["a", "b", {"any": [1]}]
    assert len(seen) == 4


async def test_several_are_waited_for_at_once():
    wf, _ = receiving(("paid", int), ("shipped", int), parallel=True)
    outcome = await wf.run(None)
    assert {name_in(request.key) for request in outcome.requests} == {"paid", "shipped"}
    outcome = await answered(wf, outcome, lambda request: len(name_in(request.key)))
    assert finished(outcome) == [4, 7]


async def test_what_does_not_fit_is_refused_and_the_run_still_waits():
    wf, _ = receiving(("shipped", Parcel))
    outcome = await wf.run(None)
    with pytest.raises(InvalidInput):
        await answered(wf, outcome, {"grams": 3})
    assert finished(await answered(wf, outcome, {"code": "x"})) == [{"code": "x", "grams": 0}]


async def test_the_workflow_s_policy_for_people_does_not_concern_signals():
    wf = Workflow("addressed", policy=Policy(by="finance", need=2))

    @wf.step(start=True)
    async def wait(ctx: Context) -> Any:
        return await ctx.receive("go", bool)

    (request,) = (await wf.run(None)).requests
    assert (request.by, request.policy) == ((), {})


@pytest.mark.parametrize("due", ["2h", timedelta(hours=2), None], ids=["text", "duration", "moment"])
async def test_with_a_deadline_the_run_fails_once_it_has_passed(due):
    wf, _ = receiving(("go", bool), due=due or datetime.now(UTC) + timedelta(hours=2))
    (request,) = (await wf.run(None)).requests
    assert request.due == request.alarm
    assert abs(request.due - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
    assert request.policy["on_timeout"] == "fail"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "x" * 101, 3, None])
async def test_a_name_that_is_none_is_refused(name):
    wf, _ = receiving((name,))
    assert failed(await wf.run(None)).startswith("InvalidCall: ctx.receive needs a name of")


Step = Callable[[Context], Awaitable[Any]]


async def uses_it_at_once(ctx: Context) -> str:
    return "yes" if ctx.ask(Approval(subject="Pay?")).approved else "no"


async def uses_a_name(ctx: Context) -> str:
    decision = ctx.ask(Approval(subject="Pay?"))
    return "yes" if decision.approved else "no"


async def uses_it_as_a_number(ctx: Context) -> bool:
    amount = ctx.ask("How much?", answer=int)
    return amount > 3


async def branches(ctx: Context) -> str:
    if ctx.ask("Pay?", answer=bool):
        return "yes"
    return "no"


async def throws_it_away(ctx: Context) -> str:
    ctx.sleep("2 days")
    return "done"


async def returns_it(ctx: Context) -> Any:
    return ctx.call(len, "abc")


async def keeps_it_under_its_name(ctx: Context) -> str:
    asked = ctx.ask("Pay?")
    asked = asked if ctx.attempt else ctx.state.get("other")
    return "done"


FORGOTTEN = {
    uses_it_at_once: (1, "ask"),
    uses_a_name: (1, "ask"),
    uses_it_as_a_number: (1, "ask"),
    branches: (1, "ask"),
    throws_it_away: (1, "sleep"),
    returns_it: (1, "call"),
    keeps_it_under_its_name: (1, "ask"),
}


async def hands_all_on(ctx: Context) -> Any:
    first = ctx.ask("First?")
    one, two = await asyncio.gather(first, ctx.ask("Second?"))
    task = asyncio.create_task(ctx.call(len, "abc"))
    more = [ctx.call(len, text) for text in (one, two)]
    more.append(ctx.call(len, "x"))
    chosen = ctx.ask("Third?") if one else ctx.ask("Fourth?")
    other = chosen
    chosen = other if two else chosen
    pending = {"a": ctx.call(len, "a")}
    await asyncio.gather(*more, *pending.values(), *(ctx.call(len, text) for text in "ab"))

    async def later() -> int:
        return await ctx.call(len, "z")

    def made() -> Any:
        return ctx.call(len, "y")

    async with asyncio.timeout(3):
        await made()
    return [await task, await chosen, await later()]


@pytest.mark.parametrize("step", FORGOTTEN, ids=lambda one: one.__name__)
def test_check_names_the_line_of_a_forgotten_await(step: Any) -> None:
    line, name = FORGOTTEN[step]
    ((problem, place),) = await_flaws(flow(step).graph)
    assert problem == f"step '{step.__name__}' does not await ctx.{name}(...): write 'await ctx.{name}(...)'"
    assert place == f"{__file__}:{step.__code__.co_firstlineno + line}"


def test_check_finds_nothing_in_what_is_awaited_elsewhere() -> None:
    assert list(await_flaws(flow(hands_all_on).graph)) == []


def test_check_names_a_plain_function_that_asks() -> None:
    def go(ctx: Context) -> Any:
        return ctx.ask("Pay?")

    ((problem, _),) = await_flaws(flow(go).graph)
    assert problem == "step 'go' is a plain function: make it 'async def' to ask"


@pytest.mark.parametrize("step", [uses_it_at_once, uses_a_name, uses_it_as_a_number, branches])
async def test_a_forgotten_await_fails_with_the_remedy_and_asks_no_one(step: Step) -> None:
    outcome = await flow(step).run(None)
    assert "write 'await ctx.ask(...)'" in failed(outcome)
    assert outcome.checkpoint is not None
    assert outcome.checkpoint.requests == ()


async def test_questions_that_are_awaited_together_are_open_together() -> None:
    async def go(ctx: Context) -> Any:
        first, second = ctx.ask("First?"), ctx.ask("Second?")
        return await asyncio.gather(second, first)

    outcome = await flow(go).run(None)
    assert isinstance(outcome, Waiting)
    assert [request.card["subject"] for request in outcome.requests] == ["First?", "Second?"]


@pytest.mark.parametrize("forgets", ["ask", "call", "sleep", "receive", "checkpoint"])
async def test_a_step_that_forgets_to_await_fails_and_says_so(forgets: str):
    wf = Workflow("forgets")
    args = {"ask": ("?",), "call": (len, "abc"), "sleep": (5,), "receive": ("letter",), "checkpoint": ("here",)}

    @wf.step(start=True)
    async def go(ctx: Context) -> str:
        getattr(ctx, forgets)(*args[forgets])
        return "done"

    assert f"write 'await ctx.{forgets}(...)'" in failed(await wf.run(None))


async def test_a_task_that_a_step_leaves_behind_is_not_called_forgotten():
    async def go(ctx: Context) -> str:
        tasks.append(asyncio.create_task(ctx.sleep(60)))
        return "done"

    tasks: list[Any] = []
    assert finished(await flow(go).run(None)) == "done"


PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
ON_LINE = {"file": "a.py", "line": 1, "text": "why?"}
RANGE = {"file": "a.py", "line": 12, "start_line": 10, "side": "old", "text": "all of\nthis"}


def reviewing() -> Workflow:
    async def review(ctx: Context) -> Decision:
        return await ctx.ask(Approval(subject="Merge?", proposal=PATCH))

    return flow(review)


async def test_a_step_gets_the_comments_of_the_answer():
    wf = reviewing()
    outcome = await answered(wf, await wf.run(None), {"action": "reject", "line_comments": [ON_LINE, RANGE]})
    assert finished(outcome)["line_comments"] == [LineComment(**one).model_dump() for one in (ON_LINE, RANGE)]


async def test_an_answer_without_comments_is_what_it_was():
    wf = reviewing()
    decision = finished(await answered(wf, await wf.run(None), {"action": "approve"}))
    assert "line_comments" not in decision
    assert Decision.model_validate(decision).line_comments == ()


@pytest.mark.parametrize(
    "comment",
    [
        {**ON_LINE, "text": ""},
        {**ON_LINE, "line": 0},
        {**ON_LINE, "line": "1"},
        {**ON_LINE, "side": "left"},
        {**ON_LINE, "by": "somebody else"},
        {"file": "a.py", "text": "no line"},
        {**ON_LINE, "text": "x" * 10_001},
    ],
)
async def test_a_comment_that_is_none_is_refused_and_leaves_the_request_open(comment: dict[str, Any]):
    wf = reviewing()
    outcome = await wf.run(None)
    with pytest.raises(InvalidInput):
        await answered(wf, outcome, {"action": "approve", "line_comments": [comment]})


@pytest.mark.parametrize(
    ("card", "takes"),
    [
        (Approval(subject="?", proposal=PATCH), True),
        (Approval(subject="?", proposal="new", current="old"), True),
        (Approval(subject="?", proposal=1, evidence=[Diff(unified=PATCH)]), True),
        (Approval(subject="?", proposal=1, evidence=[Diff(before="a", after="b")]), True),
        (ToolCall(tool="t", evidence=[Diff(unified=PATCH)]), True),
        (Approval(subject="?", proposal="text"), False),
        (Approval(subject="?", proposal={"a": 1}, current={"a": 2}), False),
        (Approval(subject="?", evidence=[Diff(before={"a": 1}, after={"a": 2})]), False),
        (ToolCall(tool="t", arguments={"patch": PATCH}), False),
    ],
)
def test_comments_are_taken_where_lines_are_shown(card: Any, takes: bool):
    asked = prepare(card, None)
    assert ("line_comments" in asked.schema["properties"]) is takes
    assert shows_lines(asked.card) is takes


def test_a_question_asked_before_there_were_comments_is_the_same_question():
    asked = prepare(Approval(subject="Merge?", proposal=PATCH, require_reason=True), None)
    before = {name: node for name, node in asked.schema["properties"].items() if name != "line_comments"}
    assert asked.form == {**asked.schema, "properties": before}
    old = identify(asked.card, {**asked.schema, "properties": before}, ["proposal"])
    assert identify(asked.card, asked.form, ["proposal"]).moved(old.prints) == ()


def test_votes_count_together_whatever_their_comments():
    one, other = ({"action": "reject", "line_comments": [dict(ON_LINE, text=text)]} for text in ("a", "b"))
    assert len({choice_of(Vote(by=by, verdict="reject", value=value)) for by, value in (("x", one), ("y", other))}) == 1


def test_the_comments_of_all_votes_come_together_once_each():
    own, same, more = ({"action": "reject", "line_comments": found} for found in ([ON_LINE], [ON_LINE], [RANGE]))
    assert comments_in(with_those_of(own, [same, more, {"action": "reject"}])) == (ON_LINE, RANGE)
    assert with_those_of("text", [more]) == "text"
    assert with_those_of(own, []) is own


def test_comments_are_listed_in_short_and_nothing_odd_is_read():
    assert listed({"line_comments": [ON_LINE, RANGE]}) == ["a.py:1 why?", "a.py:−10-−12 all of this"]
    assert len(listed({"line_comments": [dict(ON_LINE, text="x" * 10_000)] * 50})) == 20
    assert place_of(ON_LINE) == "a.py:1"
    for odd in (None, 1, "x", {"line_comments": 1}, {"line_comments": [1, {"file": "a", "line": True, "text": "x"}]}):
        assert comments_in(odd) == ()
