"""The decision card: everything a person needs to decide, and the form they decide with. Pure but for types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from django.http import QueryDict

from checkpoints.records import Pairs, frozen
from wfdash.contract import Description, EdgeInfo, StepInfo
from wfdash.domain.json_patch import FIELD
from wfdash.domain.labels import humanize, in_words, visible
from wfdash.domain.votes import EDITED
from wfdash.questions.choices import DOUBTFUL, doubt_of, is_open
from wfdash.values.fingerprints import note_of
from wfdash.values.schemas.validate import problems_of
from wfdash.web.pages.ui.diff.lines import ValueChange, diff_values
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.forms.form import BUTTONS, BoundForm, FormView, on_one_page
from wfdash.web.pages.ui.forms.spec import Schemas, mapping, part
from wfdash.web.pages.ui.graph import Transition, travelled
from wfdash.web.pages.ui.line_comments import LineNotes, pieces_of, placed, read_lines, spots_of
from wfdash.web.pages.ui.parts import CardPart, cell, context_part, evidence_parts, proposal_part

MANY_ACTIONS = 4
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


@frozen
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


@frozen
class Tool:
    """The tool to be called. ``flaws``: why its arguments are not valid."""

    name: str
    description: str = ""
    flaws: tuple[str, ...] = ()


@frozen
class CheckOption:
    """An option that can be selected beside others."""

    sent: str
    label: str
    description: str
    chosen: bool


@frozen
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
        return len(self.actions) > MANY_ACTIONS

    @property
    def compared(self) -> bool:
        """Return whether the card says what each action is and leads to, because the dock has no room for all of it."""
        long = any(len(action.choice.consequence) > MOST_SAID for action in self.actions)
        return not self.many and (long or self.described)

    @property
    def described(self) -> bool:
        """Return whether the author described what the options are."""
        return any(action.choice.description for action in self.actions)

    @cached_property
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
    page: str = "",
    path: tuple[PathStep, ...] = (),
    before: Mapping[str, Any] | None = None,
    said: Iterable[tuple[str, Mapping[str, Any]]] = (),
    first: Collection[int] = (),
    choices: tuple[ActionButton, ...] | None = None,
) -> CardView:
    """Return the card of a request. ``initial``: a suggested answer; ``reading``: what was typed, after a POST.

    ``page``: the request's address, evidence is below it. ``path``: the step's. ``before``: the card that this one
    replaced. ``said``: line comments, by whom. ``first``: evidence drawn at any cost. ``choices``: its known actions.
    """
    choices = actions_of(schema, card) if choices is None else choices
    shared, actions = _forms(schema, card, choices, initial, reading, url=url)
    typed = reading.lines if reading else ()
    parts = (proposal_part(card, schema), *evidence_parts(card, page, {*first, *pieces_of(spot for spot, _ in typed)}))
    takes = bool(url and choices) and FIELD in mapping(schema.get("properties"))
    if takes and reading is None:
        typed = spots_of(parts, initial)
    (proposal, *evidence), lines = placed(parts, typed if takes else (), said, takes=takes)
    return CardView(
        subject=_line(card.get("subject")),
        body=str(card.get("body") or ""),
        proposal=proposal,
        evidence=tuple(filter(None, evidence)),
        context=context_part(card),
        risk=_line(card.get("risk")),
        undo=_line(card.get("undo")),
        consequence=_line(wanted) if isinstance(wanted := card.get("consequence"), str) else "",
        missing=_missing(card, choices),
        actions=actions,
        shared=shared,
        url=url,
        problem=_problem(choices, reading),
        tool=_tool(card),
        options=_options(card, shared),
        path=path,
        again=asked_again(card, before),
        lines=lines,
        doubtful=DOUBTFUL if is_open(schema.get("anyOf")) else "",
        doubt=doubt_of(schema, reading.value) if reading else "",
        as_text=bool(reading and reading.as_text),
    )


def _forms(
    schema: Mapping[str, Any], card: Mapping[str, Any], choices: tuple[ActionButton, ...], *given: Any, url: str
) -> tuple[FormView, tuple[Action, ...]]:
    """Return the form of all actions, and each action; those of a page with a ``url`` are bounded together."""
    shared = _shared(schema, card, choices, *given)
    actions = tuple(_action(choice, key, card, *given) for choice, key in zip(choices, _keys(choices), strict=True))
    if not url:
        return shared, actions
    shared, *own = on_one_page([shared, *(action.form for action in actions)])
    return shared, tuple(replace(action, form=form) for action, form in zip(actions, own, strict=True))


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
) -> FormView:
    begin = card.get("current") if initial is None and not choices else initial
    common = shared_schema(schema, choices)
    if choices and isinstance(begin, Mapping):
        # Fields of a single action are not fields of all of them.
        begin = {name: value for name, value in begin.items() if name in mapping(common.get("properties"))}
    if reading is None:
        return FormView.from_schema(common, initial=begin)
    form, problems = reading.shared, reading.errors
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


def _action(
    choice: ActionButton,
    key: str,
    card: Mapping[str, Any],
    initial: Any,
    reading: PostedAnswer | None,
) -> Action:
    suggested = isinstance(initial, Mapping) and initial.get("action") == choice.name
    if reading and choice.name in reading.forms:
        form: FormView = reading.forms[choice.name]
        chosen = reading.action == choice.name
    else:
        form = FormView.from_schema(choice.schema, prefix=choice.prefix, initial=_start(choice, card, initial))
        chosen = suggested
    own = choice.schema["properties"]
    problems = reading.errors if reading and chosen else []
    mine = [error for error in problems if error["loc"] and error["loc"][0] in own]
    return Action(choice=choice, form=form.with_errors(mine), open=chosen and choice.has_fields, key=key)


def _start(choice: ActionButton, card: Mapping[str, Any], initial: Any) -> dict[str, Any]:
    """Return the initial value of an action's fields: the suggestion, else the proposal where it is edited."""
    own = choice.schema["properties"]
    begin = {name: card.get("proposal") for name in EDITED if name in own}
    given = initial if isinstance(initial, Mapping) else {}
    return {name: value for name, value in {**begin, **given}.items() if name in own}


