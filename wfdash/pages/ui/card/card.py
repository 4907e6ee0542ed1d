"""The decision card: everything a person needs to decide, and the form they decide with. Pure but for types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wfdash.domain.invisible import visible
from wfdash.domain.line_comments import FIELD
from wfdash.domain.votes import EDITED
from wfdash.pages.ui.card.actions import ActionButton, PostedAnswer, actions_of, shared_schema
from wfdash.pages.ui.card.asked_again import CardChanges, asked_again
from wfdash.pages.ui.card.line_comments import LineNotes, pieces_of, placed, spots_of
from wfdash.pages.ui.card.parts import CardPart, context_part, evidence_parts, proposal_part
from wfdash.pages.ui.card.position import PathStep
from wfdash.pages.ui.forms import FormView
from wfdash.pages.ui.forms.kinds import mapping
from wfdash.questions.open_answers import DOUBTFUL, doubt_of, is_open

MANY = 4
MAX_LINE = 2000
MOST_SAID = 200
"""Characters of a consequence that the dock has room for."""
PARTS = {
    "proposal": "proposal",
    "evidence": "evidence",
    "consequence": "what happens next",
    "risk": "risk",
    "undo": "how to undo",
}


@dataclass(frozen=True, kw_only=True)
class Action:
    """A button, its fields, and whether they are open initially. ``key``: its one-letter shortcut."""

    choice: ActionButton
    form: FormView
    open: bool
    key: str

    @property
    def direct(self) -> bool:
        """Return whether one click decides."""
        return not self.choice.required


@dataclass(frozen=True, kw_only=True)
class Tool:
    """The tool to be called. ``flaws``: why its arguments are not valid."""

    name: str
    description: str = ""
    flaws: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckOption:
    """An option that can be selected beside others."""

    sent: str
    label: str
    description: str
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class CardView:
    """The context of ``components/card.html``. ``url`` empty: without a form."""

    subject: str
    body: str
    proposal: CardPart | None
    evidence: tuple[CardPart, ...]
    context: CardPart | None
    risk: str
    undo: str
    consequence: str
    missing: str
    actions: tuple[Action, ...]
    shared: FormView
    url: str
    problem: str = ""
    tool: Tool | None = None
    options: tuple[CheckOption, ...] = ()
    path: tuple[PathStep, ...] = ()
    again: CardChanges | None = None
    lines: LineNotes = field(default_factory=lambda: LineNotes(takes=False))
    doubtful: str = ""
    """The pattern of texts that have to be confirmed; empty if every text is taken."""
    doubt: str = ""
    """Why the text that was typed has to be."""
    as_text: bool = False

    @property
    def has_upload(self) -> bool:
        """Return whether the form must be sent as multipart/form-data."""
        return self.shared.has_upload or any(action.form.has_upload for action in self.actions)

    @property
    def many(self) -> bool:
        """Return whether there are too many actions to keep them visible while reading."""
        return len(self.actions) > MANY

    @property
    def compared(self) -> bool:
        """Return whether the card says what each action is and leads to, because the dock has no room for all of it."""
        long = any(len(action.choice.consequence) > MOST_SAID for action in self.actions)
        return not self.many and (long or self.described)

    @property
    def described(self) -> bool:
        """Return whether the author described what the options are."""
        return any(action.choice.description for action in self.actions)

    @property
    def outcomes(self) -> bool:
        """Return whether the author described the effect of any action."""
        return any(action.choice.consequence or action.choice.description for action in self.actions)


def build(
    card: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    url: str = "",
    initial: Any = None,
    reading: PostedAnswer | None = None,
    errors: Iterable[Mapping[str, Any]] = (),
    files: str = "",
    path: tuple[PathStep, ...] = (),
    before: Mapping[str, Any] | None = None,
    said: Iterable[tuple[str, Mapping[str, Any]]] = (),
    first: Collection[int] = (),
) -> CardView:
    """Return the card of a request. ``initial``: a suggested answer; ``reading``: what was typed, after a POST.

    ``errors``: errors of the action (``{loc, msg}``), shown at their fields instead of those of the reading. ``files``:
    the address of the evidence's bytes, without it they are part of the page; ``path``: the step's path. ``before``:
    the card that this one replaced, where something of it changed. ``said``: line comments of answers, by whom.
    ``first``: the pieces of evidence that are drawn, however much there is.
    """
    choices = actions_of(schema, card)
    problems = [dict(error) for error in errors] or (reading.errors if reading else [])
    shared = _shared(schema, card, choices, initial, reading, problems)
    first = {*first, *pieces_of(spot for spot, _ in reading.lines)} if reading else first
    parts = (proposal_part(card, schema), *evidence_parts(card, files, first))
    typed = reading.lines if reading else spots_of(parts, initial)
    takes = bool(url and choices) and FIELD in mapping(schema.get("properties"))
    (proposal, *evidence), lines = placed(parts, typed if takes else (), said, takes=takes)
    return CardView(
        subject=_line(card.get("subject")),
        body=str(card.get("body") or ""),
        proposal=proposal,
        evidence=tuple(part for part in evidence if part is not None),
        context=context_part(card),
        risk=_line(card.get("risk")),
        undo=_line(card.get("undo")),
        consequence=_line(card.get("consequence")) if isinstance(card.get("consequence"), str) else "",
        missing=_missing(card, choices),
        actions=_actions(choices, card, initial, reading, problems),
        shared=shared,
        url=url,
        problem=_problem(choices, reading, problems),
        tool=_tool(card),
        options=_options(card, shared),
        path=path,
        again=asked_again(card, before),
        lines=lines,
        doubtful=DOUBTFUL if is_open(schema.get("anyOf")) else "",
        doubt=doubt_of(schema, reading.value) if reading else "",
        as_text=bool(reading and reading.as_text),
    )


def _line(value: Any) -> str:
    """Return a text part with nothing invisible in it, cut to a readable length."""
    text = str(value or "")
    return visible(text[:MAX_LINE]) + ("…" if len(text) > MAX_LINE else "")


def _tool(card: Mapping[str, Any]) -> Tool | None:
    tool = card.get("tool")
    if not isinstance(tool, Mapping):
        return None
    flaws = tool.get("flaws")
    lines = tuple(_line(flaw) for flaw in flaws) if isinstance(flaws, list) else ()
    return Tool(name=_line(tool.get("name")), description=_line(tool.get("description")), flaws=lines)


def _options(card: Mapping[str, Any], shared: FormView) -> tuple[CheckOption, ...]:
    """Return the selectable options, with the author's description of each; empty where the form has them all."""
    listed = card.get("options")
    if not card.get("multiple") or not isinstance(listed, list) or len(shared.fields) != 1:
        return ()
    described = {str(one.get("name")): one for one in listed if isinstance(one, Mapping)}
    drawn = shared.fields[0].options
    if shared.fields[0].kind != "checks" or not any(_line(one.get("label")) for one in described.values()):
        return ()
    return tuple(
        CheckOption(
            sent=option.sent,
            label=_line(described.get(option.sent, {}).get("label")) or option.label,
            description=_line(described.get(option.sent, {}).get("description")),
            chosen=option.chosen,
        )
        for option in drawn
    )


