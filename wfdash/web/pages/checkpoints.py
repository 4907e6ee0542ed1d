"""Pages of checkpoints: one, two compared, one edited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_urlsafe
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from pydantic import ValidationError

from checkpoints.records import Json, JsonObject, Request, frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.checkpoints import fork_run, label_checkpoint, restore_run
from wfdash.contract import Edits
from wfdash.domain.errors import Changed, CodeElsewhere, Invalid, NotFound, WrongState, status_for, wrong
from wfdash.domain.votes import EDITED
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.checkpoints.checkpoint import (
    CheckpointView,
    Editing,
    find_row,
    read_checkpoint,
    read_editing,
    steps_at_work,
)
from wfdash.queries.checkpoints.compare import Comparison, compare_checkpoints
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.history import read_checkpoints
from wfdash.queries.runs.listing import read_run
from wfdash.records.checkpoints import CheckpointPreview, EditableStep, StateCounts
from wfdash.values.schemas.secrets import secret_names
from wfdash.web.pages.site.decorators import form_page, get_page, number_in, post_page, viewer_of
from wfdash.web.pages.ui.card import unedited
from wfdash.web.pages.ui.diff.lines import Sheet, diff_values
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.forms.form import BoundForm, FormView, on_one_page
from wfdash.web.pages.ui.forms.read import write
from wfdash.web.pages.ui.transcript import diff_transcripts, draw_talk

# Editing a checkpoint: forms of state, messages and answers, then the preview, then the confirmation.

MAX_VALUE_CHARACTERS = 200_000
"""Characters of a value that a form shows."""
MAX_EDITED_MESSAGES = 20
"""Messages, and answers, that a page offers to edit."""
VERBS = ("restore", "fork")


@frozen
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


@form_page
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
        problems = error.errors if isinstance(error, Invalid) else [wrong("", str(error))]
        marked, left = _with_problems(_sections(editing, edits), problems)
        return _form(request, editing, marked, problems=left, reason=edits.reason, status=status_for(error))


def _given(text: str) -> Edits:
    try:
        return Edits.model_validate_json(text)
    except ValidationError as error:
        raise Invalid.at("_edits", "The edits were incomplete. Go back and submit again") from error


def _form(
    request: HttpRequest,
    editing: Editing,
    sections: Sequence[Section],
    *,
    problems: Iterable[str] = (),
    reason: str = "",
    status: int = 200,
) -> HttpResponse:
    forms = on_one_page([one.form for one in sections if one.form is not None])
    context = {
        "run": read_run(viewer_of(request), editing.chosen.info.run),
        "editing": editing,
        "chosen": editing.chosen,
        "sections": [one if one.form is None else replace(one, form=next(forms)) for one in sections],
        "problems": list(problems),
        "reason": reason,
        "typed": _typed(request) if editing.elsewhere else (),
        "left_out": max(len(editing.doing) - MAX_EDITED_MESSAGES, 0)
        + max(len(editing.chosen.requests) - MAX_EDITED_MESSAGES, 0),
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
    for one in editing.doing[:MAX_EDITED_MESSAGES]:
        value = typed.messages.get(one.activation, one.message)
        form = _draw(one.takes or {}, f"m{one.activation}:", value)
        found.append(Section(loc=("messages", one.activation), form=form, doing=one))
    for place, request in enumerate(editing.chosen.requests[:MAX_EDITED_MESSAGES]):
        known = request.key in typed.answers
        value = typed.answers[request.key] if known else editing.suggested.get(request.key)
        form = FormView.from_schema(_answer_schema(request, value), prefix=f"q{place}:", initial=value)
        switch = f"_answer{place}"
        found.append(Section(loc=("answers", request.key), form=form, request=request, switch=switch, on=known))
    form_of_state = _draw(editing.state_schema, "state:", state)
    return [*found, Section(loc=("state",), title="State", form=form_of_state)]


def _answer_schema(request: Request, value: Json) -> JsonObject:
    """Return the form's schema: an edited proposal only where the suggested answer contains one."""
    edited = isinstance(value, dict) and any(value.get(name) is not None for name in EDITED)
    return dict(request.answer_schema) if edited else unedited(request.answer_schema, request.card)


def _draw(schema: Mapping[str, Json], prefix: str, value: Json) -> FormView | None:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_VALUE_CHARACTERS:
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
        raise Invalid.at("state", "The state must be an object") from error


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


# Two checkpoints side by side: steps, state, conversation, requests.

