"""Pages of the catalogue: workflows, and the form that starts a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone

from checkpoints.records import Json, Phase
from wfdash.access.viewer import Viewer
from wfdash.actions.runs.lifecycle import start_run
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.runs.before_acting import input_of
from wfdash.queries.runs.listing import read_runs
from wfdash.queries.runs.versions import read_old_runs
from wfdash.queries.schedules import read_schedules
from wfdash.queries.statistics.gates import SUMMARY_DAYS, gates_of
from wfdash.queries.workflows import (
    FILTER,
    MAX_COUNTED_RUNS,
    WorkflowRow,
    code_of,
    count_finished,
    count_runs,
    is_code_elsewhere,
    last_of,
    matching,
    read_failures,
    read_versions,
    read_workflow,
    read_workflows,
)
from wfdash.web.pages.runs.actions import new_key, start_commands
from wfdash.web.pages.site.decorators import form_page, get_page, number_in, viewer_of
from wfdash.web.pages.site.list_page import CatalogueAddress, flaws_of, read_address, search_context
from wfdash.web.pages.statistics import gate_summary
from wfdash.web.pages.ui.charts import sparkline
from wfdash.web.pages.ui.event_text import status_sentence
from wfdash.web.pages.ui.forms.form import FormView
from wfdash.web.pages.ui.graph import draw_definition, fold, layout, opened_in
from wfdash.web.pages.ui.source_lines import code_files
from wfdash.web.pages.ui.times import number

SHOWS = (
    ("", "All"),
    ("show:open", "Open runs"),
    ("show:waiting", "Waiting"),
    ("show:failed", "Failed"),
    ("show:scheduled", "Scheduled"),
)
LOOKS = ((False, "List"), (True, "Graphs"))
STATES = (
    (Phase.READY, "running", "queued,running,interrupted"),
    (Phase.WAITING, "waiting", "waiting"),
    (Phase.SLEEPING, "sleeping", "sleeping"),
    (Phase.RETRYING, "retrying", "retrying"),
    (Phase.PAUSED, "paused", "paused,held"),
    (Phase.FAILED, "failed", "failed"),
    (Phase.COMPLETED, "completed", "completed"),
    (Phase.CANCELLED, "cancelled", "cancelled"),
)
"""Phase, its style and label, and the statuses by which its runs are found."""


@get_page
def workflows(request: HttpRequest) -> HttpResponse:
    """Show every workflow this person may see, and to operators what failed to load. ``q`` filters."""
    viewer, graphs = viewer_of(request), bool(request.GET.get("graphs"))
    place = CatalogueAddress(q=read_address("workflows", request.GET).q, graphs=graphs)
    every = read_workflows(viewer)
    context = search_context(place, FILTER) | {
        "any": bool(every),
        "looks": [(place.at(graphs=drawn).url(), label, drawn == graphs) for drawn, label in LOOKS],
        "shows": [(place.at(q=query).url(), label, place.q == query) for query, label in SHOWS],
        "failures": read_failures(viewer),
        "author": viewer.may_anywhere("start"),
    }
    try:
        found = matching(every, place.q)
        context["rows"] = [(row, graphs and layout(fold(row.description).description), _counts(row)) for row in found]
    except Invalid as error:
        context["flaws"] = flaws_of(error)
    return render(request, "workflows/page.html", context)


@get_page
def reloaded(request: HttpRequest) -> HttpResponse:
    """Return what the latest reload of the files has changed, as JSON, for a message on open pages."""
    found, viewer = catalog.latest, viewer_of(request)
    failed = [f"{failure.source.rpartition('/')[2]}: {failure.error}" for failure in read_failures(viewer)]
    words = found.words if viewer.may_anywhere("operate") else ()
    return JsonResponse({"number": found.number, "words": list(words), "failed": failed})


@form_page
def workflow(request: HttpRequest, name: str) -> HttpResponse:
    """Show one workflow; a POST starts a run from its form, which ``example``, ``last`` and ``from`` (a run) fill."""
    viewer = viewer_of(request)
    row = read_workflow(viewer, name)
    initial, words = default_input(request, viewer, row)
    form = FormView.from_schema(row.description.input_schema, initial=initial)
    if request.method != "POST":
        return _page(request, viewer, row, form, words=words, initial=initial)
    if not row.may_start:
        raise NotAllowed("You cannot start this workflow. Ask an operator or admin")
    bound = form.bind(request.POST, request.FILES)
    if not bound.is_valid:
        return _page(request, viewer, row, bound, status=200 if bound.changed_rows else 422)
    try:
        run = start_run(viewer, name, bound.value, key=request.POST.get("_key") or None)
    except Invalid as error:
        return _page(request, viewer, row, bound.with_errors(error.errors), status=422)
    messages.success(request, "Run started.")
    return redirect("wfdash:run", run.pk)


def _page(
    request: HttpRequest,
    viewer: Viewer,
    row: WorkflowRow,
    form: FormView,
    status: int = 200,
    words: str = "",
    initial: Json = None,
) -> HttpResponse:
    total, opened = count_runs(viewer, row.name), opened_in(request.GET.get("unfold", ""))
    code = code_of(viewer, row.name)
    context: dict[str, Any] = {
        "row": row,
        "form": form,
        "filled": words,
        "last": last_of(viewer, row.name) if row.may_start else "",
        "key": request.POST.get("_key") or new_key(),
        "drawing": draw_definition(row.description, opened, lambda names: _unfolded(request, names)),
        "opened": opened,
        "gates": gate_summary(gates_of(viewer, row.name), SUMMARY_DAYS),
        "total": _count_text(total, more=total > MAX_COUNTED_RUNS),
        "states": _states(row, count_finished(viewer, row.name), many=total > MAX_COUNTED_RUNS),
        "schedules": read_schedules(viewer, row.name, times=False).items,
        "versions": read_versions(viewer, row.name),
        "old_runs": read_old_runs(viewer, row.name),
        "recent": [(run, status_sentence(run)) for run in read_runs(viewer, f'workflow:"{row.name}"', limit=5).items],
        "examples": range(1, len(row.description.examples) + 1),
        "where": row.source,
        "failures": [failure for failure in read_failures(viewer) if row.name in failure.kept],
        "code": code_files(code),
        "code_missing": not code and is_code_elsewhere(viewer, row.name),
        "start_commands": start_commands(request, row, initial) if row.may_start and row.loaded else None,
    }
    return render(request, "workflows/workflow.html", context, status=status)


def _unfolded(request: HttpRequest, names: str) -> str:
    """Return the address of this page with these parts of the graph open."""
    query = request.GET.copy()
    query["unfold"] = names
    return f"{request.path}?{query.urlencode()}#workflow-graph"


def _states(row: WorkflowRow, settled: dict[str, int], *, many: bool) -> list[tuple[str, str, str]]:
    """Return the style, the number and the statuses of each state that runs of a workflow are in."""
    counts = row.phases | settled
    more = row.more | (frozenset(settled) if many else frozenset())
    return [
        (look, _count_text(counts[phase.value], more=phase.value in more), statuses)
        for phase, look, statuses in STATES
        if counts.get(phase.value)
    ]


def _counts(row: WorkflowRow) -> dict[str, str]:
    """Return the numbers of a workflow in the catalogue, as text, and its runs of the last 24 hours as a drawing."""
    ended = {Phase.FAILED.value, Phase.COMPLETED.value, Phase.CANCELLED.value}
    started, failed = row.hours.values()
    since = timezone.localtime().replace(minute=0) - timedelta(hours=len(started) - 1)
    names = [f"{since + timedelta(hours=n):%H:%M}: " for n in range(len(started))]
    words = [
        f"{name}{number(many)} started" + (f", {number(bad)} failed" if bad else "")
        for name, many, bad in zip(
            ["Last 24 hours: ", *names], [sum(started), *started], [sum(failed), *failed], strict=True
        )
    ]
    return {
        "open": _count_text(row.active, more=bool(row.more - ended)) if row.active else "",
        "failed": _count_text(row.failed, more=Phase.FAILED.value in row.more) if row.failed else "",
        "started": number(sum(started)),
        "hours": sparkline(words[0], started, words[1:], bad=failed),
    }


def _count_text(count: int, *, more: bool) -> str:
    """Return a number of runs as text, or that there are more than were counted."""
    return number(min(count, MAX_COUNTED_RUNS)) + "+" * more


# The initial value of a start form: the author's example, this person's last input, or another run's.


def default_input(request: HttpRequest, viewer: Viewer, row: WorkflowRow) -> tuple[Json, str]:
    """Return the requested input and where it comes from, as text; None and empty without one.

    ``example=1``, ``last=1`` (this person's last run of the workflow) or ``from=<run>``; secrets are never copied.
    Nothing for a POST, which brings its own. ``NotFound`` for a run of another workflow, or one they may not inspect.
    """
    if request.method == "POST":
        return None, ""
    if run_id := request.GET.get("from", "").replace("\0", ""):
        workflow, value = input_of(viewer, run_id)
        if workflow != row.name:
            raise NotFound("That run belongs to another workflow")
        return value, f"Filled in with the input of run {run_id[-8:]}. Secrets are not copied: enter them again."
    if request.GET.get("last"):
        last = last_of(viewer, row.name)
        if last:
            return input_of(viewer, last)[1], "Filled in from your last run, without secrets."
    place = request.GET.get("example", "")
    examples = row.description.examples
    wanted = number_in(place)
    return (examples[wanted - 1] if 0 < wanted <= len(examples) else None), ""
