"""Tool calls at the desk: recorded as what they are, and counted whatever the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import Answer, AuditEntry, HumanRequest
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import Invalid
from wfdash.questions.cards import prepare
from wfdash.workflow import ToolCall

pytestmark = pytest.mark.django_db
ASKING = prepare(ToolCall(tool="refund", arguments={"order": "O-7", "amount": 12}), None)


@pytest.fixture
def call(ask) -> HumanRequest:
    return ask(card=ASKING.card, answer_schema=ASKING.schema, kind=ASKING.kind)


@pytest.mark.parametrize(
    ("value", "stands"),
    [
        ({"action": "approve"}, "approved"),
        ({"action": "edit", "arguments": {"order": "O-7", "amount": 5}}, "modified"),
        ({"action": "reject", "feedback": "not ours"}, "rejected"),
        ({"action": "respond", "response": "paid already"}, "answered"),
    ],
)
def test_the_record_says_how_a_tool_call_was_decided(value: dict[str, Any], stands: str, call, person) -> None:
    answer_request(person("ana", "reviewer"), call.id, value, verdict=value["action"])
    facts = AuditEntry.objects.get().facts
    assert (facts["stands"], facts["edited"]) == (stands, value.get("arguments"))
    assert facts["proposal"] == {"order": "O-7", "amount": 12}


def test_arguments_of_another_type_are_refused(call, person) -> None:
    wrong = {"action": "edit", "arguments": {"order": "O-7", "amount": "much"}}
    with pytest.raises(Invalid):
        answer_request(person("ana", "reviewer"), call.id, wrong)
    assert not Answer.objects.exists()


def test_two_rejections_are_the_same_whatever_their_feedback(ask, person) -> None:
    shown = {"card": ASKING.card, "answer_schema": ASKING.schema}
    request = ask(**shown, policy={"need": 2, "veto": False})
    for name, why in (("ana", "too much"), ("ben", "not ours")):
        answer_request(person(name, "reviewer"), request.id, {"action": "reject", "feedback": why})
    assert Answer.objects.get().verdict == "reject"
