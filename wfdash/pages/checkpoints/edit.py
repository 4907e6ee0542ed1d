"""Editing a checkpoint: forms of state, messages and answers, then the preview, then the confirmation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from pydantic import ValidationError

from checkpoints.records import Json, Request
from wfdash.contract import Edits
from wfdash.errors import Changed, CodeElsewhere, Invalid, WrongState, status_for
from wfdash.pages.checkpoints.checkpoint import apply_verb, show_preview
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.ui.card import EDITED, unedited
from wfdash.pages.ui.forms import BoundForm, FormView
from wfdash.pages.ui.forms.json_text import write
from wfdash.queries.checkpoints.checkpoint import Editing, read_editing
from wfdash.queries.runs.listing import read_run
from wfdash.records.checkpoints import EditableStep
from wfdash.rendering import render
from wfdash.schemas.secrets import secret_names

LARGEST = 200_000
"""Characters of a value that a form shows."""
MOST = 20
"""Messages, and answers, that a page offers to edit."""
VERBS = ("restore", "fork")


@dataclass(frozen=True, kw_only=True)
class Section:
    """An editable value. ``loc``: its place in ``Edits``. ``form`` None: too large for a page.

    ``switch``: the name of the checkbox that enables it; empty if it is always enabled.
    """

    loc: tuple[str, ...]
    form: FormView | None
    title: str = ""
    note: str = ""
    doing: EditableStep | None = None
    request: Request | None = None
    switch: str = ""
    on: bool = True


@page("GET", "POST")
def edit(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what can be edited. A POST shows the preview (``_phase`` preview), does it (confirm), or returns to
    editing.
    """
    viewer = viewer_of(request)
    editing = read_editing(viewer, run_id, checkpoint_id)
    if request.method != "POST" or editing.refusal:
        sent = request.method == "POST" and editing.elsewhere
        return _form(request, editing, _sections(editing), status=status_for(CodeElsewhere()) if sent else 200)
    phase, verb = request.POST.get("_phase", "preview"), request.POST.get("_what", "")
    verb = verb if verb in VERBS else "fork"
    if phase in {"confirm", "edit"}:
        edits = _given(request.POST.get("_edits", ""))
        if phase == "edit":
            return _form(request, editing, _sections(editing, edits), reason=edits.reason)
        return _confirm(request, run_id, checkpoint_id, verb, edits)
    return _preview(request, editing, verb)


def _preview(request: HttpRequest, editing: Editing, verb: str) -> HttpResponse:
    sections = [_bound(section, request) for section in _sections(editing)]
    reason = request.POST.get("_reason", "").strip()
    forms = [section.form for section in sections if section.on and isinstance(section.form, BoundForm)]
    if any(form.changed_rows for form in forms):
        return _form(request, editing, sections, reason=reason)
    if any(form.errors for form in forms):
        return _form(request, editing, sections, reason=reason, status=422)
    info = editing.chosen.info
    try:
        edits = _edits(sections, reason)
        return show_preview(request, info.run, info.id, verb, edits=edits)
    except Invalid as error:
        marked, left = _with_problems(sections, error.errors)
        return _form(request, editing, marked, problems=left, reason=reason, status=422)
    except (WrongState, CodeElsewhere) as error:
        return _form(request, editing, sections, problems=[str(error)], reason=reason, status=status_for(error))


def _confirm(request: HttpRequest, run_id: str, checkpoint_id: str, verb: str, edits: Edits) -> HttpResponse:
    try:
        return apply_verb(request, run_id, checkpoint_id, verb, edits)
    except Changed as error:
        return show_preview(request, run_id, checkpoint_id, verb, edits=edits, problem=str(error))
    except (Invalid, CodeElsewhere) as error:
        editing = read_editing(viewer_of(request), run_id, checkpoint_id)
        problems = error.errors if isinstance(error, Invalid) else [{"loc": [], "msg": str(error)}]
        marked, left = _with_problems(_sections(editing, edits), problems)
        return _form(request, editing, marked, problems=left, reason=edits.reason, status=status_for(error))


def _given(text: str) -> Edits:
    try:
        return Edits.model_validate_json(text)
    except ValidationError as error:
        raise Invalid([{"loc": ["_edits"], "msg": "The edits were incomplete. Go back and submit again"}]) from error


