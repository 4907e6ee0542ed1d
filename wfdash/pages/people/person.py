"""One person: their roles and what these allow, their absences, and what an admin may do to the account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from wfdash.access.roles import ORDER
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.people import accounts, grants, groups, identities, security
from wfdash.errors import Invalid, NotFound, WrongState
from wfdash.pages.account.out_of_office import read_days
from wfdash.pages.account.tokens import made_by, new_token, revoke_posted, show_new, token_form
from wfdash.pages.people.forms import base_of, grant_form, revoke_chosen, role_title, show_invitation
from wfdash.pages.site.decorators import page, shown_once, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.queries import people
from wfdash.queries.audit import read_entries
from wfdash.queries.people import PersonView
from wfdash.queries.people import person as read_person
from wfdash.rendering import render

Act = Callable[[HttpRequest, Viewer, str], str]


@page("GET", "POST")
def person(request: HttpRequest, name: str) -> HttpResponse:
    """Show a person; a POST (``act``) changes what it says and shows the page again."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _shown(request, viewer, name)
    read_person(viewer, name)
    act = request.POST.get("act", "")
    try:
        if act == "link":
            return show_invitation(request, accounts.make_sign_in_link(viewer, name, base=base_of(request)), new=False)
        if act == "token":
            return show_new(request, made_by(request, owner=name), "wfdash:person", name)
        if act == "revoke-token":
            revoke_posted(request, viewer)
        elif act in ACTS:
            messages.success(request, ACTS[act](request, viewer, name))
    except Invalid as error:
        return _shown(request, viewer, name, act=act, problems=error.by_field)
    except (WrongState, NotFound) as error:
        messages.error(request, f"{error}.")
    return redirect("wfdash:person", name)


def _shown(
    request: HttpRequest, viewer: Viewer, name: str, *, act: str = "", problems: Mapping[str, str] | None = None
) -> HttpResponse:
    view = read_person(viewer, name)
    shown = shown_once(request)
    if "token" in shown:
        return new_token(request, shown)
    if shown:
        context = {"made": shown, "name": name, "row": view.row, "whole": view.whole, "here": "people"}
        return render(request, "people/link.html", context)
    context = grant_form(viewer, request.POST if act == "grant" else {}, (problems or {}) if act == "grant" else {})
    context |= {
        "view": view,
        "row": view.row,
        "listed": [(role, role_title(role.workflow), _may_revoke(viewer, role)) for role in view.row.roles],
        "columns": ORDER,
        "whole": view.whole,
        "here": "people",
        "act": act,
        "wrong": problems or {},
        "given": request.POST,
        "today": timezone.localdate().isoformat(),
        "audit": f"{reverse('wfdash:audit')}?{urlencode({'q': f'actor:{name}'})}",
        **(_whole_context(viewer, view, act, request.POST, problems or {}) if view.whole else {}),
    }
    return render(request, "people/person.html", context, status=422 if problems else 200)


def _whole_context(
    viewer: Viewer, view: PersonView, act: str, post: QueryDict, problems: Mapping[str, str]
) -> dict[str, Any]:
    joinable = [row.name for row in people.groups(viewer) if not row.django or viewer.user.is_superuser]
    return {
        "joinable": [name for name in joinable if name not in view.row.groups],
        "delegates": [name for name in view.delegates if name != viewer.name],
        **(token_form(viewer, post if act == "token" else QueryDict(), problems) if view.row.service else {}),
        "acts": read_entries(viewer, f'actor:"{view.row.name}"', limit=5).items,
    }


def _may_revoke(viewer: Viewer, role: Any) -> bool:
    return not role.superuser and not role.group and viewer.may("admin", role.workflow)


def _grant(request: HttpRequest, viewer: Viewer, name: str) -> str:
    role, workflow = request.POST.get("role", ""), request.POST.get("workflow", "") or EVERY
    grants.grant_role(viewer, role, workflow=workflow, person=name)
    return f"{name} is now {role} of {role_title(workflow)}."


def _revoke(request: HttpRequest, viewer: Viewer, name: str) -> str:
    return revoke_chosen(request, viewer)


def _join(request: HttpRequest, viewer: Viewer, name: str) -> str:
    group = request.POST.get("group", "")
    groups.add_member(viewer, group, name)
    return f"{name} is now in {group}."


def _leave(request: HttpRequest, viewer: Viewer, name: str) -> str:
    group = request.POST.get("group", "")
    groups.remove_member(viewer, group, name)
    return f"{name} is no longer in {group}."


def _sign_out(request: HttpRequest, viewer: Viewer, name: str) -> str:
    count = security.end_sessions_of(viewer, name)
    return f"Ended {count} session{'' if count == 1 else 's'} of {name}."


def _reset_factor(request: HttpRequest, viewer: Viewer, name: str) -> str:
    security.reset_second_factor(viewer, name)
    return f"{name} can sign in without a second factor until they set up a new one."


def _disconnect(request: HttpRequest, viewer: Viewer, name: str) -> str:
    identities.disconnect_person(viewer, name)
    return f"{name} is disconnected from the sign-in provider and signed out."


def _deactivate(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.deactivate_person(viewer, name)
    return f"{name} is deactivated and signed out."


def _reactivate(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.reactivate_person(viewer, name)
    return f"{name} is active again, with the same groups and roles."


def _address(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.change_address(viewer, name, request.POST.get("email", ""))
    return "Email address saved."


def _away(request: HttpRequest, viewer: Viewer, name: str) -> str:
    since, until, problems = read_days(request)
    if problems or since is None or until is None:
        raise Invalid([{"loc": [field], "msg": words} for field, words in problems.items()])
    delegate, reason = request.POST.get("delegate", "").strip(), request.POST.get("reason", "")
    security.set_absence_of(viewer, name, delegate, since, until, reason=reason)
    return f"Out of office set. {delegate} can decide for {name}."


def _back(request: HttpRequest, viewer: Viewer, name: str) -> str:
    security.end_absence_of(viewer, name, number_in(request.POST.get("absence", "")))
    return "Out of office ended."


ACTS: Mapping[str, Act] = {
    "grant": _grant,
    "revoke": _revoke,
    "join": _join,
    "leave": _leave,
    "sessions": _sign_out,
    "factor": _reset_factor,
    "disconnect": _disconnect,
    "deactivate": _deactivate,
    "reactivate": _reactivate,
    "email": _address,
    "away": _away,
    "back": _back,
}
"""What the page's buttons do; each returns the message for it."""