MOST_PATCH = 200_000
"""Characters of a patch that a page shows; longer ones are in the API."""
STATES = (
    ("done", "finished"),
    ("running", "running"),
    ("waiting", "waiting for people"),
    ("sleeping", "asleep"),
    ("stopped", "stopped"),
    ("retrying", "to be retried"),
    ("failed", "failed"),
)


MOST_PICKED = 100


@get_page
def compare(request: HttpRequest, run_id: str) -> HttpResponse:
    """Compare ``a`` with ``b``: numbers of this run, ids, or addresses of checkpoints of any run of the workflow.

    The last one that is not empty counts: what is typed, else what is picked; ``older``: older ones to pick from.
    ``raw``: answer with the patch alone, of the ``state``, or of all that is ``shown``.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    first, second = (next(filter(None, reversed(request.GET.getlist(name))), "") for name in "ab")
    rail = read_checkpoints(viewer, run_id, before=number_in(request.GET.get("older", "")), limit=MOST_PICKED)
    context: dict[str, Any] = {"run": run, "a": first, "b": second, "rail": rail}
    status = 200
    if first and second:
        try:
            found = compare_checkpoints(viewer, run_id, first, second, sheet := Sheet())
            if request.GET.get("raw"):
                patch = found.shown_patch if request.GET["raw"] == "shown" else found.patch
                return HttpResponse(_patch_text(patch), content_type="application/json")
            context |= _compared(found, sheet)
        except (NotFound, Invalid) as error:
            message = error.errors[0]["msg"] if isinstance(error, Invalid) else str(error)
            context |= {"problem": message}
            status = 404 if isinstance(error, NotFound) else 422
    return render(request, "checkpoints/compare.html", context, status=status)


def _compared(found: Comparison, sheet: Sheet) -> dict[str, Any]:
    patches = (
        ("state", "State", _patch_text(found.patch)),
        ("shown", "State, step inputs and conversation", _patch_text(found.shown_patch)),
    )
    return {
        "found": found,
        "inputs": diff_values(*found.inputs, sheet) if found.inputs else (),
        "changes": [] if found.problem else diff_values({"state": found.old.state}, {"state": found.new.state}, sheet),
        "step_inputs": diff_values(dict(found.old.inputs), dict(found.new.inputs), sheet),
        "talk_changes": diff_transcripts(found.old.transcript, found.new.transcript),
        "moved": [(one.step, describe_counts(one.before), describe_counts(one.after)) for one in found.moved],
        "asked": [
            (one, diff_values(one.before.card, one.after.card, sheet) if one.before and one.after else ())
            for one in found.asked
        ],
        "patches": [(name, title, text if len(text) <= MOST_PATCH else "") for name, title, text in patches],
    }


def _patch_text(patch: Any) -> str:
    text = json.dumps(patch, ensure_ascii=False)
    return text if len(text) > MOST_PATCH else json.dumps(patch, indent=2, ensure_ascii=False)


def describe_counts(counts: StateCounts) -> str:
    """Return a step's counts as text: ``2 finished, 1 waiting for people``; not started if there are none."""
    parts = [f"{getattr(counts, name)} {words}" for name, words in STATES if getattr(counts, name)]
    return ", ".join(parts) if counts.total > 1 else parts[0][2:] if parts else "not started"


# One checkpoint: its content, its difference to another, its label, and the preview of restoring or forking it.

DONE_MESSAGES = {
    "restore": "Restored checkpoint {chosen} (new checkpoint {n}).",
    "fork": "Forked. The original run is unchanged.",
}
DOES = {
    "runs": "restarts immediately",
    "waits": "waits for people, then restarts",
    "sleeps": "sleeps, then restarts",
    "retries": "is retried",
    "queues": "runs when a slot is free",
}