def _shared(
    schema: Mapping[str, Any],
    card: Mapping[str, Any],
    choices: tuple[ActionButton, ...],
    initial: Any,
    reading: PostedAnswer | None,
    problems: list[dict[str, Any]],
) -> FormView:
    begin = card.get("current") if initial is None and not choices else initial
    common = shared_schema(schema, choices)
    if choices and isinstance(begin, Mapping):
        # Fields of a single action are not fields of all of them.
        begin = {name: value for name, value in begin.items() if name in mapping(common.get("properties"))}
    form: FormView = reading.shared if reading else FormView.from_schema(common, initial=begin)
    if not choices:
        return form.with_errors(problems)
    known = mapping(form.schema.get("properties"))
    return form.with_errors(error for error in problems if error["loc"] and error["loc"][0] in known)


def _keys(choices: tuple[ActionButton, ...]) -> list[str]:
    """Return a letter for each action: its first one that is free; c, g, j, k and u are the page's own."""
    taken = {"j", "k", "g", "c", "u"}
    keys = []
    for choice in choices:
        key = next(
            (char for char in choice.name.lower() if char.isascii() and char.isalnum() and char not in taken), ""
        )
        taken.add(key)
        keys.append(key)
    return keys


def _actions(choices: tuple[ActionButton, ...], *given: Any) -> tuple[Action, ...]:
    return tuple(_action(choice, key, *given) for choice, key in zip(choices, _keys(choices), strict=True))


def _action(
    choice: ActionButton,
    key: str,
    card: Mapping[str, Any],
    initial: Any,
    reading: PostedAnswer | None,
    problems: list[dict[str, Any]],
) -> Action:
    suggested = isinstance(initial, Mapping) and initial.get("action") == choice.name
    if reading and choice.name in reading.forms:
        form: FormView = reading.forms[choice.name]
        chosen = reading.action == choice.name
    else:
        form = FormView.from_schema(choice.schema, prefix=choice.prefix, initial=_start(choice, card, initial))
        chosen = suggested
    own = choice.schema["properties"]
    mine = [error for error in problems if error["loc"] and error["loc"][0] in own] if chosen else []
    return Action(choice=choice, form=form.with_errors(mine), open=chosen and choice.has_fields, key=key)


def _start(choice: ActionButton, card: Mapping[str, Any], initial: Any) -> dict[str, Any]:
    """Return the initial value of an action's fields: the suggestion, else the proposal where it is edited."""
    own = choice.schema["properties"]
    begin = {name: card.get("proposal") for name in EDITED if name in own}
    given = initial if isinstance(initial, Mapping) else {}
    return {name: value for name, value in {**begin, **given}.items() if name in own}


def _problem(choices: tuple[ActionButton, ...], reading: PostedAnswer | None, problems: list[dict[str, Any]]) -> str:
    """Return what is wrong with the answer as a whole, which belongs to no field."""
    if not choices:
        return ""
    placed = set(mapping(reading.shared.schema.get("properties"))) if reading else set()
    placed |= {
        name for choice in choices if reading and choice.name == reading.action for name in choice.schema["properties"]
    }
    return ". ".join(str(error["msg"]) for error in problems if not error["loc"] or error["loc"][0] not in placed)


def _missing(card: Mapping[str, Any], choices: tuple[ActionButton, ...]) -> str:
    """Return what the author did not provide, for decisions; a plain question needs none of it."""
    if not any(choice.name == "approve" for choice in choices):
        return ""
    words = [what for name, what in PARTS.items() if card.get(name) in (None, "", [], {})]
    if not words:
        return ""
    *some, last = words
    return f"The workflow does not state {', '.join(some)}{' or ' if some else ''}{last}."
