"""Questions that other programs ask, as JSON, and the card and policy of each. ``workflows`` asks them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from checkpoints.limits import count_nodes
from checkpoints.records import Json, JsonObject
from wfdash.questions.card import AnswerType, Card
from wfdash.questions.cards import Approval, Form, Question, prepare
from wfdash.questions.choices import Choice, Option
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall
from wfdash.workflow.errors import InvalidCall

QUESTIONS = frozenset({"ask_people", "coding_agent"})
"""Workflows each of whose runs is a question of another program: they may be started less often than others."""
MOST_ASKED = 10_000
"""Values of a question with its card: a program's question is made and checked where others wait."""
Kind = Literal["approval", "choice", "question", "form"]
CARDS: dict[str, type[Card]] = {"approval": Approval, "choice": Choice, "question": Question, "form": Form}
SHARED = ("subject", "body", "proposal", "current", "evidence", "consequence", "risk", "undo", "context")
OWN: dict[str, tuple[str, ...]] = {
    "approval": ("edit", "require_reason", "labels"),
    "choice": ("options", "multiple", "at_least", "at_most"),
    "question": (),
    "form": (),
}
"""The fields that one kind of card has besides."""


class ProgramQuestion(BaseModel):
    """What a program asks: not more than can be checked while others wait."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_many(cls, given: Any) -> Any:
        if count_nodes(given, MOST_ASKED) > MOST_ASKED:
            raise ValueError(f"more than {MOST_ASKED:,} values: show a part of them, or give them as a file")
        return given


class PeopleQuestion(ProgramQuestion):
    """What to ask people. ``subject`` is enough: it is then to be approved or rejected."""

    subject: str = Field(min_length=1, title="Subject")
    """In one line, what is to be decided."""
    kind: Kind = "approval"
    body: str = ""
    """Markdown."""
    proposal: Any = None
    current: Any = None
    evidence: list[JsonObject] = []
    """``{kind, title, value}``."""
    consequence: dict[str, str] | str | None = None
    risk: Literal["low", "medium", "high"] | None = None
    undo: str | None = None
    context: JsonObject = {}
    edit: JsonObject | None = None
    """JSON Schema of the proposal, if it may be edited."""
    require_reason: bool = False
    labels: dict[str, str] = {}
    options: list[str | Option] | dict[str, str] = []
    multiple: bool = False
    at_least: int | None = None
    at_most: int | None = None
    answer: JsonObject | None = None
    """JSON Schema of the answer to a question or a form."""
    by: list[str] = []
    """Users or groups that may answer; empty: every reviewer."""
    not_by: list[str] = []
    due: str | None = None
    """``4h``, ``2d``; or a time with an offset: ``2026-05-01T12:00:00+02:00``."""
    policy: JsonObject = {}
    """What else a policy says: need, remind, escalate, on_timeout ..."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        others = {name for kind, own in OWN.items() if kind != self.kind for name in own}
        if wrong := sorted(others & self._given()):
            raise ValueError(f"{', '.join(wrong)}: not for kind {self.kind!r}")
        try:
            prepare(self.card(), self.answer)
        except InvalidCall as error:
            raise ValueError(str(error)) from error
        self.terms()
        return self

    def card(self) -> Any:
        """Return the card."""
        names = self._given() & {*SHARED, *OWN[self.kind]}
        return CARDS[self.kind](**{name: getattr(self, name) for name in names})

    def _given(self) -> set[str]:
        """Return the fields that say something: what is stored has all of them."""
        return {name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default}

    def terms(self) -> Policy:
        """Return the policy, with the deadline if it is a duration."""
        own = {"by": self.by, "not_by": self.not_by, "due": None if self.moment() else self.due}
        # The whole card is the program's: it could write what a rule answers.
        return Policy(**{**self.policy, **{name: value for name, value in own.items() if value}, "rules": False})

    def moment(self) -> datetime | None:
        """Return the deadline, if it is a time."""
        try:
            found = datetime.fromisoformat(self.due or "")
        except ValueError:
            return None
        if found.tzinfo is None:
            raise ValueError("due: a time needs an offset, as in 2026-05-01T12:00:00+02:00")
        return found


class PeopleAnswer(BaseModel):
    """What people answered. ``value`` as the request's answer schema has it; ``by``: None after a deadline."""

    model_config = ConfigDict(frozen=True)

    value: Any = None
    by: str | None = None
    at: datetime | None = None
    lapsed: bool = False
    """No person answered in time: this is the policy's default answer."""


def question_of(
    card: Card | str,
    answer: Any = None,
    *,
    by: str | Sequence[str] = (),
    not_by: str | Sequence[str] = (),
    due: str | datetime | None = None,
    policy: Policy | None = None,
) -> JsonObject:
    """Return a card as the JSON of a ``PeopleQuestion``. ``InvalidCall`` for one that no one could answer."""
    card = Question(subject=card) if isinstance(card, str) else card
    kind = next((name for name, of in CARDS.items() if isinstance(card, of)), None)
    if kind is None or isinstance(card, ToolCall):
        raise InvalidCall(f"ask() takes an Approval, Choice, Question, Form or text, not {type(card).__name__}")
    asking = prepare(card, answer)
    fields = {name: asking.card[name] for name in SHARED if name in asking.card}
    if card.evidence:
        # The size is for people; a piece is made from the rest.
        fields["evidence"] = [{n: part for n, part in one.shown().items() if n != "bytes"} for one in card.evidence]
    own = {name: getattr(card, name) for name in OWN[kind] if name in card.model_fields_set}
    return {
        "kind": kind,
        **fields,
        **{name: _plain(name, value) for name, value in own.items()},
        **({"answer": asking.schema} if kind in {"question", "form"} else {}),
        **{
            name: ([names] if isinstance(names, str) else list(names))
            for name, names in (("by", by), ("not_by", not_by))
            if names
        },
        **({"due": due if isinstance(due, str) else due.isoformat()} if due else {}),
        **({"policy": policy.stored()} if policy else {}),
    }


def _plain(name: str, value: Any) -> Json:
    """Return a field of one kind of card as JSON: a type as its schema."""
    if name == "edit" and value is not None:
        return AnswerType(value).schema()
    return (
        [(one.model_dump() if isinstance(one, Option) else one) for one in value] if isinstance(value, list) else value
    )