@get_page
def checkpoint(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show a checkpoint; ``against`` names another one of the run to compare with, by default its parent."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    chosen = read_checkpoint(viewer, run_id, checkpoint_id)
    rail = read_checkpoints(viewer, run_id, before=chosen.info.n + 26, limit=50)
    other = _other(viewer, run_id, chosen, request.GET.get("against", ""))
    context = {
        "run": run,
        "chosen": chosen,
        "row": next((row for row in rail.rows if row.info.id == chosen.info.id), None),
        "rail": rail,
        "talk": draw_talk(chosen.transcript, until=number_in(request.GET.get("until", "")) or None),
        "at_work": steps_at_work(chosen),
        "other": other,
        "key": token_urlsafe(12),
        **_changes(other, chosen),
    }
    return render(request, "checkpoints/page.html", context)


@form_page
def restore(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what restoring would do; a POST does it."""
    return _act(request, run_id, checkpoint_id, "restore")


@form_page
def fork(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Show what forking would do; a POST does it and opens the new run."""
    return _act(request, run_id, checkpoint_id, "fork")


@post_page
def label(request: HttpRequest, run_id: str, checkpoint_id: str) -> HttpResponse:
    """Set the checkpoint's label, or remove it, and redirect to it."""
    try:
        key = request.POST.get("_key") or None
        label_checkpoint(viewer_of(request), run_id, checkpoint_id, request.POST.get("label", ""), key=key)
    except Invalid as error:
        messages.warning(request, str(error.errors[0]["msg"]))
    return redirect("wfdash:checkpoint", run_id, checkpoint_id)


def _act(request: HttpRequest, run_id: str, checkpoint_id: str, verb: str) -> HttpResponse:
    if request.method != "POST":
        return show_preview(request, run_id, checkpoint_id, verb)
    try:
        return apply_verb(request, run_id, checkpoint_id, verb)
    except Changed as error:
        return show_preview(request, run_id, checkpoint_id, verb, problem=str(error))


def apply_verb(
    request: HttpRequest, run_id: str, checkpoint_id: str, verb: str, edits: Edits | None = None
) -> HttpResponse:
    """Restore or fork as confirmed in a preview, and redirect to the run; ``Changed`` if it has moved on since."""
    call = restore_run if verb == "restore" else fork_run
    seen, key = request.POST.get("_seen", ""), request.POST.get("_key") or None
    done: Any = call(viewer_of(request), run_id, checkpoint_id, edits=edits, seen=seen, key=key)
    chosen = find_row(viewer_of(request), run_id, checkpoint_id).n
    messages.success(request, DONE_MESSAGES[verb].format(n=done.n, chosen=chosen))
    return redirect("wfdash:run", done.run_id if verb == "restore" else done.pk)


def show_preview(
    request: HttpRequest,
    run_id: str,
    checkpoint_id: str,
    verb: str,
    *,
    edits: Edits | None = None,
    problem: str = "",
) -> HttpResponse:
    """Render the preview of an action with its button; 409 with the ``problem`` of the last attempt."""
    viewer = viewer_of(request)
    found = read_preview(viewer, run_id, checkpoint_id, verb=verb, edits=edits)
    sheet = Sheet()
    context: dict[str, Any] = {
        "run": read_run(viewer, run_id),
        "preview": found,
        "again": [(one, DOES[one.does]) for one in found.again],
        "may_ask": _may_ask(found),
        "changes": [(one, diff_values(one.before, one.after, sheet)) for one in found.changes],
        "verb": verb,
        "edits": edits,
        "edits_text": edits.model_dump_json() if edits else "",
        "key": token_urlsafe(12),
        "changed": problem,
    }
    return render(request, "checkpoints/preview.html", context, status=409 if problem else 200)


def _may_ask(found: CheckpointPreview) -> list[str]:
    """Return the steps that ask people and run again, or may afterwards: their questions are known only then."""
    entry = next((entry for entry in catalog.entries() if entry.name == found.chosen.workflow), None)
    if entry is None:
        return []
    titles = {info.name: info.title or step_label(info.name) for info in entry.description.steps if info.person}
    reached = dict.fromkeys([one.step for one in found.again if one.afresh or one.does == "runs"])
    left = list(reached)
    while left:
        here = left.pop(0)
        for edge in entry.description.edges:
            if edge.source == here and edge.target not in reached:
                reached[edge.target] = None
                left.append(edge.target)
    return [titles[name] for name in dict.fromkeys([*reached, *found.repeats]) if name in titles]


def _other(viewer: Viewer, run_id: str, chosen: CheckpointView, against: str) -> CheckpointView | None:
    if against:
        return read_checkpoint(viewer, run_id, against)
    if not chosen.info.parent or not chosen.parent_run:
        return None
    try:
        return read_checkpoint(viewer, chosen.parent_run, chosen.info.parent)
    except NotFound:
        return None


def _changes(other: CheckpointView | None, chosen: CheckpointView) -> dict[str, Any]:
    """Return what differs: in the state, in the inputs of steps in progress, in the conversation."""
    if other is None:
        return {}
    sheet = Sheet()
    return {
        "changes": diff_values({"state": other.state}, {"state": chosen.state}, sheet),
        "input_changes": diff_values(dict(other.inputs), dict(chosen.inputs), sheet),
        "talk_changes": diff_transcripts(other.transcript, chosen.transcript),
    }
