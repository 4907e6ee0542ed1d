"""The actions of a card: which fields belong to each, and which one a POST chose. Pure but for types.

POST: ``_action=<name>`` and the fields of that action under the prefix ``<name>:``; fields that belong to no action
apply to all of them, without a prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.http import QueryDict

from wfdash.domain import line_comments
from wfdash.domain.labels import humanize
from wfdash.domain.votes import EDITED
from wfdash.pages.ui.card.line_comments import read_lines
from wfdash.pages.ui.card.tables import cell
from wfdash.pages.ui.forms import BoundForm, FormView
from wfdash.pages.ui.forms.fields import part
from wfdash.pages.ui.forms.kinds import mapping
from wfdash.pages.ui.forms.rows import BUTTONS
from wfdash.pages.ui.forms.spec import Schemas
from wfdash.schemas.validate import problems_of

ACTION = "_action"
AS_TEXT = "_as_text"
WORDY = frozenset({"response", "reason", "comment", "note", "notes", "message", "feedback", "explanation"})
STYLES = {"approve": "primary", "reject": "danger"}


@dataclass(frozen=True, kw_only=True)
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
    lines: tuple[tuple[str, str], ...] = ()
    """Comments on lines as they were typed: spot and text; one that was just begun is empty."""
    as_text: bool = False
    """It was confirmed that a text which reads like yes or no is meant as text."""


def actions_of(schema: Mapping[str, Any], card: Mapping[str, Any]) -> tuple[ActionButton, ...]:
    """Return the card's actions; where it names none, the options of the schema's ``action`` field, or nothing."""
    given = card.get("actions")
    listed = [action for action in given if isinstance(action, Mapping)] if isinstance(given, list) else []
    node = Schemas(schema).resolve(mapping(schema.get("properties")).get("action", {}))
    named = node.get("enum") if isinstance(node, Mapping) else None
    actions = listed or [{"name": name, "fields": []} for name in named or () if isinstance(name, str)]
    return tuple(_choice(schema, card, action) for action in actions if action.get("name"))


def _choice(schema: Mapping[str, Any], card: Mapping[str, Any], action: Mapping[str, Any]) -> ActionButton:
    name = str(action["name"])
    fields = [str(field) for field in action.get("fields") or ()]
    required = [str(field) for field in action.get("required", fields)]
    consequences = card.get("consequence")
    return ActionButton(
        name=name,
        label=cell(str(action.get("label") or humanize(name))),
        style=str(action.get("style") or STYLES.get(name, "quiet")),
        schema=_own_schema(schema, fields, required),
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
        return dict(schema)
    owned = {"action", line_comments.FIELD, *(name for choice in choices for name in choice.schema["properties"])}
    fields = [name for name in mapping(schema.get("properties")) if name not in owned]
    return _own_schema(schema, fields, [name for name in fields if name in schema.get("required", ())])


def _own_schema(schema: Mapping[str, Any], fields: list[str], required: list[str]) -> dict[str, Any]:
    schemas = Schemas(schema)
    known = mapping(schema.get("properties"))
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
    choices = {choice.name: choice for choice in actions_of(schema, card)}
    shared = FormView.from_schema(shared_schema(schema, [*choices.values()])).bind(post, files)
    if not choices:
        errors, as_text = list(map(dict, shared.errors)), AS_TEXT in post
        return PostedAnswer(shared.value, errors, "", shared.changed_rows, {}, shared, as_text=as_text)
    forms = {name: FormView.from_schema(c.schema, prefix=c.prefix).bind(post, files) for name, c in choices.items()}
    chosen, lines = post.get(ACTION, ""), read_lines(schema, card, post)
    editing = shared.changed_rows or lines.begun
    if editing or chosen not in choices:
        target = "" if editing else "Choose one of the actions"
        errors = [*lines.problems, *([{"loc": [], "msg": target}] if target else [])]
        return PostedAnswer(None, errors, _open_action(choices, post), editing, forms, shared, lines.typed)
    value = {"action": chosen, **mapping(shared.value), **mapping(forms[chosen].value), **lines.value}
    found = [dict(problem) for problem in (*shared.errors, *forms[chosen].errors, *lines.problems)]
    return PostedAnswer(value, found or problems_of(dict(schema), value), chosen, False, forms, shared, lines.typed)


def _open_action(choices: Mapping[str, ActionButton], post: QueryDict) -> str:
    """Return the action whose row button was pressed."""
    targets = [str(post[button]) for button in BUTTONS if button in post]
    return next((name for name, choice in choices.items() for t in targets if t.startswith(choice.prefix)), "")
