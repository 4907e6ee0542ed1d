"""The decision card: everything a person needs to decide, and the form they decide with. Pure but for types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wfdash.pages.card.actions import Choice, Reading, choices_of, shared_schema
from wfdash.pages.card.parts import Part, context_part, evidence_parts, proposal_part
from wfdash.pages.forms import Form

RISKS = ("low", "medium", "high")


@dataclass(frozen=True, kw_only=True)
class Action:
    """A button, its fields, and whether they are shown from the start. ``key``: its one-letter shortcut."""

    choice: Choice
    form: Form
    open: bool
    key: str

    @property
    def direct(self) -> bool:
        """Whether one click decides."""
        return not self.choice.required


@dataclass(frozen=True, kw_only=True)
class Card:
    """Ready for ``components/card.html``. ``url`` empty: shown without a way to answer."""

    subject: str
    body: str
    proposal: Part | None
    evidence: tuple[Part, ...]
    context: Part | None
    risk: str
    undo: str
    consequence: str
    missing: tuple[str, ...]
    actions: tuple[Action, ...]
    shared: Form
    url: str
    problem: str = ""

    @property
    def has_upload(self) -> bool:
        """Whether the form must be sent as multipart/form-data."""
        return self.shared.has_upload or any(action.form.has_upload for action in self.actions)

    @property
    def consequences(self) -> tuple[Choice, ...]:
        """The actions whose outcome the author described."""
        return tuple(action.choice for action in self.actions if action.choice.consequence)


def build(
    card: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    url: str = "",
    initial: Any = None,
    reading: Reading | None = None,
    errors: Iterable[Mapping[str, Any]] = (),
) -> Card:
    """Return the card of a request. ``initial``: a suggested answer; ``reading``: what was typed, after a POST.

    ``errors``: refusals of the desk (``{loc, msg}``), shown at their fields instead of those of the reading.
    """
    choices = choices_of(schema, card)
    told = [dict(error) for error in errors] or (reading.errors if reading else [])
    risk, consequence = str(card.get("risk") or ""), card.get("consequence")
    return Card(
        subject=str(card.get("subject") or ""),
        body=str(card.get("body") or ""),
        proposal=proposal_part(card),
        evidence=evidence_parts(card),
        context=context_part(card),
        risk=risk,
        undo=str(card.get("undo") or ""),
        consequence=consequence if isinstance(consequence, str) else "",
        missing=_missing(card, choices),
        actions=tuple(
            _action(choice, key, card, initial, reading, told)
            for choice, key in zip(choices, _keys(choices), strict=True)
        ),
        shared=_shared(schema, card, choices, initial, reading, told),
        url=url,
        problem=_problem(choices, reading, told),
    )


def _shared(
    schema: Mapping[str, Any],
    card: Mapping[str, Any],
    choices: tuple[Choice, ...],
    initial: Any,
    reading: Reading | None,
    told: list[dict[str, Any]],
) -> Form:
    begin = card.get("current") if initial is None and not choices else initial
    form: Form = reading.shared if reading else Form.from_schema(shared_schema(schema, card), initial=begin)
    if not choices:
        return form.with_errors(told)
    known = form.schema.get("properties", {})
    return form.with_errors(error for error in told if error["loc"] and error["loc"][0] in known)


def _keys(choices: tuple[Choice, ...]) -> list[str]:
    """Return a letter for each action: its first one that is free, j, k and g being the list's own."""
    taken = {"j", "k", "g"}
    keys = []
    for choice in choices:
        key = next(
            (char for char in choice.name.lower() if char.isascii() and char.isalnum() and char not in taken), ""
        )
        taken.add(key)
        keys.append(key)
    return keys


def _action(
    choice: Choice,
    key: str,
    card: Mapping[str, Any],
    initial: Any,
    reading: Reading | None,
    told: list[dict[str, Any]],
) -> Action:
    suggested = isinstance(initial, Mapping) and initial.get("action") == choice.name
    if reading and choice.name in reading.forms:
        form: Form = reading.forms[choice.name]
        chosen = reading.action == choice.name
    else:
        form = Form.from_schema(choice.schema, prefix=choice.prefix, initial=_start(choice, card, initial))
        chosen = suggested
    own = choice.schema["properties"]
    mine = [error for error in told if error["loc"] and error["loc"][0] in own] if chosen else []
    return Action(choice=choice, form=form.with_errors(mine), open=chosen and choice.has_fields, key=key)


def _start(choice: Choice, card: Mapping[str, Any], initial: Any) -> dict[str, Any]:
    """Return what the fields of an action begin with: the suggestion, else the proposal where it is edited."""
    begin = {} if "edited" not in choice.schema["properties"] else {"edited": card.get("proposal")}
    given = initial if isinstance(initial, Mapping) else {}
    return {name: value for name, value in {**begin, **given}.items() if name in choice.schema["properties"]}


def _problem(choices: tuple[Choice, ...], reading: Reading | None, told: list[dict[str, Any]]) -> str:
    """Return what is wrong with the answer as a whole: it has no field to stand at."""
    if not choices:
        return ""
    placed = set(reading.shared.schema.get("properties", {})) if reading else set()
    placed |= {
        name for choice in choices if reading and choice.name == reading.action for name in choice.schema["properties"]
    }
    return ". ".join(str(error["msg"]) for error in told if not error["loc"] or error["loc"][0] not in placed)


def _missing(card: Mapping[str, Any], choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Return what the author did not provide, for decisions; a plain question needs none of it."""
    if not any(choice.name == "approve" for choice in choices):
        return ()
    parts = {
        "proposal": "the proposal",
        "evidence": "evidence",
        "consequence": "what happens next",
        "risk": "risk",
        "undo": "a way back",
    }
    return tuple(words for name, words in parts.items() if card.get(name) in (None, "", [], {}))
