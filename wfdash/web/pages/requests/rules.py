"""Pages of rules: the list with the form of a new one, and one rule with its rehearsal and what people decided."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from pydantic import ValidationError

from wfdash.actions.requests.rules import STEPS, create_rule, move_rule
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.requests.rules import may_make, may_stop, read_rule, read_rules, subjects_of
from wfdash.records.requests import CreateRule
from wfdash.web.pages.runs.actions import new_key
from wfdash.web.pages.site.decorators import form_page, key_of, viewer_of

FIELDS = ("workflow", "step", "condition", "action", "quota", "days", "lasts", "share")
DEFAULTS = {"action": "approve", "quota": "20", "days": "7", "lasts": "90", "share": "5"}
TONES = {"on": "running", "shadow": "waiting", "suspended": "failed"}
DONE = {
    "rehearsed": "Rehearsed.",
    "shadow": "It runs beside people now, and answers nothing.",
    "on": "Switched on.",
    "suspended": "Suspended. What could still be undone was sent back to people.",
}


@form_page
def rules(request: HttpRequest) -> HttpResponse:
    """List the rules this person may read; a POST makes one. ``workflow``, ``step``, ``condition`` fill the form."""
    viewer, problems = viewer_of(request), dict[str, str]()
    typed = {**DEFAULTS, **{name: request.GET[name] for name in FIELDS if name in request.GET}}
    if request.method == "POST":
        typed = {name: request.POST.get(name, "").strip() for name in FIELDS}
        try:
            made = create_rule(viewer, _read(typed), key=key_of(request))
            messages.success(request, "Rule made. It answers nothing yet: rehearse it.")
            return redirect("wfdash:rule", made.pk)
        except Invalid as error:
            problems = error.by_field
        except (NotAllowed, WrongState) as error:
            problems = {"workflow": str(error)}
    makes = sorted(entry.name for entry in catalog.entries() if may_make(viewer, entry.name))
    context: dict[str, Any] = {
        "rows": [(row, TONES.get(row.state, "cancelled")) for row in read_rules(viewer)],
        "makes": [(name, catalog.title_of(name)) for name in makes],
        "typed": typed,
        "problems": problems,
    }
    return render(request, "requests/rules.html", context, status=422 if problems else 200)


def _read(typed: dict[str, str]) -> CreateRule:
    """Return what was typed. ``Invalid`` at each field that is none of its numbers."""
    given: dict[str, Any] = dict(typed)
    try:
        given["share"] = float(typed["share"]) / 100
    except ValueError:
        given["share"] = typed["share"]
    try:
        return CreateRule(**given)
    except ValidationError as error:
        raise Invalid([{"loc": list(one["loc"]), "msg": one["msg"]} for one in error.errors()]) from None


@form_page
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Show a rule; a POST (``to``: rehearsed, shadow, on or suspended) does that and redirects."""
    viewer = viewer_of(request)
    if request.method == "POST":
        to = request.POST.get("to", "")
        try:
            move_rule(
                viewer, rule_id, to if to in DONE else "suspended", request.POST.get("reason", ""), key=key_of(request)
            )
            messages.success(request, DONE.get(to, DONE["suspended"]))
        except (Invalid, NotAllowed, WrongState) as error:
            messages.warning(request, error.summary if isinstance(error, Invalid) else f"{error}.")
        return redirect("wfdash:rule", rule_id)
    row = read_rule(viewer, rule_id)
    known = row.rehearsal
    verdicts = sorted({*known.fitting, *known.rest}) if known else []
    against = known.against if known else ()
    subjects = subjects_of([one.request for one in against])
    over, now = row.since + timedelta(days=row.days), timezone.now()
    context = {
        "row": row,
        "tone": TONES.get(row.state, "cancelled"),
        "title": catalog.title_of(row.workflow),
        "known": known,
        "confusion": known
        and [
            (name, [(verdict, counts.get(verdict, 0)) for verdict in verdicts])
            for name, counts in (("Fits the rule", known.fitting), ("Everything else", known.rest))
        ],
        "against": [(one, subjects.get(one.request) or f"Request {one.request[-8:]}") for one in against],
        "early": over if over > now else None,
        "expired": row.expires <= now,
        "makes": may_make(viewer, row.workflow) and row.expires > now,
        "operates": viewer.may("operate", row.workflow),
        "stops": may_stop(viewer, row) and row.state in ("shadow", "on"),
        "next": STEPS.get(row.state, ""),
        "key": new_key(),
    }
    return render(request, "requests/rule.html", context)
