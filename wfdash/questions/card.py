"""The shared parts of all cards: actions, the answer's schema, how the answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from checkpoints.limits import MOST_NODES, count_nodes
from checkpoints.records import Json, JsonObject
from wfdash.domain import json_patch
from wfdash.domain.labels import visible
from wfdash.questions.evidence import Evidence
from wfdash.values.codec import UNSTORABLE, codec_for, copy_plain, unstorable_in
from wfdash.values.display import to_display
from wfdash.values.errors import InvalidCall
from wfdash.values.schemas.secrets import HIDDEN
from wfdash.values.schemas.validate import ONLY_WITH, flaw_of
from wfdash.values.schemas.work import TooMuchWork, refuse_heavy

# The headline of a question that a framework asks: the field of its value that says it, or what it is about. Pure.

HEADLINES = ("question", "title", "subject", "message", "prompt", "instruction", "task", "query", "headline")
"""The fields of a value, best first, whose text may be the question."""
KINDS = ("type", "action")
"""Fields that say what kind of a question it is, not which."""
SHORT = 60
"""Characters of a value that a headline shows."""


def headline_field(fields: Mapping[str, Json], fits: Callable[[Json], bool]) -> str:
    """Return the field of a card's headline: ``question``, else the first that ends as a question, else the first.

    What is about to be done may have a ``subject`` or a ``title`` of its own: that of a mail, say. Empty if no field
    ``fits``.
    """
    known = [name for name in HEADLINES if fits(fields.get(name))]
    asking = [name for name in known if name == HEADLINES[0] or str(fields[name]).rstrip().endswith(("?", "？"))]
    return next(iter([*asking, *known]), "")


def headline_about(title: str, value: Json, secrets: Collection[str] = ()) -> str:
    """Return a headline that tells the questions of one step apart: ``Human node: original text``.

    That is its title and the first plain value of what it is about; ``secrets`` names fields that are left out.
    """
    fields = [part for name, part in value.items() if name not in {*KINDS, *secrets}] if isinstance(value, dict) else []
    parts = value if isinstance(value, list) else fields or [value]
    lines = (one_line(str(part)) for part in parts if type(part) in (str, int, float) and part != HIDDEN)
    found = next(filter(None, lines), "")
    return f"{title}: {found}" if found else f"{title} asks"


def one_line(text: str, most: int = SHORT) -> str:
    """Return a text without line ends, cut to what a headline has room for."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


Style = Literal["primary", "danger", "quiet"]
MOST_PIECES = 100
"""Pieces of evidence of a card."""
MAX_CARD = 8_000_000
"""Characters of a card as JSON, its images and files included."""


class Card(BaseModel):
    """The base of all cards. Include everything that helps to decide: what is missing is shown as missing."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_misspelt(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            near = get_close_matches(str(name), cls.model_fields, 1)
            if name not in cls.model_fields and near:
                raise ValueError(f"{cls.__name__} has no {name}=: did you mean {near[0]}=?")
        return given

    subject: str
    body: str = ""
    """Markdown."""
    proposal: Any = None
    """The value to decide on, of any type."""
    current: Any = None
    """The current value: the card then shows the difference."""
    evidence: list[Evidence] = Field(default_factory=list, max_length=MOST_PIECES)
    """At most 100: ``Text``, ``Markdown``, ``Code``, ``Table``, ``JsonValue``, ``Transcript``, ``Image``, ``Pdf``,
    ``File``, ``Link``, ``Diff``.
    """
    consequence: dict[str, str] | str | None = None
    """Action -> what happens."""
    risk: Literal["low", "medium", "high"] | None = None
    undo: str | None = None
    """How to undo the decision."""
    context: JsonObject = Field(default_factory=dict)
    """Names and values that give context."""

    def __class_getitem__(cls, _types: Any) -> type[Self]:
        """Return the class itself: what stands in brackets is for checkers and editors."""
        return cls


@dataclass(frozen=True, slots=True)
class Asking:
    """A card ready to be asked: its kind, what is shown, the answer's schema, and how the answer is read.

    ``read`` takes the answer and what was recorded as ``seen`` when it was asked. ``types``: the answer's own type
    under an empty key, that of one of its fields under the field's name.
    """

    kind: str
    card: JsonObject
    schema: JsonObject
    read: Callable[[Json, Json], Any]
    types: dict[str, Any] = field(default_factory=dict)
    seen: Json = None
    form: Json = None
    """The part of the answer's schema that must stay the same when the step runs again; all of it by default."""
    same: tuple[str, ...] | None = None
    """The parts of the card that must stay the same by default; None: the whole card."""


class Given(BaseModel):
    """What every decision knows of the answer it was read from."""

    model_config = ConfigDict(frozen=True)

    by: str | None = Field(default=None, exclude=True)
    """User name of the person who decided; None outside of the dashboard, and after a deadline."""
    at: datetime | None = Field(default=None, exclude=True)
    """When they did."""
    lapsed: bool = Field(default=False, exclude=True)
    """No person answered in time: this is the policy's default answer."""

    def __class_getitem__(cls, _types: Any) -> type[Self]:
        """Return the class itself: what stands in brackets is for checkers and editors."""
        return cls

    # A stored decision is the answer only: its circumstances belong to the step that asked.

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Given) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    def __bool__(self) -> NoReturn:
        """Raise ``TypeError``: a rejection must not count as true because it is there."""
        name = type(self).__name__
        raise TypeError(
            f"The truth of a {name} is not whether it was approved: say decision.approved, "
            "or decision is not None where there may be none"
        )


