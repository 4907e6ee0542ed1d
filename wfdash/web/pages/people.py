"""Pages of people: the list, one person, invitations, groups, who may do what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode as plain_urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from wfdash.access.directory import administered
from wfdash.access.viewer import EVERY, ORDER, Viewer
from wfdash.actions.people import accounts, identities
from wfdash.actions.people import roles as role_actions
from wfdash.actions.people.accounts import Invitation, create_service_account, invite_person
from wfdash.actions.people.roles import revoke_role
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState, wrong
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.audit import read_entries
from wfdash.queries.people import (
    SHOWN,
    PersonView,
    WorkflowAccess,
    managed_workflows,
    needs,
    workflow_access,
)
from wfdash.queries.people import group as group_of
from wfdash.queries.people import groups as groups_of
from wfdash.queries.people import people as read_people
from wfdash.queries.people import person as read_person
from wfdash.web.pages.account.security import made_by, new_token, revoke_posted, show_new, token_form
from wfdash.web.pages.account.settings import read_days
from wfdash.web.pages.site.decorators import form_page, get_page, key_of, number_in, show_once, shown_once, viewer_of
from wfdash.web.pages.site.list_page import decisions_address, term
from wfdash.web.pages.ui.times import counted

# One person: their roles and what these allow, their absences, and what an admin may do to the account.

Act = Callable[[HttpRequest, Viewer, str], str]


@form_page
def person(request: HttpRequest, name: str) -> HttpResponse:
    """Show a person; a POST (``act``) changes what it says and shows the page again."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _person_shown(request, viewer, name)
    read_person(viewer, name)
    act = request.POST.get("act", "")
    try:
        if act == "link":
            made = accounts.make_sign_in_link(viewer, name, base=base_of(request), key=key_of(request))
            return show_invitation(request, made, new=False)
        if act == "token":
            return show_new(request, made_by(request, owner=name), "wfdash:person", name)
        if act == "revoke-token":
            revoke_posted(request, viewer)
        elif act in ACTS:
            messages.success(request, ACTS[act](request, viewer, name))
    except Invalid as error:
        return _person_shown(request, viewer, name, act=act, problems=error.by_field)
    except (WrongState, NotFound) as error:
        messages.error(request, f"{error}.")
    return redirect("wfdash:person", name)


def _person_shown(
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
        "listed": [
            (role, role_title(role.workflow), not (role.superuser or role.group) and viewer.may("admin", role.workflow))
            for role in view.row.roles
        ],
        "columns": ORDER,
        "whole": view.whole,
        "here": "people",
        "act": act,
        "wrong": problems or {},
        "given": request.POST,
        "today": timezone.localdate().isoformat(),
        "audit": f"{reverse('wfdash:audit')}?{plain_urlencode({'q': term('actor', name)})}",
        "decided": decisions_address(term("by", name), "answered:<7d"),
        **(_whole_context(viewer, view, act, request.POST, problems or {}) if view.whole else {}),
    }
    return render(request, "people/person.html", context, status=422 if problems else 200)


def _whole_context(
    viewer: Viewer, view: PersonView, act: str, post: QueryDict, problems: Mapping[str, str]
) -> dict[str, Any]:
    joinable = [row.name for row in groups_of(viewer) if not row.django or viewer.user.is_superuser]
    return {
        "joinable": [name for name in joinable if name not in view.row.groups],
        "delegates": [name for name in view.delegates if name != viewer.name],
        **(token_form(viewer, post if act == "token" else QueryDict(), problems) if view.row.service else {}),
        "acts": read_entries(viewer, f'actor:"{view.row.name}"', limit=5).items,
    }


def _grant(request: HttpRequest, viewer: Viewer, name: str) -> str:
    role, workflow = request.POST.get("role", ""), request.POST.get("workflow", "") or EVERY
    role_actions.grant_role(viewer, role, workflow=workflow, person=name)
    return f"{name} is now {role} of {role_title(workflow)}."


def _join(request: HttpRequest, viewer: Viewer, name: str) -> str:
    group = request.POST.get("group", "")
    role_actions.add_member(viewer, group, name)
    return f"{name} is now in {group}."


def _leave(request: HttpRequest, viewer: Viewer, name: str) -> str:
    group = request.POST.get("group", "")
    role_actions.remove_member(viewer, group, name)
    return f"{name} is no longer in {group}."


def _sign_out(request: HttpRequest, viewer: Viewer, name: str) -> str:
    count = accounts.end_sessions_of(viewer, name)
    return f"Ended {counted(count, 'session')} of {name}."


