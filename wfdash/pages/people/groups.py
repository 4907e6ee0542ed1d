"""Groups: the list with what workflows need, and one group."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.people import grants
from wfdash.actions.people import groups as actions
from wfdash.errors import Invalid, NotFound, WrongState
from wfdash.pages.people.forms import grant_form, revoke_chosen, role_title
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.queries import people as queries
from wfdash.rendering import render


@page("GET", "POST")
def groups(request: HttpRequest) -> HttpResponse:
    """List groups, and the names in workflows that lead to no one; a POST makes a group."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            made = actions.make_group(viewer, request.POST.get("name", ""))
            messages.success(request, f"Group {made.name} made. Add its members.")
            return redirect("wfdash:group", made.name)
        except Invalid as error:
            problems = error.by_field
    context = {
        "rows": queries.groups(viewer),
        "needs": queries.needs(viewer),
        "typed": request.POST,
        "problems": problems,
        "whole": True,
        "here": "groups",
    }
    return render(request, "people/groups.html", context, status=422 if problems else 200)


@page("GET", "POST")
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Show a group; a POST (``act``) changes its members, grants or name, or deletes it."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _shown(request, viewer, name)
    queries.group(viewer, name)
    try:
        return redirect("wfdash:group", moved) if (moved := _act(request, viewer, name)) else redirect("wfdash:groups")
    except Invalid as error:
        return _shown(request, viewer, name, problems=error.by_field)
    except (WrongState, NotFound) as error:
        messages.error(request, f"{error}.")
        return redirect("wfdash:group", name)


def _act(request: HttpRequest, viewer: Viewer, name: str) -> str:
    """Do what a button says; return what the group is called then, empty if it is gone."""
    act, post = request.POST.get("act", ""), request.POST
    if act == "add":
        actions.add_member(viewer, name, person := post.get("person", "").strip())
        messages.success(request, f"{person} is now in {name}.")
    elif act == "remove":
        actions.remove_member(viewer, name, person := post.get("person", ""))
        messages.success(request, f"{person} is no longer in {name}.")
    elif act == "grant":
        grants.grant_role(viewer, post.get("role", ""), workflow=post.get("workflow", "") or EVERY, group=name)
        messages.success(
            request, f"Everyone in {name} is now {post['role']} of {role_title(post['workflow'] or EVERY)}."
        )
    elif act == "revoke":
        messages.success(request, revoke_chosen(request, viewer))
    elif act == "rename":
        name = actions.rename_group(viewer, name, post.get("name", "")).name
        messages.success(request, f"The group is now called {name}.")
    elif act == "delete":
        actions.delete_group(viewer, name)
        messages.success(request, f"Group {name} deleted.")
        return ""
    return name


def _shown(request: HttpRequest, viewer: Viewer, name: str, problems: Mapping[str, str] | None = None) -> HttpResponse:
    view, act = queries.group(viewer, name), request.POST.get("act", "")
    context = grant_form(viewer, request.POST if act == "grant" else {}, (problems or {}) if act == "grant" else {})
    context |= {
        "view": view,
        "row": view.row,
        "name": view.row.name,
        "listed": [(role, role_title(role.workflow)) for role in view.row.roles],
        "act": act,
        "wrong": problems or {},
        "given": request.POST,
        "whole": True,
        "here": "groups",
    }
    return render(request, "people/group.html", context, status=422 if problems else 200)
