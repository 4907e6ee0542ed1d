"""The catalogue, and one workflow: its graph, versions and the form that starts a run."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import Invalid, NotAllowed
from wfdash.pages.door import page, viewer_of
from wfdash.pages.forms import Form
from wfdash.pages.graph import layout
from wfdash.pages.words import standing
from wfdash.queries.workflows import COUNTED


@page("GET")
def workflows(request: HttpRequest) -> HttpResponse:
    """Show every workflow this person may see, and to operators what failed to load."""
    viewer = viewer_of(request)
    rows = [(row, layout(row.description)) for row in queries.workflows(viewer)]
    return render(request, "workflows/page.html", {"rows": rows, "failures": queries.failures(viewer)})


@page("GET", "POST")
def workflow(request: HttpRequest, name: str) -> HttpResponse:
    """Show one workflow; a POST starts a run from its form. ``example`` fills the form with the author's example."""
    viewer = viewer_of(request)
    row = queries.workflow(viewer, name)
    form = Form.from_schema(row.description.input_schema, initial=_example(row, request.GET.get("example", "")))
    if request.method != "POST":
        return _page(request, viewer, row, form)
    if not row.may_start:
        raise NotAllowed("You may not start runs of this workflow: ask an operator or an admin of it")
    bound = form.bind(request.POST, request.FILES)
    if not bound.is_valid:
        return _page(request, viewer, row, bound, status=200 if bound.changed_rows else 422)
    try:
        run = desk.start_run(viewer, name, bound.value, key=request.POST.get("_key") or None)
    except Invalid as error:
        return _page(request, viewer, row, bound.with_errors(error.errors), status=422)
    messages.success(request, "Started. This page follows the run as it goes.")
    return redirect("run", run.pk)


def _page(
    request: HttpRequest, viewer: Viewer, row: queries.WorkflowRow, form: Form, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "row": row,
        "form": form,
        "key": request.POST.get("_key") or secrets.token_urlsafe(12),
        "drawing": layout(row.description),
        "total": _total(queries.count_runs(viewer, row.name)),
        "versions": queries.versions(viewer, row.name),
        "old_runs": queries.old_runs(viewer, row.name),
        "recent": [(run, standing(run)) for run in queries.runs(viewer, f'workflow:"{row.name}"', limit=5).items],
        "examples": range(1, len(row.description.examples) + 1),
    }
    return render(request, "workflows/workflow.html", context, status=status)


def _total(count: int) -> str:
    """Return a number of runs in words, or that there are more than anybody counted."""
    return f"{COUNTED:,}+" if count > COUNTED else f"{count:,}"


def _example(row: queries.WorkflowRow, number: str) -> Any:
    """Return the example a person asked for (1, 2, ...), or None."""
    examples = row.description.examples
    wanted = int(number) if number.isascii() and number.isdigit() and len(number) < 5 else 0
    return examples[wanted - 1] if 0 < wanted <= len(examples) else None
