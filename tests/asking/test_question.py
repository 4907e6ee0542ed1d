from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from wfdash.contract import Finished, InvalidInput, Waiting
from wfdash.questions.cards import prepare
from wfdash.questions.evidence import Diff, Image, Link, Table, Text
from wfdash.workflow import Approval, Choice, Form, Option, Policy
from wfdash.workflow.asking import PeopleQuestion, question_of
from wfdash.workflow.asking.workflows import ask_people
from wfdash.workflow.errors import InvalidCall

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Claim(BaseModel):
    amount: int


CARDS: list[tuple[Any, Any, Any]] = [
    ("Which version?", None, "2.4"),
    ("How many?", int, 3),
    (Approval(subject="Ship it?", body="*Now*", risk="high", labels={"reject": "Wait"}), None, {"action": "approve"}),
    (
        Approval(subject="Pay?", proposal=Claim(amount=3), edit=Claim, require_reason=True),
        None,
        {"action": "edit", "edited": {"amount": 4}},
    ),
    (Choice(subject="Where?", options=["here", Option(name="there", label="There")]), None, {"action": "there"}),
    (Choice(subject="Which?", options={"a": "A", "b": "B"}, multiple=True, at_most=1), None, ["b"]),
    (Form(subject="Claim"), Claim, {"amount": 5}),
    (
        Approval(
            subject="Look",
            evidence=[
                Image(data=PIXEL, title="Pixel"),
                Table(rows=[[1, 2]], columns=["a", "b"]),
                Diff(before="a", after="b"),
                Link(url="https://example.org"),
                Text(value="words"),
            ],
        ),
        None,
        {"action": "reject"},
    ),
]


@pytest.mark.parametrize(("card", "answer", "given"), CARDS)
async def test_a_question_of_another_program_is_asked_as_a_step_would_ask_it(
    card: Any, answer: Any, given: Any
) -> None:
    sent = json.loads(json.dumps(question_of(card, answer, by="legal", not_by=["eve"], due="4h")))
    asked = await ask_people.run(sent)
    assert isinstance(asked, Waiting)
    [request] = asked.requests
    here = prepare(card, answer)
    assert (request.kind, request.card) == (here.kind, here.card)
    assert request.answer_schema.get("properties") == here.schema.get("properties")
    assert (request.by, request.not_by) == (("legal",), ("eve",))
    assert request.due is not None
    done = await ask_people.run(answers={request.key: given}, checkpoint=asked.checkpoint)
    assert isinstance(done, Finished)
    assert done.output["value"] == given


async def test_a_subject_alone_is_to_be_approved_or_rejected() -> None:
    asked = await ask_people.run({"subject": "Ship it?"})
    assert isinstance(asked, Waiting)
    assert [action["name"] for action in asked.requests[0].card["actions"]] == ["approve", "reject"]


async def test_a_policy_says_what_happens_at_the_deadline() -> None:
    terms = Policy(due="4h", remind="1h", on_timeout="reject", need=2)
    asked = await ask_people.run(question_of(Approval(subject="Ship it?"), policy=terms))
    assert isinstance(asked, Waiting)
    assert asked.requests[0].policy == {**terms.stored(), "rules": 0}


async def test_a_deadline_may_be_a_time() -> None:
    asked = await ask_people.run({"subject": "Ship it?", "due": "2099-05-01T12:00:00+02:00"})
    assert isinstance(asked, Waiting)
    assert asked.requests[0].due is not None
    assert asked.requests[0].due.isoformat() in {"2099-05-01T12:00:00+02:00", "2099-05-01T10:00:00+00:00"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subject": ""}, "at least 1"),
        ({"subject": " "}, "without a subject"),
        ({"subject": "x", "kind": "choice"}, "options"),
        ({"subject": "x", "options": ["a"]}, "not for kind 'approval'"),
        ({"subject": "x", "kind": "form"}, "answer="),
        ({"subject": "x", "kind": "form", "answer": {"type": 3}}, "no JSON Schema"),
        ({"subject": "x", "due": "soon"}, "no duration"),
        ({"subject": "x", "due": "2099-05-01T12:00:00"}, "offset"),
        ({"subject": "x", "policy": {"nonsense": 1}}, "nonsense|Extra"),
        ({"subject": "x", "policy": {"on_timeout": "reject"}}, "give due="),
        ({"subject": "x", "labels": {"maybe": "Maybe"}}, "maybe"),
        ({"subject": "x", "evidence": [{"kind": "html", "value": "<b>"}]}, "html"),
        ({"subject": "x", "whom": "legal"}, "Extra|not permitted"),
    ],
)
async def test_a_question_that_no_one_could_answer_is_refused_before_anything_runs(
    given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        PeopleQuestion.model_validate(given)
    with pytest.raises(InvalidInput):
        await ask_people.run(given)


def test_a_card_for_the_calls_of_models_is_not_a_question_of_other_programs() -> None:
    with pytest.raises(InvalidCall, match="takes an Approval"):
        question_of(42)
