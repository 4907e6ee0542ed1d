"""What a step can ask: cards for people, with the schema of the answer and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.schema import problems_of
from wfdash.workflow.card import (
    AnswerType,
    Asking,
    Card,
    action,
    action_field,
    check_labels,
    checked,
    decision_schema,
    must_say,
    shown,
    typed,
    when_action,
    words_field,
)
from wfdash.workflow.choices import Choice, ask_choice
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.policy import Policy, default_answer
from wfdash.workflow.tools import ToolCall, ask_tool


class Approval(Card):
    """Approve or reject; with ``edit=Model`` also approve an edited version. Answer: ``Decision``."""

    edit: Any = None
    """The type of the edited proposal."""
    require_reason: bool = False
    """A rejection must say why."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Action -> the words on its button, e.g. ``{"reject": "Send back"}``."""


class Question(Card):
    """A question with a typed answer: ``answer=`` on ``ctx.ask``, text by default."""


class Form(Card):
    """A form: ``answer=Model`` on ``ctx.ask`` says which fields."""


class Decision(BaseModel):
    """The answer to an ``Approval``. ``edited``: the edited proposal, of the type given as ``edit``."""

    model_config = ConfigDict(frozen=True)

    action: Literal["approve", "reject", "edit"]
    reason: str | None = None
    edited: Any = None

    @property
    def approved(self) -> bool:
        """Approved as proposed or as edited."""
        return self.action != "reject"


def prepare(card: Card | str, answer: Any) -> Asking:
    """Turn a card and the wanted answer (a type, or a JSON Schema as a dict) into a question."""
    if isinstance(card, str):
        card = Question(subject=card)
    for kind, build in BUILDERS.items():
        if isinstance(card, kind):
            return checked(build(card, answer))
    raise InvalidCall(f"ctx.ask needs an Approval, Choice, Question, Form, ToolCall or text, not {type(card).__name__}")


def _approval(card: Approval, answer: Any) -> Asking:
    face = shown(card)
    if answer is not None:
        return typed("approval", face, answer)
    names = ["approve", "reject"] if card.edit is None else ["approve", "edit", "reject"]
    check_labels(card.labels, names, "labels")
    if card.edit is not None:
        face.setdefault("proposal", None)
    edited = None if card.edit is None else AnswerType(card.edit)
    types = {"edited": edited.types[""]} if edited is not None and edited.types else {}
    schema = _decision_schema(card, names, edited)
    return Asking("approval", {**face, "actions": _actions(card, names)}, schema, _read_decision(edited), types)


def _actions(card: Approval, names: list[str]) -> list[Json]:
    say = {"edit": "Edit and approve", **card.labels}
    made = {
        "approve": action("approve", "primary", [], [], say.get("approve", "")),
        "edit": action("edit", "quiet", ["edited"], ["edited"], say["edit"]),
        "reject": action("reject", "danger", ["reason"], ["reason"] * card.require_reason, say.get("reject", "")),
    }
    return [made[name] for name in names]


def _decision_schema(card: Approval, names: list[str], edited: AnswerType | None) -> dict[str, Json]:
    properties: dict[str, Json] = {"action": action_field(names), "reason": words_field("Reason")}
    rules: list[Json] = []
    shared = None
    if edited is not None:
        shape = edited.schema()
        shared = shape.pop("$defs", None)
        properties["edited"] = {"title": "Edited", **shape}
        rules.append(when_action("edit", {"required": ["edited"]}))
    if card.require_reason:
        rules.append(must_say("reject", "reason"))
    return decision_schema("Decision", properties, rules, shared)


def _read_decision(edited: AnswerType | None) -> Callable[[Json, Json], Decision]:
    def read(value: Json, _seen: Json) -> Decision:
        decision = Decision.model_validate(value)
        if decision.edited is None or edited is None:
            return decision
        return decision.model_copy(update={"edited": edited.decode(decision.edited, "answer.edited")})

    return read


def _question(card: Card, answer: Any) -> Asking:
    return typed("question", shown(card), str if answer is None else answer)


def _form(card: Card, answer: Any) -> Asking:
    if answer is None:
        raise InvalidCall("ctx.ask(Form(...)) needs answer=Model: the fields of the form")
    return typed("form", shown(card), answer)


BUILDERS: dict[type[Card], Callable[[Any, Any], Asking]] = {
    Approval: _approval,
    Choice: ask_choice,
    Form: _form,
    Question: _question,
    ToolCall: ask_tool,
}


def make_request(
    key: str, step: str, asking: Asking, policy: Policy, *, due: datetime | None, now: datetime
) -> Request:
    """Return the request that opens when a step asks. ``due``: the deadline, if it was given as a time.

    ``InvalidCall`` if the answer that would count after the deadline does not fit the request.
    """
    fallback = default_answer(policy.on_timeout, asking.schema)
    if policy.on_timeout not in (None, "fail") and problems_of(asking.schema, fallback):
        raise InvalidCall(f"on_timeout={policy.on_timeout!r} is no answer to {asking.card.get('subject')!r}")
    due = due or (now + policy.due if policy.due else None)
    return Request(
        key=RequestKey(key),
        step=step,
        kind=asking.kind,
        card=asking.card,
        answer_schema=asking.schema,
        by=policy.by,
        not_by=policy.not_by,
        due=due,
        policy=policy.stored(),
        alarm=policy.next_alarm(now, due, now),
    )


def unknown_call(key: RequestKey, step: str, entry: Mapping[str, Json], effect: str) -> Request:
    """Return the question to people about a call of which nobody knows whether it happened.

    ``effect`` is the key the other side may know it by (``ctx.effect_key``): what to look for outside.
    """
    name = entry["name"]
    result = dict(entry.get("schema") or {})
    defs = result.pop("$defs", None)
    schema: dict[str, Json] = {
        "type": "object",
        "title": "Outcome",
        "properties": {
            "action": {"title": "Action", "enum": ["happened", "again", "stop"], "type": "string"},
            "result": {"title": "Result", **result},
        },
        "required": ["action"],
        "additionalProperties": False,
        "allOf": [],
    }
    needed = ["result"] if result and result.get("type") != "null" else []
    if needed:
        schema["allOf"] = [when_action("happened", {"required": needed})]
    if defs:
        schema["$defs"] = defs
    why = entry.get("failed")
    card: dict[str, Json] = {
        "subject": f"Did {name!r} happen?",
        "body": f"The step was interrupted while it called **{name}**. Look outside before you answer.",
        "risk": "high",
        "consequence": {
            "happened": "The call is not made again; the step goes on with the result you enter.",
            "again": "The call is made again.",
            "stop": "The run fails here and can be retried.",
        },
        "evidence": [{"kind": "text", "title": "The call raised", "value": why}] if why else [],
        "context": {"step": step, "call": name, "effect key": effect},
        "actions": [
            action("happened", "primary", ["result"], needed, "It happened"),
            action("again", "danger", [], [], "It did not: run it again"),
            action("stop", "quiet", [], [], "Stop"),
        ],
    }
    return Request(key=key, step=step, kind="effect", card=card, answer_schema=schema)
