"""Who may do what in a workflow, who may answer its questions, and why."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from wfdash.access.administration import administered
from wfdash.access.roles import ORDER
from wfdash.access.viewer import Viewer
from wfdash.actions.people import grants
from wfdash.errors import Invalid, NotFound, WrongState
from wfdash.pages.people.forms import ROLES, revoke_chosen
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.queries.people import WorkflowAccess, managed_workflows, workflow_access
from wfdash.rendering import render


@page("GET", "POST")
def access(request: HttpRequest) -> HttpResponse:
    """Show who may do what in ``workflow``; a POST grants or revokes a role for it."""
    viewer = viewer_of(request)
    known = managed_workflows(viewer)
    workflow = request.GET.get("workflow") or (known[0][0] if known else "")
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            _act(request, viewer, workflow)
            return redirect(_address(workflow))
        except Invalid as error:
            problems = error.by_field
        except (WrongState, NotFound) as error:
            messages.error(request, f"{error}.")
            return redirect(_address(workflow))
    number = number_in(request.GET.get("page", "")) or 1
    found = workflow_access(viewer, workflow, number=number) if workflow else None
    context = {
        "found": found,
        "known": known,
        "workflow": workflow,
        "columns": ORDER,
        "roles": ROLES,
        "typed": request.POST,
        "problems": problems,
        "whole": administered(viewer) is None,
        "grants": [(one, viewer.may("admin", one[2].workflow)) for one in found.grants] if found else [],
        "here": "access",
        **(_neighbours(found) if found else {}),
    }
    return render(request, "people/access/page.html", context, status=422 if problems else 200)


def _act(request: HttpRequest, viewer: Viewer, workflow: str) -> None:
    post = request.POST
    if post.get("act") == "revoke":
        messages.success(request, revoke_chosen(request, viewer))
    elif post.get("act") == "grant":
        role, name = post.get("role", ""), post.get("name", "").strip()
        to = {"group": name} if post.get("kind") == "group" else {"person": name}
        grants.grant_role(viewer, role, workflow=workflow, **to)
        messages.success(request, f"{name} is now {role}.")


def _neighbours(found: WorkflowAccess) -> Mapping[str, str]:
    before = _address(found.workflow, found.number - 1) if found.number > 1 else ""
    after = _address(found.workflow, found.number + 1) if found.number < found.pages else ""
    return {"before": before, "after": after}


def _address(workflow: str, number: int = 1) -> str:
    given = {"workflow": workflow, **({"page": str(number)} if number > 1 else {})}
    return f"{reverse('wfdash:access')}?{urlencode(given)}"
