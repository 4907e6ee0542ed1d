"""Comments on lines travel with the answer into the step, and change nothing of what was asked or decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workflow.world import answered, finished
from wfdash.contract import InvalidInput
from wfdash.domain.json_patch import comments_in, listed, place_of, shows_lines, with_those_of
from wfdash.domain.votes import Vote, choice_of
from wfdash.questions.card import LineComment
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import Diff
from wfdash.questions.tools import ToolCall
from wfdash.values.fingerprints import identify
from wfdash.workflow import Approval, Context, Decision, Workflow

PATCH = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
ON_LINE = {"file": "a.py", "line": 1, "text": "why?"}
RANGE = {"file": "a.py", "line": 12, "start_line": 10, "side": "old", "text": "all of\nthis"}


def reviewing() -> Workflow:
    wf = Workflow("reviewing")

    @wf.step(start=True)
    async def review(ctx: Context) -> Decision:
        return await ctx.ask(Approval(subject="Merge?", proposal=PATCH))

    return wf


async def test_a_step_gets_the_comments_of_the_answer():
    wf = reviewing()
    outcome = await answered(wf, await wf.run(None), {"action": "reject", "line_comments": [ON_LINE, RANGE]})
    decision = finished(outcome)
    assert decision["line_comments"] == [LineComment(**one).model_dump() for one in (ON_LINE, RANGE)]


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
