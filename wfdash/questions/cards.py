"""The cards a step can ask people with, the schema of each answer and how to read it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, _SpecialForm, cast

from pydantic import BaseModel, Field
from typing_extensions import TypeVar

from checkpoints.ids import RequestKey
from checkpoints.records import Json, JsonObject, Request
from wfdash.domain.json_patch import field_for
from wfdash.questions.card import (
    AnswerType,
    Asking,
    Card,
    Given,
    LineComment,
    action,
    action_field,
    check_labels,
    checked,
    decision_schema,
    must_say,
    only_with,
    read_lines,
    shown,
    typed,
    when_action,
    words_field,
)
from wfdash.questions.choices import Choice, ask_choice
from wfdash.questions.policy import Policy, default_answer
from wfdash.questions.tools import ToolCall, ask_tool
from wfdash.values.codec import copy_plain
from wfdash.values.display import to_display
from wfdash.values.errors import InvalidCall, WorkflowError
from wfdash.values.schemas.validate import problems_of
from wfdash.values.schemas.work import UnsupportedPattern, refuse_unsupported

T = TypeVar("T", default=Any)
"""The type of an edited proposal. Only checkers and editors see it: at run time there is one class."""


class Approval(Card, Generic[T]):
    """Approve or reject; with ``edit=Model`` also approve an edited version. Answer: ``Decision[Model]``."""

    if TYPE_CHECKING:
        edit: type[T] | UnionType | _SpecialForm | JsonObject | None = None
    else:
        edit: Any = None
    """The type of the edited proposal, or its JSON Schema."""
    require_reason: bool = False
    """A rejection must say why."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Action -> the text of its button, e.g. ``{"reject": "Send back"}``."""


class Question(Card):
    """A question with a typed answer: ``answer=`` on ``ctx.ask``, text by default."""


class Form(Card):
    """A form: ``answer=Model`` on ``ctx.ask`` says which fields."""


class Decision(Given, Generic[T]):
    """The answer to an ``Approval``. ``value`` is what was approved: continue with that.

    ``proposal``: what was shown; ``edited``: what it was edited to. Both are of the type given as ``edit``.
    ``line_comments``: what was said of single lines, where the card shows a patch or another difference of texts.
    """

    action: Literal["approve", "reject", "edit"]
    reason: str | None = None
    edited: T | None = None
    line_comments: tuple[LineComment, ...] = Field(default=(), exclude_if=lambda comments: not comments)
    proposal: T | None = Field(default=None, exclude=True)

    @property
    def value(self) -> T:
        """Return what was approved: the edited proposal, else the proposal that was shown; None if it was rejected,
        which its type does not say: test ``approved`` first.

        ``AttributeError`` for an approval of a card without a proposal, and for one that was loaded from storage: it is
        stored without the proposal.
        """
        if self.action != "approve":
            return cast(T, self.edited if self.action == "edit" else None)
        if "proposal" not in self.model_fields_set:
            raise AttributeError("a decision is stored without its proposal: return decision.value from the step")
        if self.proposal is None:
            raise AttributeError(
                "approved, but the card had no proposal: give Approval(proposal=...), or test decision.approved"
            )
        return self.proposal

    @property
    def approved(self) -> bool:
        """Return whether it was approved, as proposed or as edited."""
        return self.action != "reject"


def prepare(card: Card | str, answer: Any) -> Asking:
    """Return the question of a card and the wanted answer (a type, or a JSON Schema as a dict)."""
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
    form = _decision_schema(card, names, edited)
    # It is the same question with the field and without: comments decide nothing.
    schema = {**form, "properties": {**form["properties"], **field_for(face)}}
    read = _read_decision(edited, card)
    return Asking("approval", {**face, "actions": _actions(card, names)}, schema, read, types, form=form)


def _actions(card: Approval, names: list[str]) -> list[Json]:
    say = {"edit": "Edit and approve", **card.labels}
    made = {
        "approve": action("approve", "primary", [], [], say.get("approve", "")),
        "edit": action("edit", "quiet", ["edited"], ["edited"], say["edit"]),
        "reject": action("reject", "danger", ["reason"], ["reason"] * card.require_reason, say.get("reject", "")),
    }
    return [made[name] for name in names]


def _decision_schema(card: Approval, names: list[str], edited: AnswerType | None) -> JsonObject:
    properties: JsonObject = {"action": action_field(names), "reason": words_field("Reason")}
    rules: list[Json] = []
    shared = None
    if edited is not None:
        shape = edited.schema()
        shared = shape.pop("$defs", None)
        properties["edited"] = {"title": "Edited", **shape}
        rules += [when_action("edit", {"required": ["edited"]}), only_with("edit", "edited")]
    if card.require_reason:
        rules.append(must_say("reject", "reason"))
    return decision_schema("Decision", properties, rules, shared)


def _read_decision(edited: AnswerType | None, card: Approval) -> Callable[[Json, Json], Decision]:
    """Return a function that reads a decision. Its proposal is what was recorded as seen; else the code's own, equal
    one.
    """

    def read(value: Json, seen: Json) -> Decision:
        proposal = card.proposal if seen is None else copy_plain(seen["proposal"])
        decision = Decision(
            action=value["action"],
            reason=value.get("reason"),
            edited=value.get("edited"),
            proposal=proposal,
            line_comments=read_lines(value),
        )
        if edited is not None and not isinstance(proposal, BaseModel):
            decision = decision.model_copy(update={"proposal": _as_edited(edited, proposal)})
        if decision.action != "edit" or edited is None:
            # An answer accepted before fields were bound to their action: what was approved is the proposal.
            return decision.model_copy(update={"edited": None})
        return decision.model_copy(update={"edited": edited.decode(decision.edited, "answer.edited")})

    return read


def _as_edited(edited: AnswerType, proposal: Any) -> Any:
    """Return the proposal as the type it may be edited to; unchanged if it is not of that type."""
    try:
        return edited.decode(to_display(proposal), "proposal")
    except WorkflowError:
        return proposal


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

    ``InvalidCall`` if the default answer after the deadline is not valid for the request, or if the answer's type has a
    pattern that cannot be checked.
    """
    try:
        refuse_unsupported(asking.schema)
    except UnsupportedPattern as error:
        raise InvalidCall(f"The answer to {asking.card.get('subject')!r} cannot be checked: {error}") from error
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