def _problem(choices: tuple[ActionButton, ...], reading: PostedAnswer | None) -> str:
    """Return what is wrong with the answer as a whole, which belongs to no field."""
    if reading is None or not choices:
        return ""
    placed = set(mapping(reading.shared.schema.get("properties")))
    placed |= {name for choice in choices if choice.name == reading.action for name in choice.schema["properties"]}
    return ". ".join(str(error["msg"]) for error in reading.errors if not error["loc"] or error["loc"][0] not in placed)


def _missing(card: Mapping[str, Any], choices: tuple[ActionButton, ...]) -> str:
    """Return what the author did not provide, for decisions; a plain question needs none of it."""
    if not any(choice.name == "approve" for choice in choices):
        return ""
    words = [what for name, what in PARTS.items() if card.get(name) in (None, "", [], {})]
    return f"The workflow does not state {in_words(words, 'or')}." if words else ""


# The actions of a card: which fields belong to each, and which one a POST chose. Pure but for types.

ACTION = "_action"
AS_TEXT = "_as_text"
WORDY = frozenset({"response", "reason", "comment", "note", "notes", "message", "feedback", "explanation"})
STYLES = {"approve": "primary", "reject": "danger"}


@frozen
class ActionButton:
    """A button of the card with the schema of its own fields."""

    name: str
    label: str
    style: str
    schema: dict[str, Any]
    required: bool
    consequence: str = ""
    description: str = ""

    @property
    def prefix(self) -> str:
        """Return the prefix of its fields' names."""
        return f"{part(self.name)}:"

    @property
    def has_fields(self) -> bool:
        """Return whether there is something to fill in."""
        return bool(self.schema["properties"])


class PostedAnswer(NamedTuple):
    """A POST's answer. ``editing``: a row button was pressed, render the card again. ``forms``: by action, as typed."""

    value: Any
    errors: list[dict[str, Any]]
    action: str
    editing: bool
    forms: dict[str, BoundForm]
    shared: BoundForm
    choices: tuple[ActionButton, ...]
    lines: Pairs = ()
    """Comments on lines as they were typed: spot and text; one that was just begun is empty."""
    as_text: bool = False
    """It was confirmed that a text which reads like yes or no is meant as text."""


def actions_of(schema: Mapping[str, Any], card: Mapping[str, Any]) -> tuple[ActionButton, ...]:
    """Return the card's actions; where it names none, the options of the schema's ``action`` field, or nothing."""
    given = card.get("actions")
    listed = [action for action in given if isinstance(action, Mapping)] if isinstance(given, list) else []
    schemas, known = Schemas(schema), mapping(schema.get("properties"))
    node = schemas.resolve(known.get("action", {}))
    named = node.get("enum") if isinstance(node, Mapping) else None
    actions = listed or [{"name": name, "fields": []} for name in named or () if isinstance(name, str)]
    return tuple([_choice(schemas, known, card, action) for action in actions if action.get("name")])


def _choice(
    schemas: Schemas, known: Mapping[str, Any], card: Mapping[str, Any], action: Mapping[str, Any]
) -> ActionButton:
    name = str(action["name"])
    fields = [str(field) for field in action.get("fields") or ()]
    required = [str(field) for field in action.get("required", fields)]
    consequences = card.get("consequence")
    return ActionButton(
        name=name,
        label=cell(str(action.get("label") or humanize(name))),
        style=str(action.get("style") or STYLES.get(name, "quiet")),
        schema=_own_schema(schemas, known, fields, required),
        required=bool(required),
        consequence=cell(str(consequences.get(name) or "")) if isinstance(consequences, Mapping) else "",
        description=cell(str(action.get("description") or "")),
    )