class LineComment(BaseModel):
    """A comment on a line of a difference, or on those from ``start_line`` to ``line``. ``side``: of which version."""

    model_config = ConfigDict(frozen=True)

    file: str
    line: int
    start_line: int | None = None
    side: Literal["new", "old"] = "new"
    text: str


def read_lines(value: Mapping[str, Any]) -> tuple[LineComment, ...]:
    """Return the line comments of an answer."""
    return tuple(LineComment.model_validate(one) for one in json_patch.comments_in(value))


class AnswerType:
    """The type of an answer: a type, or a JSON Schema as a dict (then the answer is plain JSON)."""

    def __init__(self, kind: Any) -> None:
        self._codec = None if isinstance(kind, dict) else codec_for(kind)
        self._schema: JsonObject = kind if isinstance(kind, dict) else {}
        self.types = {} if self._codec is None else {"": kind}
        if self._codec is None:
            try:
                refuse_heavy(self._schema)
            except TooMuchWork as error:
                raise InvalidCall(f"answer= is a JSON Schema that takes too long to check: {error}") from error
            if flaw := flaw_of(self._schema):
                raise InvalidCall(f"answer= is no JSON Schema: {flaw}")
        elif unstorable := unstorable_in(self._codec):
            raise InvalidCall(f"ctx.ask: an answer of type {unstorable} {UNSTORABLE}")

    def schema(self) -> JsonObject:
        """Return its JSON Schema, a copy."""
        copy: JsonObject = copy_plain(self._schema) if self._codec is None else self._codec.schema()
        return copy

    def decode(self, value: Json, path: str = "answer") -> Any:
        """Return the answer as this type; ``WrongType`` if it is not valid."""
        return copy_plain(value) if self._codec is None else self._codec.decode(value, path)


def typed(kind: str, face: JsonObject, answer: Any) -> Asking:
    """Return a question whose whole answer has one type."""
    wanted = AnswerType(answer)
    return Asking(kind, face, wanted.schema(), lambda value, _seen: wanted.decode(value), wanted.types)


def shown(card: Card) -> JsonObject:
    """Return what people see, as JSON; missing parts are left out."""
    given = {name: getattr(card, name) for name in Card.model_fields if name != "evidence"}
    fields: JsonObject = {
        name: to_display(value)
        for name, value in given.items()
        if not (value is None or (isinstance(value, (str, list, dict)) and not value))
    }
    return fields | ({"evidence": [piece.shown() for piece in card.evidence]} if card.evidence else {})


def action(name: str, style: Style, fields: list[str], required: list[str], label: str = "") -> JsonObject:
    """Return the description of a card's button."""
    return {
        "name": name,
        "label": label or name.capitalize(),
        "style": style,
        "fields": fields,
        "required": required,
    }


def action_field(names: list[str]) -> JsonObject:
    """Return the schema of the field that says which action was taken."""
    return {"title": "Action", "enum": list(names), "type": "string"}


def words_field(title: str) -> JsonObject:
    """Return the schema of optional words."""
    return {"title": title, "anyOf": [{"type": "string"}, {"type": "null"}], "default": None}


def when_action(name: str, then: Json) -> Json:
    """Return a rule for one action only."""
    return {"if": {"properties": {"action": {"const": name}}, "required": ["action"]}, "then": then}


def must_say(name: str, words: str) -> Json:
    """Return the rule that an action requires text in a field."""
    return when_action(name, {"properties": {words: {"type": "string", "minLength": 1}}, "required": [words]})


def only_with(name: str, field: str) -> Json:
    """Return the rule that a field stays empty unless the action it belongs to is chosen."""
    others: Json = {"properties": {"action": {"not": {"const": name}}}, "required": ["action"]}
    return {"if": others, "then": {"properties": {field: {"type": "null", ONLY_WITH: name}}}}


def decision_schema(
    title: str, properties: JsonObject, rules: list[Json], shared: JsonObject | None = None
) -> JsonObject:
    """Return the schema of an answer that names an action and brings the fields of that action."""
    schema: JsonObject = {
        "type": "object",
        "title": title,
        "properties": properties,
        "required": ["action"],
        "additionalProperties": False,
    }
    return schema | ({"$defs": shared} if shared else {}) | ({"allOf": rules} if rules else {})


def checked(asking: Asking) -> Asking:
    """Return the question, no character of its subject invisible: events, audit and mails quote it. ``InvalidCall`` if
    it refers to unknown actions, or is too large to be shown.
    """
    subject, consequence = asking.card.get("subject"), asking.card.get("consequence")
    if not str(subject or "").strip():
        raise InvalidCall(f"{asking.kind} without a subject: say in one line what is to be decided")
    names = [one["name"] for one in asking.card.get("actions", ())]
    unknown = sorted(set(consequence) - set(names)) if names and isinstance(consequence, dict) else []
    if unknown:
        raise InvalidCall(f"{subject!r}: consequence of {', '.join(unknown)}, but its actions are {', '.join(names)}")
    if count_nodes(asking.card, MOST_NODES) > MOST_NODES:
        raise InvalidCall(
            f"{subject!r}: the card holds more than {MOST_NODES:,} values: show a part, or give them as a File"
        )
    size = len(json.dumps(asking.card))
    if size > MAX_CARD:
        raise InvalidCall(
            f"{subject!r}: the card is {size / 1e6:.1f} MB, at most {MAX_CARD / 1e6:.0f} MB fit: link to what is large"
        )
    return replace(asking, card={**asking.card, "subject": visible(str(subject))})


def check_labels(given: Mapping[str, Any], names: list[str], what: str) -> None:
    """Raise ``InvalidCall`` if something is said about an unknown action."""
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidCall(f"{what} of {', '.join(unknown)}, but the actions are {', '.join(names)}")
