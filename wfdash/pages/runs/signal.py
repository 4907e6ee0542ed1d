"""Sending a signal to a run: its name, and a form for what the waiting step takes."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from checkpoints.records import Json
from wfdash.actions.runs.signals import send_signal
from wfdash.errors import Invalid, WrongState
from wfdash.pages.runs.actions import new_key
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.pages.ui.forms import FormView
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.signals import RunSignals, read_signals, signal_wait
from wfdash.rendering import render

ANY: dict[str, Json] = {"title": "Value", "description": "JSON. Leave empty to send no value."}


@page("GET", "POST")
def signal(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what the run waits for; a POST sends the signal ``name``, with the form's value."""
    viewer = viewer_of(request)
    found = read_signals(viewer, run_id)
    name = request.GET.get("name", "").strip() or _only(found)
    wait = next((wait for wait in found.waits if wait.name == name), None)
    if request.POST.get("_request"):
        # The posted form is read as it was shown; the idempotency key makes a repeated one harmless.
        wait = signal_wait(viewer, run_id, request.POST["_request"]) or wait
    form = FormView.from_schema(wait.answer_schema if wait else ANY, initial=wait.before if wait else None)
    context = {"run": read_run(viewer, run_id), "found": found, "name": name, "wait": wait, "form": form}
    if request.method != "POST" or not name:
        return _signal_page(request, context)
    bound = form.bind(request.POST, request.FILES)
    empty = wait is None and not request.POST.get("value", "").strip()
    if not empty and not bound.is_valid:
        return _signal_page(request, context | {"form": bound}, status=200 if bound.changed_rows else 422)
    try:
        sent = send_signal(viewer, run_id, name, None if empty else bound.value, key=key_of(request))
    except Invalid as error:
        wrong = [one for one in error.errors if list(one["loc"]) == ["name"]]
        inside = [{**one, "loc": list(one["loc"])[1:]} for one in error.errors if one not in wrong]
        problem = str(wrong[0]["msg"]) if wrong else ""
        return _signal_page(request, context | {"form": bound.with_errors(inside), "problem": problem}, status=422)
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, _sent_message(name, received=bool(sent.taken)))
    return redirect("wfdash:run", run_id)


def _signal_page(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    key = request.POST.get("_key") or new_key()
    return render(request, "runs/actions/signal.html", context | {"key": key}, status=status)


def _only(found: RunSignals) -> str:
    """Return the name of the awaited signal, if there is only one."""
    names = {wait.name for wait in found.waits}
    return names.pop() if len(names) == 1 else ""


def _sent_message(name: str, *, received: bool) -> str:
    if received:
        return f"Signal {name} received by a step."
    return f"Signal {name} sent. It is kept until a step waits for it."
