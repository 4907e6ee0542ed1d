"""What forms about people share: choices of roles and workflows, the address for links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from wfdash import catalog
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.people.accounts import Invitation
from wfdash.actions.people.grants import revoke_role
from wfdash.pages.site.decorators import show_once
from wfdash.pages.site.numbers import number_in
from wfdash.queries.people import managed_workflows

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
    return "every workflow" if workflow == EVERY else catalog.titles().get(workflow, workflow)
