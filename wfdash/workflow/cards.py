"""What a step can ask: cards for people, with the schema of the answer and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from checkpoints.ids import RequestKey
from checkpoints.records import Json, Request
from wfdash.schema import problems_of
from wfdash.workflow.codec import codec_for
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.policy import Policy, default_answer

Style = Literal["primary", "danger", "quiet"]


class Card(BaseModel):
    """What every request can show. Leave nothing out that helps to decide: what is missing is shown as missing."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    subject: str
    body: str = ""
    """Markdown."""
    proposal: Any = None
    current: Any = None
    evidence: list[dict[str, Any]] = Field(default_factory=list)
    """``{kind, title, value}`` each."""
    consequence: dict[str, str] | str | None = None
    """Action -> what happens."""
    risk: Literal["low", "medium", "high"] | None = None
    undo: str | None = None
    context: dict[str, Any] = Field(default_factory=dict)


class Approval(Card):
    """Approve or reject; with ``edit=Model`` also approve an edited version. Answer: ``Decision``."""

    edit: Any = None
    """The type of the edited proposal."""
    require_reason: bool = False
    """A rejection must say why."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Action -> the words on its button, e.g. ``{"reject": "Send back"}``."""


class Choice(Card):
    """Choose one of ``options`` (name, or name -> label). Answer: the name."""

    options: list[str] | dict[str, str]


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


@dataclass(frozen=True, slots=True)
class Asking:
    """A card ready to be asked: its kind, what is shown, the answer's schema, and how the answer is read.

    ``types``: the answer's own type under an empty key, that of one of its fields under the field's name.
    """

    kind: str
    card: dict[str, Json]
    schema: dict[str, Json]
    read: Callable[[Json], Any]
    types: dict[str, Any] = field(default_factory=dict)


def prepare(card: Card | str, answer: Any) -> Asking:
    """Turn a card and the wanted answer type into a question."""
    if isinstance(card, str):
        card = Question(subject=card)
    for kind, build in BUILDERS.items():
        if isinstance(card, kind):
            return build(card, answer)
    raise InvalidCall(f"ctx.ask needs an Approval, Choice, Question, Form or text, not {type(card).__name__}")


def shown(card: Card) -> dict[str, Json]:
    """Return what people see, as JSON; what was not given is left out."""
    given = {name: getattr(card, name) for name in Card.model_fields}
    return {name: to_shown(value) for name, value in given.items() if value not in (None, "", [], {})}


def to_shown(value: Any) -> Json:
    """Return any value as JSON for the eye."""
    return codec_for(object).adapter.dump_python(value, mode="json", fallback=str)


def action(name: str, style: Style, fields: list[str], required: list[str], label: str = "") -> dict[str, Json]:
    """Describe a button of a card."""
    return {
        "name": name,
        "label": label or name.capitalize(),
        "style": style,
        "fields": fields,
        "required": required,
    }


def _typed(answer: Any) -> tuple[dict[str, Json], Callable[[Json], Any], dict[str, Any]]:
    codec = codec_for(answer)
    return codec.schema(), lambda value: codec.decode(value, "answer"), {"": answer}


def _approval(card: Approval, answer: Any) -> Asking:
    face = shown(card)
    if answer is not None:
        return Asking("approval", face, *_typed(answer))
    why = ["reason"] if card.require_reason else []
    say = {"edit": "Edit and approve", **card.labels}
    actions = [
        action("approve", "primary", [], [], say.get("approve", "")),
        action("reject", "danger", ["reason"], why, say.get("reject", "")),
    ]
    schema = _decision_schema(card)
    if card.edit is not None:
        actions.insert(1, action("edit", "quiet", ["edited"], ["edited"], say["edit"]))
        face.setdefault("proposal", None)
    types = {} if card.edit is None else {"edited": card.edit}
    return Asking("approval", {**face, "actions": actions}, schema, _read_decision(card.edit), types)


def _decision_schema(card: Approval) -> dict[str, Json]:
    names = ["approve", "reject"] if card.edit is None else ["approve", "edit", "reject"]
    reason: dict[str, Json] = {"title": "Reason", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    schema: dict[str, Json] = {
        "type": "object",
        "title": "Decision",
        "properties": {"action": {"title": "Action", "enum": names, "type": "string"}, "reason": reason},
        "required": ["action"],
        "additionalProperties": False,
    }
    rules: list[Json] = []
    if card.edit is not None:
        edited = codec_for(card.edit).schema()
        schema |= {"$defs": edited.pop("$defs")} if "$defs" in edited else {}
        schema["properties"]["edited"] = {"title": "Edited", **edited}
        rules.append(_when_action("edit", {"required": ["edited"]}))
    if card.require_reason:
        given = {"properties": {"reason": {"type": "string", "minLength": 1}}, "required": ["reason"]}
        rules.append(_when_action("reject", given))
    return {**schema, "allOf": rules} if rules else schema


def _when_action(name: str, then: Json) -> Json:
    return {"if": {"properties": {"action": {"const": name}}, "required": ["action"]}, "then": then}


def _read_decision(edit: Any) -> Callable[[Json], Decision]:
    def read(value: Json) -> Decision:
        decision = Decision.model_validate(value)
        if decision.edited is None or edit is None:
            return decision
        return decision.model_copy(update={"edited": codec_for(edit).decode(decision.edited, "answer.edited")})

    return read


def _choice(card: Choice, answer: Any) -> Asking:
    labels: Mapping[str, str] = card.options if isinstance(card.options, dict) else {n: n for n in card.options}
    actions = [action(name, "quiet", [], [], label) for name, label in labels.items()]
    schema: dict[str, Json] = {
        "type": "object",
        "title": "Choice",
        "properties": {"action": {"title": "Action", "enum": list(labels), "type": "string"}},
        "required": ["action"],
        "additionalProperties": False,
    }
    read = codec_for(Any if answer is None else answer)
    return Asking("choice", {**shown(card), "actions": actions}, schema, lambda value: read.decode(value["action"]))


def _question(card: Card, answer: Any) -> Asking:
    return Asking("question", shown(card), *_typed(str if answer is None else answer))


def _form(card: Card, answer: Any) -> Asking:
    if answer is None:
        raise InvalidCall("ctx.ask(Form(...)) needs answer=Model: the fields of the form")
    return Asking("form", shown(card), *_typed(answer))


BUILDERS: dict[type[Card], Callable[[Any, Any], Asking]] = {
    Approval: _approval,
    Choice: _choice,
    Form: _form,
    Question: _question,
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
        schema["allOf"] = [_when_action("happened", {"required": needed})]
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
