"""A run whose workflow has changed: a preview of migrating or overriding, and its button."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from checkpoints.errors import Incompatible
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.errors import WrongState, status_for
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.queries.runs.listing import read_run
from wfdash.queries.runs.versions import graph_difference, migration_plan
from wfdash.rendering import render

MIGRATED = "Run migrated to the current version. Answers are kept."
OVERRIDDEN = "Run continued on the current version. Answers are kept."


@page("GET", "POST")
def migrate(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what the declared migration would do; a POST does it."""
    return _migration_page(request, run_id, override=False)


@page("GET", "POST")
def override(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what continuing under the current graph would do; a POST does it."""
    return _migration_page(request, run_id, override=True)


def _migration_page(request: HttpRequest, run_id: str, *, override: bool) -> HttpResponse:
    if request.method != "POST":
        return _preview(request, run_id, override)
    try:
        verb = override_run if override else migrate_run
        verb(viewer_of(request), run_id, key=key_of(request))
    except Incompatible as error:
        return _preview(request, run_id, override, status=status_for(error))
    except WrongState as error:
        messages.warning(request, str(error))
    else:
        messages.success(request, OVERRIDDEN if override else MIGRATED)
    return redirect("wfdash:run", run_id)


def _preview(request: HttpRequest, run_id: str, override: bool, status: int = 200) -> HttpResponse:
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    choice = migration_plan(viewer, run_id, override=override)
    context = {"run": run, "behind": graph_difference(run), "choice": choice}
    return render(request, "runs/actions/migrate.html", context, status=status)