def unedited(schema: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an answer that edits nothing: without the actions that need an edited proposal."""
    listed = card.get("actions")
    actions = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    gone = [one for one in actions if set(one.get("fields") or ()).intersection(EDITED)]
    if not gone:
        return dict(schema)
    names, fields = {one.get("name") for one in gone}, {field for one in gone for field in one.get("fields") or ()}
    kept = {name: node for name, node in mapping(schema.get("properties")).items() if name not in fields}
    action = kept.get("action")
    if isinstance(action, Mapping) and isinstance(action.get("enum"), list):
        kept["action"] = {**action, "enum": [name for name in action["enum"] if name not in names]}
    return {**schema, "properties": kept}


def shared_schema(schema: Mapping[str, Any], choices: Sequence[ActionButton]) -> dict[str, Any]:
    """Return the schema of the fields that belong to none of these actions; the whole one without actions."""
    if not choices:
        return {"title": "Answer", **schema}
    known = mapping(schema.get("properties"))
    owned = {"action", FIELD, *(name for choice in choices for name in choice.schema["properties"])}
    fields = [name for name in known if name not in owned]
    return _own_schema(Schemas(schema), known, fields, [name for name in fields if name in schema.get("required", ())])


def _own_schema(schemas: Schemas, known: Mapping[str, Any], fields: list[str], required: list[str]) -> dict[str, Any]:
    properties = {name: _property(schemas, name, known[name], name in required) for name in fields if name in known}
    needed = [name for name in required if name in properties]
    return schemas.within({"type": "object", "properties": properties, "required": needed})


def _property(schemas: Schemas, name: str, node: Any, required: bool) -> Any:
    """Return the node of a field: for one that an action requires, without the option to leave it empty."""
    if not isinstance(node, Mapping):
        return node
    plain = dict(schemas.resolve(node))
    if required and "anyOf" in plain:
        plain["anyOf"] = [inner for inner in plain["anyOf"] if schemas.resolve(inner).get("type") != "null"]
    if required and plain.get("default", ...) in (None, ""):
        plain.pop("default")
    return {**plain, "x-widget": "textarea"} if name in WORDY else plain


def read_answer(schema: Mapping[str, Any], card: Mapping[str, Any], post: QueryDict, files: Any = None) -> PostedAnswer:
    """Return the answer of a POST, with its errors. Only the chosen action's own fields are part of it."""
    buttons = actions_of(schema, card)
    choices = {choice.name: choice for choice in buttons}
    shared = FormView.from_schema(shared_schema(schema, buttons)).bind(post, files)
    if not choices:
        errors, as_text = list(map(dict, shared.errors)), AS_TEXT in post
        return PostedAnswer(shared.value, errors, "", shared.changed_rows, {}, shared, buttons, as_text=as_text)
    forms = {name: FormView.from_schema(c.schema, prefix=c.prefix).bind(post, files) for name, c in choices.items()}
    chosen, lines = post.get(ACTION, ""), read_lines(schema, card, post)
    editing = shared.changed_rows or lines.begun
    if editing or chosen not in choices:
        target = "" if editing else "Choose one of the actions"
        errors = [*lines.problems, *([{"loc": [], "msg": target}] if target else [])]
        return PostedAnswer(None, errors, _open_action(choices, post), editing, forms, shared, buttons, lines.typed)
    value = {"action": chosen, **mapping(shared.value), **mapping(forms[chosen].value), **lines.value}
    found = [dict(problem) for problem in (*shared.errors, *forms[chosen].errors, *lines.problems)]
    found = found or problems_of(dict(schema), value)
    return PostedAnswer(value, found, chosen, False, forms, shared, buttons, lines.typed)


def _open_action(choices: Mapping[str, ActionButton], post: QueryDict) -> str:
    """Return the action whose row button was pressed."""
    targets = [str(post[button]) for button in BUTTONS if button in post]
    return next((name for name, choice in choices.items() for t in targets if t.startswith(choice.prefix)), "")


# The position of a run when it asked: the steps on its path, where it is, what certainly comes next. Pure.

NEAR_STEPS = 3
"""Steps shown on either side; those beyond are counted."""


class TimedTransition(Transition, Protocol):
    """A transition with its time; see ``queries.StepTransition``."""

    @property
    def at(self) -> datetime: ...
    @property
    def skipped(self) -> bool: ...


@frozen
class PathStep:
    """A step on the path. ``state``: done | here | ahead | more (then ``title`` says how many)."""

    title: str
    state: str


def path_through(
    description: Description, step: str, moves: Sequence[TimedTransition] = (), asked: datetime | None = None
) -> tuple[PathStep, ...]:
    """Return the path of one run through its graph; empty if the step is not in it.

    ``moves``: the run's transitions, oldest first. Done is what finished and led here before ``asked``; a branch that
    was not taken, or was skipped, is not on the path. Ahead is only what follows whatever is decided.
    """
    titles = {info.name: info.title or step_label(info.name) for info in description.steps}
    if step not in titles:
        return ()
    before = [move for move in moves if (asked is None or move.at <= asked) and not move.skipped]
    came = [titles[name] for name in _came(description.edges, step, before) if name in titles]
    goes = [titles[name] for name in _certain(description, step)]
    here = PathStep(title=titles[step], state="here")
    return (*_side(came, "done")[::-1], here, *_side(goes, "ahead"))


def _came(edges: Iterable[EdgeInfo], step: str, moves: Sequence[TimedTransition]) -> list[str]:
    """Return the steps that led to this one along edges that were taken, the one that finished last first."""
    sources: dict[str, set[str]] = {}
    for source, target in travelled(edges, moves):
        sources.setdefault(target, set()).add(source)
    found, left = set[str](), [step]
    while left:
        fresh = sources.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    finished = {move.step: place for place, move in enumerate(moves) if move.state == "done"}
    return sorted(found & finished.keys() - {step}, key=lambda name: -finished[name])


def _certain(description: Description, step: str) -> list[str]:
    """Return the steps that follow in any case, up to where the path parts or ends."""
    known = {info.name: info for info in description.steps}
    leaving: dict[str, list[EdgeInfo]] = {}
    for edge in description.edges:
        leaving.setdefault(edge.source, []).append(edge)
    way: list[str] = []
    here = step
    while True:
        edges = [edge for edge in leaving.get(here, ()) if edge.target in known]
        returns = any(edge.target == step or edge.target in way for edge in edges)
        if not edges or returns or not all(_leads(edge, known) for edge in edges):
            return way
        way += [edge.target for edge in edges]
        if len(edges) > 1:
            return way
        here = edges[0].target


def _leads(edge: EdgeInfo, known: Mapping[str, StepInfo]) -> bool:
    """Return whether every message of a step takes this edge: no condition, and no other type that could leave it."""
    if edge.kind in {"join", "gather"}:
        return edge.label in {"", "all", "gather"}
    takes = known[edge.target].takes
    return edge.kind == "plain" and takes in {"", known[edge.source].gives}


def _side(titles: list[str], state: str) -> list[PathStep]:
    """Return the nearest steps first, then how many more there are."""
    far = len(titles) - NEAR_STEPS
    near = [PathStep(title=title, state=state) for title in (titles[:NEAR_STEPS] if far > 1 else titles)]
    return [*near, *([PathStep(title=f"{far} more", state="more")] if far > 1 else [])]


# Why a card is asked again: what of it changed since it was answered, or since it was first asked. Pure.

NAMES = {
    "body": "the text",
    "consequence": "what happens next",
    "undo": "how to undo",
    "current": "the current value",
    "form": "the form",
    "actions": "the actions",
    "options": "the options",
}


@frozen
class CardChanges:
    """What changed, as text; the difference where both cards are known."""

    parts: str
    answered: bool
    changes: tuple[ValueChange, ...] = ()
    problem: str = ""
    """What is wrong with the earlier answer, where that is the reason."""

    @property
    def reason(self) -> str:
        """Return why it is asked again."""
        if self.problem:
            return f"the step can no longer use the earlier answer ({self.problem})"
        return f"{self.parts} changed {self.since}"

    @property
    def since(self) -> str:
        """Return since when it has changed."""
        return "after it was answered" if self.answered else "while it waited for an answer"

    @property
    def counts(self) -> str:
        """Return what became of earlier votes and answers."""
        if self.answered:
            return "The earlier answer no longer applies. Decide on the current version."
        return "Decide on the current version."


def asked_again(card: Mapping[str, Any], before: Mapping[str, Any] | None) -> CardChanges | None:
    """Return why a card is asked again; None where it is not. ``before``: the card that was shown then."""
    note = note_of(card)
    if not note:
        return None
    names = [str(name)[:40] for name in note["parts"]]
    words = [NAMES.get(name, f"the {name}") for name in names] or ["something"]
    changes: tuple[ValueChange, ...] = ()
    if before is not None:
        shown = [{name: one[name] for name in names if name in one} for one in (before, card)]
        changes = diff_values(shown[0], shown[1])
    problem = str(note.get("problem") or "")[:300]
    return CardChanges(parts=in_words(words), answered=bool(note.get("answered")), changes=changes, problem=problem)
