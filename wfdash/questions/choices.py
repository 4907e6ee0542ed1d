"""Choice among options: one button each, or several to select."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypeVar

from checkpoints.records import SIGNAL, Json, JsonObject
from wfdash.questions.card import AnswerType, Asking, Card, Style, action, action_field, decision_schema, shown, typed
from wfdash.questions.policy import Duration
from wfdash.values.errors import InvalidCall

# The request of a step that receives a signal: it waits for a message to the run, not for people.

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
SOON = timedelta(milliseconds=1)
RULE = "1 to 100 letters, digits, dots, dashes and underscores"


def is_name(name: object) -> bool:
    """Return whether this is a valid name of a signal."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def waiting_for(name: str, kind: Any) -> Asking:
    """Return the request of a step that receives this signal. ``InvalidCall`` for an invalid name."""
    if not is_name(name):
        raise InvalidCall(f"ctx.receive needs a name of {RULE}, not {name!r}")
    face: JsonObject = {"subject": f"Waits for the signal {name!r}", "context": {"signal": name}}
    return typed(SIGNAL, face, Any if kind is None else kind)


def fails_after(due: datetime | Duration | None, now: datetime) -> JsonObject:
    """Return the policy of a wait that fails when it is due; empty without a deadline."""
    if isinstance(due, datetime):
        if due.tzinfo is None:
            raise InvalidCall("ctx.receive(due=...) needs an aware datetime")
        due = max(due - now, SOON)
    return {"due": due, "on_timeout": "fail"} if due else {}


def key_prefix(name: str) -> str:
    """Return the prefix of the keys of requests that wait for this signal."""
    return f"{SIGNAL}:{name}:"


def name_in(key: str) -> str:
    """Return the name of the signal that a request with this key waits for."""
    return key.split(":", 2)[1] if key.startswith(f"{SIGNAL}:") else ""


# The answer to a question whose author does not say what it takes: yes or no, a text, or any JSON. Pure.

MOST_OPTIONS = 20
LONGEST_OPTION = 80
"""Characters of an option: a longer text is something to read."""
LONGEST_TEXT = 20_000
"""Characters of a text that is offered to be changed: it is stored with the question a second time."""
ANYTHING: JsonObject = {"title": "JSON"}
YES = ("yes", "approve", "approved", "accept", "accepted", "confirm", "confirmed")
NO = ("no", "not", "nope", "never", "reject", "rejected", "deny", "denied", "decline", "declined", "refuse", "refused")
YES_ALONE = ("y", "true", "ok", "okay", "sure", "agree", "agreed", "allow", "allowed", "go", "proceed", "continue")
NO_ALONE = ("n", "false", "disagree", "cancel", "stop", "abort", "ignore", "don't", "do not")
_AS_NO = rf"\W*(?:(?:{'|'.join(NO)})(?![\w'’-]).*|(?:{'|'.join(NO_ALONE)})\W*)"
_AS_YES = rf"\W*(?:(?:{'|'.join(YES)})(?![\w'’-]).*|(?:{'|'.join(YES_ALONE)})\W*)"
DOUBTFUL = rf"^(?:{_AS_NO}|{_AS_YES})$"
"""Of texts that read like yes or no; the same for Python and JavaScript, with their flags ``is``."""


def open_answer(options: Sequence[Json] = (), *, text: str = "") -> JsonObject:
    """Return the schema of an answer that may be anything.

    ``options``: those to choose from, beside anything else. ``text``: what an answer in words begins as.
    """
    words: JsonObject = {"type": "string", "title": "Text", "format": "textarea"}
    kinds: list[Json] = [
        {"type": "boolean", "enum": [True, False], "title": "Yes or no"},
        {**words, "default": text} if text else words,
        ANYTHING,
    ]
    chosen: list[Json] = [{"enum": list(options), "title": "Choice"}] if options else []
    return {"title": "Answer", "anyOf": [*chosen, *kinds]}


def is_open(branches: Any) -> bool:
    """Return whether one of a schema's alternatives is any JSON, so that nothing says what an answer means."""
    return isinstance(branches, list | tuple) and ANYTHING in branches


