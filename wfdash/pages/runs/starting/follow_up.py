"""The next message to a completed run: its form on the run's page, and the page that says why it was refused."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from checkpoints.errors import CheckpointsError
from wfdash import catalog
from wfdash.actions.runs import follow_up as follow_ups
from wfdash.errors import AlreadyFollowed, Invalid, NotAllowed, WrongState, status_for
from wfdash.pages.runs.actions import new_key
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.ui.forms import FormView
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.rendering import render

PREFIX = "next"


def follow_up_form(run: RunView) -> FormView | None:
    """Return the form of the message that follows up on a run; None where its workflow takes none."""
    entry = catalog.find(run.workflow)
    schema = entry.description.follow_up_schema if entry else None
    return None if schema is None else FormView.from_schema(schema, prefix=PREFIX)


@page("GET", "POST")
def follow_up(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the form of the next message; a POST starts the run that follows, and goes there."""
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    if not viewer.may("start", run.workflow):
        raise NotAllowed("You cannot start runs of this workflow. Ask an operator or admin of the workflow")
    form = follow_up_form(run)
    context: dict[str, Any] = {"run": run}
    if form is None or request.method != "POST":
        return _follow_up_page(request, context | {"form": form})
    bound = form.bind(request.POST, request.FILES)
    if not bound.is_valid:
        return _follow_up_page(request, context | {"form": bound}, status=200 if bound.changed_rows else 422)
    try:
        later = follow_ups.follow_up(viewer, run_id, bound.value, key=key_of(request))
    except Invalid as error:
        return _follow_up_page(request, context | {"form": bound.with_errors(error.errors)}, status=422)
    except (WrongState, CheckpointsError) as error:
        other = error.facts.get("run") if isinstance(error, AlreadyFollowed) else None
        context |= {"form": bound, "problem": str(error), "other": other}
        return _follow_up_page(request, context, status=status_for(error))
    messages.success(request, "Sent. This run continues from the end of the one before.")
    return redirect("wfdash:run", later.pk)


def _follow_up_page(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    key = request.POST.get("_key") or new_key()
    return render(request, "runs/actions/follow_up.html", context | {"key": key}, status=status)