def _reset_factor(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.reset_second_factor(viewer, name)
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


def _change_address(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.change_address(viewer, name, request.POST.get("email", ""))
    return "Email address saved."


def _away(request: HttpRequest, viewer: Viewer, name: str) -> str:
    since, until, problems = read_days(request)
    if problems or since is None or until is None:
        raise Invalid([wrong(field, words) for field, words in problems.items()])
    delegate, reason = request.POST.get("delegate", "").strip(), request.POST.get("reason", "")
    accounts.set_absence_of(viewer, name, delegate, since, until, reason=reason)
    return f"Out of office set. {delegate} can decide for {name}."


def _back(request: HttpRequest, viewer: Viewer, name: str) -> str:
    accounts.end_absence_of(viewer, name, number_in(request.POST.get("absence", "")))
    return "Out of office ended."


ACTS: Mapping[str, Act] = {
    "grant": _grant,
    "revoke": lambda request, viewer, name: revoke_chosen(request, viewer),
    "join": _join,
    "leave": _leave,
    "sessions": _sign_out,
    "factor": _reset_factor,
    "disconnect": _disconnect,
    "deactivate": _deactivate,
    "reactivate": _reactivate,
    "email": _change_address,
    "away": _away,
    "back": _back,
}
"""What the page's buttons do; each returns the message for it."""


# The list of people, and the form that invites someone.

BLANK_ROLES = 3
"""Roles that the form offers at once; more are granted on the person's page."""


@get_page
def people(request: HttpRequest) -> HttpResponse:
    """Show people, by name; ``q`` searches, ``show`` is a tab, ``page`` a page of them."""
    viewer = viewer_of(request)
    text, show = request.GET.get("q", "").strip()[:200], request.GET.get("show", "")
    show = show if show in SHOWN else ""
    number = number_in(request.GET.get("page", "")) or 1
    found = read_people(viewer, text, show=show, number=number)
    whole = administered(viewer) is None
    before = _people_address(text, show, found.number - 1) if found.number > 1 else ""
    after = _people_address(text, show, found.number + 1) if found.number < found.pages else ""
    context = {
        "found": found,
        "q": text,
        "show": show,
        "tabs": [(_people_address(text, key), label, key == show) for key, label in SHOWN.items()] if whole else [],
        "whole": whole,
        "here": "people",
        "needs": len(needs(viewer)) if whole else 0,
        "before": before,
        "after": after,
    }
    return render(request, "people/page.html", context)


@form_page
def invite(request: HttpRequest) -> HttpResponse:
    """Show the form that invites a person; a POST makes the account; its page shows its sign-in link, this once."""
    viewer, post = viewer_of(request), request.POST
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can invite people")
    problems: dict[str, str] = {}
    roles = list(zip(post.getlist("role"), post.getlist("workflow"), strict=False))
    if request.method == "POST":
        try:
            if post.get("kind") == "service":
                # Go where it gets its first token.
                roles = [(role, workflow) for role, workflow in roles if role]
                name, about = request.POST.get("name", ""), request.POST.get("about", "")
                chosen = request.POST.getlist("groups")
                user = create_service_account(viewer_of(request), name, about=about, groups=chosen, roles=roles)
                messages.success(request, f"Service account {user.get_username()} made. Make its first token below.")
                return redirect("wfdash:person", user.get_username())
            made = invite_person(
                viewer,
                post.get("name", ""),
                email=post.get("email", ""),
                groups=post.getlist("groups"),
                roles=[(role, workflow) for role, workflow in roles if role],
                base=base_of(request),
                key=key_of(request),
            )
            return show_invitation(request, made, new=True)
        except Invalid as error:
            problems = error.by_field
    context = grant_form(viewer, post, problems) | {
        "groups": [(row.name, row.name in post.getlist("groups")) for row in groups_of(viewer) if not row.django],
        "chosen": [*roles[:BLANK_ROLES], *[("", EVERY)] * (BLANK_ROLES - len(roles))],
        "whole": True,
        "here": "people",
    }
    return render(request, "people/invite.html", context, status=422 if problems else 200)


def _people_address(text: str, show: str, number: int = 1) -> str:
    query = {"q": text, "show": show, "page": str(number) if number > 1 else ""}
    given = urlencode({name: value for name, value in query.items() if value})
    return reverse("wfdash:people") + (f"?{given}" if given else "")


# Groups: the list with what workflows need, and one group.


@form_page
def groups(request: HttpRequest) -> HttpResponse:
    """List groups, and the names in workflows that lead to no one; a POST makes a group."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            made = role_actions.make_group(viewer, request.POST.get("name", ""))
            messages.success(request, f"Group {made.name} made. Add its members.")
            return redirect("wfdash:group", made.name)
        except Invalid as error:
            problems = error.by_field
    context = {
        "rows": groups_of(viewer),
        "needs": needs(viewer),
        "typed": request.POST,
        "problems": problems,
        "whole": True,
        "here": "groups",
    }
    return render(request, "people/groups.html", context, status=422 if problems else 200)


@form_page
def group(request: HttpRequest, name: str) -> HttpResponse:
    """Show a group; a POST (``act``) changes its members, grants or name, or deletes it."""
    viewer = viewer_of(request)
    if request.method != "POST":
        return _group_shown(request, viewer, name)
    group_of(viewer, name)
    try:
        return (
            redirect("wfdash:group", moved)
            if (moved := _change_group(request, viewer, name))
            else redirect("wfdash:groups")
        )
    except Invalid as error:
        return _group_shown(request, viewer, name, problems=error.by_field)
    except (WrongState, NotFound) as error:
        messages.error(request, f"{error}.")
        return redirect("wfdash:group", name)


def _change_group(request: HttpRequest, viewer: Viewer, name: str) -> str:
    """Do what a button says; return what the group is called then, empty if it is gone."""
    act, post = request.POST.get("act", ""), request.POST
    if act == "add":
        role_actions.add_member(viewer, name, person := post.get("person", "").strip())
        messages.success(request, f"{person} is now in {name}.")
    elif act == "remove":
        role_actions.remove_member(viewer, name, person := post.get("person", ""))
        messages.success(request, f"{person} is no longer in {name}.")
    elif act == "grant":
        role_actions.grant_role(viewer, post.get("role", ""), workflow=post.get("workflow", "") or EVERY, group=name)
        messages.success(
            request, f"Everyone in {name} is now {post['role']} of {role_title(post['workflow'] or EVERY)}."
        )
    elif act == "revoke":
        messages.success(request, revoke_chosen(request, viewer))
    elif act == "rename":
        name = role_actions.rename_group(viewer, name, post.get("name", "")).name
        messages.success(request, f"The group is now called {name}.")
    elif act == "delete":
        role_actions.delete_group(viewer, name)
        messages.success(request, f"Group {name} deleted.")
        return ""
    return name


def _group_shown(
    request: HttpRequest, viewer: Viewer, name: str, problems: Mapping[str, str] | None = None
) -> HttpResponse:
    view, act = group_of(viewer, name), request.POST.get("act", "")
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


# Who may do what in a workflow, who may answer its questions, and why.


@form_page
def access(request: HttpRequest) -> HttpResponse:
    """Show who may do what in ``workflow``; a POST grants or revokes a role for it."""
    viewer = viewer_of(request)
    known = managed_workflows(viewer)
    workflow = request.GET.get("workflow") or (known[0][0] if known else "")
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            _change_access(request, viewer, workflow)
            return redirect(_access_address(workflow))
        except Invalid as error:
            problems = error.by_field
        except (WrongState, NotFound) as error:
            messages.error(request, f"{error}.")
            return redirect(_access_address(workflow))
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
        **(_access_neighbours(found) if found else {}),
    }
    return render(request, "people/access/page.html", context, status=422 if problems else 200)


def _change_access(request: HttpRequest, viewer: Viewer, workflow: str) -> None:
    post = request.POST
    if post.get("act") == "revoke":
        messages.success(request, revoke_chosen(request, viewer))
    elif post.get("act") == "grant":
        role, name = post.get("role", ""), post.get("name", "").strip()
        to = {"group": name} if post.get("kind") == "group" else {"person": name}
        role_actions.grant_role(viewer, role, workflow=workflow, **to)
        messages.success(request, f"{name} is now {role}.")


def _access_neighbours(found: WorkflowAccess) -> Mapping[str, str]:
    before = _access_address(found.workflow, found.number - 1) if found.number > 1 else ""
    after = _access_address(found.workflow, found.number + 1) if found.number < found.pages else ""
    return {"before": before, "after": after}


def _access_address(workflow: str, number: int = 1) -> str:
    given = {"workflow": workflow, **({"page": str(number)} if number > 1 else {})}
    return f"{reverse('wfdash:access')}?{urlencode(given)}"


# What forms about people share: choices of roles and workflows, the address for links.

ROLES = (
    ("viewer", "sees runs and their values"),
    ("reviewer", "sees runs, answers requests"),
    ("author", "sees runs and workflow code, starts runs"),
    ("operator", "does all of that, retries, restores and cancels runs"),
    ("admin", "also manages roles"),
)
"""Each role with what it is for."""


def base_of(request: HttpRequest) -> str:
    """Return the address of the dashboard as this person reaches it, for links."""
    return request.build_absolute_uri("/").rstrip("/")


def show_invitation(request: HttpRequest, made: Invitation, *, new: bool) -> HttpResponse:
    """Redirect to the person's page, which shows their sign-in link, this once. ``new``: their account is."""
    shown = {"link": made.link, "mailed": made.mailed, "new": new}
    return show_once(request, shown, "wfdash:person", made.user.get_username())


def workflow_choices(viewer: Viewer) -> list[tuple[str, str]]:
    """Return name and title of what this person may grant roles for, every workflow first (one query)."""
    everywhere = [(EVERY, "Every workflow")] if viewer.may("admin", EVERY) else []
    return [*everywhere, *managed_workflows(viewer)]


def revoke_chosen(request: HttpRequest, viewer: Viewer) -> str:
    """Revoke the grant that a POST names, and return the message for it."""
    revoke_role(viewer, number_in(request.POST.get("grant", "")))
    return "Role revoked."


def grant_form(viewer: Viewer, typed: Mapping[str, Any], problems: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the form that grants a role."""
    return {"roles": ROLES, "workflows": workflow_choices(viewer), "typed": typed, "problems": problems}


def role_title(workflow: str) -> str:
    """Return what a grant's workflow is called; one that is not loaded keeps its name."""
    return "every workflow" if workflow == EVERY else catalog.title_of(workflow)