def doubt_of(schema: Mapping[str, Any], value: Json) -> str:
    """Return why a text is not taken as the answer to such a question before it is confirmed; empty if it is.

    What the question itself offers is taken.
    """
    branches: Any = schema.get("anyOf")
    if not isinstance(value, str) or not is_open(branches):
        return ""
    offered = [one.get("enum") for one in branches if isinstance(one, dict)]
    if any(value in values for values in offered if isinstance(values, list | tuple)):
        return ""
    flags = re.IGNORECASE | re.DOTALL
    if re.fullmatch(_AS_NO, value, flags):
        word, instead = "no", "No (false)"
    elif re.fullmatch(_AS_YES, value, flags):
        word, instead = "yes", "Yes (true)"
    else:
        return ""
    return f"This text reads like a {word}, but the workflow may take any text for a yes. Answer {instead} instead"


def options_in(value: Any) -> list[Json]:
    """Return what a list offers to choose from; nothing unless it is some short, different texts or whole numbers."""
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_OPTIONS:
        return []
    plain = all(type(one) is int or (isinstance(one, str) and 0 < len(one.strip()) <= LONGEST_OPTION) for one in value)
    return list(value) if plain and len(set(value)) == len(value) else []


def text_in(proposal: Json, secrets: Collection[str] = ()) -> str:
    """Return the one text of several words that a proposal has, which people may want to change; empty if it has none
    or several, or if its field is a secret.
    """
    given = proposal if isinstance(proposal, dict) else {}
    texts = [(name, one) for name, one in given.items() if isinstance(one, str) and len(one.split()) > 1]
    if len(texts) != 1 or texts[0][0] in secrets or len(texts[0][1]) > LONGEST_TEXT:
        return ""
    return texts[0][1]


class Option(BaseModel):
    """One option. ``description``: what speaks for it, or what happens then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    label: str = ""
    description: str = ""
    style: Style = "quiet"


Several = TypeVar("Several", bound=bool, default=Literal[False])


class Choice(Card, Generic[Several]):
    """Choose one of ``options``; with ``multiple`` several of them. Answer: the name, or the list of names."""

    options: list[str | Option] | dict[str, str]
    """Names, ``Option``s, or name -> label."""
    if TYPE_CHECKING:
        multiple: Several = cast(Several, False)
    else:
        multiple: bool = False
    at_least: int | None = Field(default=None, ge=0)
    """How many must be selected, by default one."""
    at_most: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        names = [option.name for option in listed(self)]
        if not names or len(set(names)) < len(names):
            raise ValueError("options need at least one name, each of them once")
        if not self.multiple and (self.at_least, self.at_most) != (None, None):
            raise ValueError("at_least= and at_most= need multiple=True")
        if (self.at_least or 0) > min(self.at_most or len(names), len(names)):
            raise ValueError(
                f"at_least={self.at_least} cannot be met by at_most={self.at_most} of {len(names)} options"
            )
        return self


def listed(card: Choice[Any]) -> list[Option]:
    """Return the options of a choice."""
    if isinstance(card.options, dict):
        return [Option(name=name, label=label) for name, label in card.options.items()]
    return [option if isinstance(option, Option) else Option(name=option, label=option) for option in card.options]


def ask_choice(card: Choice[Any], answer: Any) -> Asking:
    """Return the question of a choice."""
    return _ask_several(card, answer) if card.multiple else _ask_one(card, answer)


def _ask_one(card: Choice[Any], answer: Any) -> Asking:
    options, wanted = listed(card), AnswerType(Any if answer is None else answer)
    actions = [
        action(option.name, option.style, [], [], option.label or option.name)
        | ({"description": option.description} if option.description else {})
        for option in options
    ]
    schema = decision_schema("Choice", {"action": action_field([option.name for option in options])}, [])
    return Asking(
        "choice", {**shown(card), "actions": actions}, schema, lambda value, _seen: wanted.decode(value["action"])
    )


def _ask_several(card: Choice[Any], answer: Any) -> Asking:
    options, wanted = listed(card), AnswerType(list[str] if answer is None else answer)
    schema: JsonObject = {
        "type": "array",
        "title": "Choice",
        "items": {"type": "string", "enum": [option.name for option in options]},
        "uniqueItems": True,
        "minItems": 1 if card.at_least is None else card.at_least,
        "maxItems": len(options) if card.at_most is None else card.at_most,
    }
    face = {
        **shown(card),
        "multiple": True,
        "options": [
            {"name": option.name, "label": option.label or option.name, "description": option.description}
            for option in options
        ],
    }
    return Asking("choice", face, schema, lambda value, _seen: wanted.decode(value))
