"""What is approved is what happens: no answer carries more than the action it names."""

from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import Answer, HumanRequest
from checkpoints.records import Checkpoint
from tests.actions.conftest import ask, person, run
from tests.workflow.values.test_fingerprints import Vendor as Vendor
from tests.workflow.world import answered, finished
from wfdash.actions.requests.answer import answer_request
from wfdash.contract import InvalidInput
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.questions.cards import Decision, prepare
from wfdash.values.schemas.validate import problems_of
from wfdash.workflow import Approval, Context, Policy, ToolCall, Workflow
from wfdash.workflow.reducer.questions import unknown_call

__all__ = ["ask", "person", "run"]


PROPOSED = Vendor(name="Acme", iban="DE1")
OTHER = {"name": "Acme", "iban": "FR12345"}
VENDOR = prepare(Approval(subject="Create Acme?", proposal=PROPOSED, edit=Vendor), None)
REFUND = prepare(ToolCall(tool="refund", arguments={"table": "users", "limit": 100}), None)
CHARGE = unknown_call("call-1.0", "pay", {"name": "charge", "schema": {"type": "integer"}}, Policy(), effect="r:1:0")  # type: ignore[arg-type]

FOREIGN = [
    (VENDOR.card, VENDOR.schema, {"action": "approve", "edited": OTHER}, "edited"),
    (VENDOR.card, VENDOR.schema, {"action": "reject", "edited": OTHER}, "edited"),
    (REFUND.card, REFUND.schema, {"action": "approve", "arguments": {"table": "tmp", "limit": 1}}, "arguments"),
    (REFUND.card, REFUND.schema, {"action": "approve", "response": "it is done"}, "response"),
    (REFUND.card, REFUND.schema, {"action": "approve", "feedback": "not ours"}, "feedback"),
    (REFUND.card, REFUND.schema, {"action": "respond", "response": "no", "feedback": "not ours"}, "feedback"),
    (CHARGE.card, CHARGE.answer_schema, {"action": "again", "result": 7}, "result"),
]


def without_rules(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a request that was opened before fields were bound to their action."""
    return {**schema, "allOf": [rule for rule in schema["allOf"] if "x-only-with" not in str(rule)]}


@pytest.mark.parametrize(("card", "schema", "value", "field"), FOREIGN)
def test_the_schema_refuses_the_field_of_another_action(
    card: dict[str, Any], schema: dict[str, Any], value: Any, field: str
) -> None:
    problems = problems_of(schema, value)
    assert [problem["loc"] for problem in problems] == [[field]]
    assert "remove it or choose that action" in problems[0]["msg"]


@pytest.mark.django_db
@pytest.mark.parametrize(("card", "schema", "value", "field"), FOREIGN)
@pytest.mark.parametrize("old", [False, True])
def test_an_approval_cannot_carry_an_edit_not_even_to_an_older_request(
    ask: Any, person: Any, card: dict[str, Any], schema: dict[str, Any], value: Any, field: str, old: bool
) -> None:
    request = ask(card=card, answer_schema=without_rules(schema) if old else schema)
    with pytest.raises(Invalid) as refused:
        answer_request(person("ana", "reviewer"), request.id, value)
    assert [problem["loc"] for problem in refused.value.errors] == [[field]]
    assert HumanRequest.objects.get().answered is None
    assert not Answer.objects.exists()


async def test_the_library_refuses_it_as_well() -> None:
    outcome = await vendors.run(None)
    with pytest.raises(InvalidInput):
        await answered(vendors, outcome, {"action": "approve", "edited": OTHER})
    assert finished(await answered(vendors, outcome, {"action": "edit", "edited": OTHER})) == "FR12345"


async def test_an_answer_that_was_accepted_with_an_edit_long_ago_approves_the_proposal() -> None:
    outcome = await vendors.run(None)
    text = outcome.checkpoint.model_dump()
    (live,) = text["body"]["position"]["live"].values()
    live["journal"][0]["answer"] = {
        "value": {"action": "approve", "edited": OTHER},
        "by": "ana",
        "at": "2026-01-01T00:00:00+00:00",
    }
    text["body"]["position"]["asked"], text["requests"] = {}, []
    live.pop("parked")
    assert finished(await vendors.run(checkpoint=Checkpoint.model_validate(text))) == "DE1"


@pytest.mark.django_db
def test_a_stranger_does_not_set_off_the_checks_of_an_author(ask: Any, person: Any, monkeypatch: Any) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(
        "wfdash.actions.requests.answer.validate_answer", lambda request, value: checked.append(value) or []
    )
    ana = person("ana", "reviewer")
    for request in (ask(by=["legal"]), ask("review:1", not_by=["ana"])):
        with pytest.raises(NotAllowed):
            answer_request(ana, request.id, {"action": "approve"})
    assert checked == []


vendors = Workflow("vendors")


@vendors.step(start=True)
async def create(ctx: Context) -> str:
    decision = await ctx.ask(Approval(subject="Create Acme?", proposal=PROPOSED, edit=Vendor))
    assert isinstance(decision, Decision)
    return (decision.edited or PROPOSED).iban
