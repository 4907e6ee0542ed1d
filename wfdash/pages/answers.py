"""A request's actions as forms, and what a person sent as an answer.

Every action has a form of its own, made of the fields that belong to it, so that what is required for a rejection
does not stand in the way of an approval. A request without actions is one form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from checkpoints.records import Json
from wfdash.pages.forms.form import BoundForm, Form, Problem
from wfdash.queries import RequestView


@dataclass(frozen=True, kw_only=True)
class ActionForm:
    """A button and its fields. ``open``: it was used, or stands alone, so its fields show at once."""

    name: str
    label: str
    style: str
    form: Form
    consequence: str = ""
    open: bool = False

    @property
    def plain(self) -> bool:
        """Say whether the button needs nothing but a press."""
        return not self.form.fields


@dataclass(frozen=True, kw_only=True)
class Given:
    """What was sent. ``incomplete``: it is not an answer yet."""

    action: str
    value: Json
    forms: tuple[ActionForm, ...]
    errors: tuple[Problem, ...] = ()
    incomplete: bool = False

    def with_errors(self, problems: Iterable[Problem]) -> Given:
        """Return it with these errors at the fields of the action that was chosen."""
        found = tuple(problems)
        forms = tuple(replace(one, form=one.form.with_errors(found)) if one.open else one for one in self.forms)
        return replace(self, forms=forms, errors=found)


def forms_for(request: RequestView) -> tuple[ActionForm, ...]:
    """Return the request's actions, in the author's order; one without a name where it has none."""
    actions = request.card.get("actions") or []
    if not actions:
        form = Form.from_schema(request.answer_schema, initial=_suggested(request, ""))
        return (ActionForm(name="", label="Send answer", style="primary", form=form, open=True),)
    return tuple(_action_form(request, action) for action in actions)


def read(request: RequestView, post: QueryDict, files: Mapping[str, Any]) -> Given:
    """Read a POST: the chosen action's own fields, nothing of the others."""
    action = post.get("action", "")
    forms, bound = [], None
    for one in forms_for(request):
        if one.name == action:
            bound = one.form.bind(post, files)
            one = replace(one, form=bound, open=True)
        forms.append(one)
    if bound is None:
        problem = {"loc": ["action"], "msg": "Choose one of the actions"}
        return Given(action="", value={}, forms=tuple(forms), errors=(problem,), incomplete=True)
    return Given(
        action=action,
        value=_value(action, bound),
        forms=tuple(forms),
        errors=bound.errors,
        incomplete=not bound.is_valid,
    )


def _value(action: str, bound: BoundForm) -> Json:
    if not action:
        return bound.value
    fields = bound.value if isinstance(bound.value, dict) else {}
    return {"action": action, **fields}


def _action_form(request: RequestView, action: Mapping[str, Json]) -> ActionForm:
    name = str(action["name"])
    fields = [str(field) for field in action.get("fields") or ()]
    initial = _suggested(request, name) or _proposed(request, fields)
    schema = _part(request.answer_schema, fields, [str(field) for field in action.get("required", fields)])
    consequence = request.card.get("consequence")
    return ActionForm(
        name=name,
        label=str(action.get("label") or name),
        style=str(action.get("style") or ""),
        form=Form.from_schema(schema, prefix=f"{name}:", initial=initial),
        consequence=str(consequence.get(name, "")) if isinstance(consequence, dict) else "",
    )


def _part(schema: Mapping[str, Json], fields: list[str], required: list[str]) -> dict[str, Json]:
    """Return the schema of an action's own fields."""
    properties = schema.get("properties", {})
    part: dict[str, Json] = {
        "type": "object",
        "properties": {field: properties[field] for field in fields if field in properties},
        "required": [field for field in required if field in properties],
    }
    return {**part, "$defs": schema["$defs"]} if "$defs" in schema else part


def _suggested(request: RequestView, action: str) -> Json:
    """Return the values of an earlier answer, if it chose this action."""
    value = (request.suggestion or {}).get("value")
    if not action:
        return value
    if not isinstance(value, dict) or value.get("action") != action:
        return None
    return {name: item for name, item in value.items() if name != "action"}


def _proposed(request: RequestView, fields: list[str]) -> Json:
    """Return the proposal as the start of an edit."""
    proposal = request.card.get("proposal")
    return {"edited": proposal} if fields == ["edited"] and proposal is not None else None