def _form(
    request: HttpRequest,
    editing: Editing,
    sections: Iterable[Section],
    *,
    problems: Iterable[str] = (),
    reason: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "run": read_run(viewer_of(request), editing.chosen.info.run),
        "editing": editing,
        "chosen": editing.chosen,
        "sections": list(sections),
        "problems": list(problems),
        "reason": reason,
        "typed": _typed(request) if editing.elsewhere else (),
        "left_out": max(len(editing.doing) - MOST, 0) + max(len(editing.chosen.requests) - MOST, 0),
    }
    return render(request, "checkpoints/edit.html", context, status=status)


def _typed(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the fields of a form that this server cannot take and another one may, to be sent again."""
    given = [(name, value) for name, values in request.POST.lists() for value in values]
    return [(name, value) for name, value in given if name != "csrfmiddlewaretoken"]


def _sections(editing: Editing, edits: Edits | None = None) -> list[Section]:
    """Return the editable sections with their current values, or with what was typed before."""
    typed = edits or Edits()
    state = typed.state if typed.state is not None else editing.state
    found: list[Section] = []
    for one in editing.doing[:MOST]:
        value = typed.messages.get(one.activation, one.message)
        form = _draw(one.takes or {}, f"m{one.activation}:", value)
        found.append(Section(loc=("messages", one.activation), form=form, doing=one))
    for place, request in enumerate(editing.chosen.requests[:MOST]):
        known = request.key in typed.answers
        value = typed.answers[request.key] if known else editing.suggested.get(request.key)
        form = FormView.from_schema(_answer_schema(request, value), prefix=f"q{place}:", initial=value)
        switch = f"_answer{place}"
        found.append(Section(loc=("answers", request.key), form=form, request=request, switch=switch, on=known))
    form_of_state = _draw(editing.state_schema, "state:", state)
    return [*found, Section(loc=("state",), title="State", form=form_of_state)]


def _answer_schema(request: Request, value: Json) -> dict[str, Json]:
    """Return the form's schema: an edited proposal only where the suggested answer contains one."""
    edited = isinstance(value, dict) and any(value.get(name) is not None for name in EDITED)
    return dict(request.answer_schema) if edited else unedited(request.answer_schema, request.card)


def _draw(schema: Mapping[str, Json], prefix: str, value: Json) -> FormView | None:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > LARGEST:
        return None
    form = FormView.from_schema(dict(schema), prefix=prefix, initial=value)
    loose = not schema or (schema.get("type") == "object" and not schema.get("properties"))
    # A control never shows a secret, so leaving it alone would lose it: a placeholder keeps its place.
    return replace(form, initial=value, text=write(value)) if loose or secret_names(schema) else form


def _bound(section: Section, request: HttpRequest) -> Section:
    if section.form is None:
        return section
    bound = section.form.bind(request.POST, request.FILES)
    return replace(section, form=bound, on=not section.switch or section.switch in request.POST)


def _edits(sections: Iterable[Section], reason: str) -> Edits:
    values: dict[str, Any] = {"messages": {}, "answers": {}}
    for section in sections:
        if not section.on or not isinstance(section.form, BoundForm):
            continue
        if section.loc == ("state",):
            values["state"] = section.form.value
        else:
            values[section.loc[0]][section.loc[1]] = section.form.value
    try:
        return Edits(**values, reason=reason)
    except ValidationError as error:
        raise Invalid([{"loc": ["state"], "msg": "The state must be an object"}]) from error


def _with_problems(sections: Iterable[Section], problems: list[dict[str, Any]]) -> tuple[list[Section], list[str]]:
    """Return the sections with their problems, and the problems that belong to none of them."""
    found, left = [], list(problems)
    for section in sections:
        size = len(section.loc)
        mine = [one for one in left if tuple(map(str, one["loc"][:size])) == section.loc]
        left = [one for one in left if one not in mine]
        if mine and section.form is not None:
            own = [{"loc": list(one["loc"][size:]), "msg": one["msg"]} for one in mine]
            section = replace(section, form=section.form.with_errors(own), on=True)
        elif mine:
            left += mine
        found.append(section)
    return found, [str(one["msg"]) for one in left]
