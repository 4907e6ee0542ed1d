"""Choice among options: one button each, or several to select."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from checkpoints.records import Json
from wfdash.questions.card import AnswerType, Asking, Card, Style, action, action_field, decision_schema, shown


class Option(BaseModel):
    """One option. ``description``: what speaks for it, or what happens then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    label: str = ""
    description: str = ""
    style: Style = "quiet"


class Choice(Card):
    """Choose one of ``options``; with ``multiple`` several of them. Answer: the name, or the list of names."""

    options: list[str | Option] | dict[str, str]
    """Names, ``Option``s, or name -> label."""
    multiple: bool = False
    at_least: int | None = Field(default=None, ge=0)
    """How many must be selected, by default one."""
    at_most: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_options(self) -> Choice:
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


def listed(card: Choice) -> list[Option]:
    """Return the options of a choice."""
    if isinstance(card.options, dict):
        return [Option(name=name, label=label) for name, label in card.options.items()]
    return [option if isinstance(option, Option) else Option(name=option, label=option) for option in card.options]


def ask_choice(card: Choice, answer: Any) -> Asking:
    """Return the question of a choice."""
    return _ask_several(card, answer) if card.multiple else _ask_one(card, answer)


def _ask_one(card: Choice, answer: Any) -> Asking:
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


def _ask_several(card: Choice, answer: Any) -> Asking:
    options, wanted = listed(card), AnswerType(list[str] if answer is None else answer)
    schema: dict[str, Json] = {
        "type": "array",
        "title": "Choice",
        "items": {"type": "string", "enum": [option.name for option in options]},
        "uniqueItems": True,
        "minItems": 1 if card.at_least is None else card.at_least,
        "maxItems": len(options) if card.at_most is None else card.at_most,
    }
    face = {**shown(card), "multiple": True, "options": [_option_text(option) for option in options]}
    return Asking("choice", face, schema, lambda value, _seen: wanted.decode(value))


def _option_text(option: Option) -> dict[str, Json]:
    return {"name": option.name, "label": option.label or option.name, "description": option.description}
