"""The list of people, and the form that invites someone."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from wfdash.access.administration import administered
from wfdash.access.viewer import EVERY
from wfdash.actions.people.accounts import create_service_account, invite_person
from wfdash.errors import Invalid, NotAllowed
from wfdash.pages.people.forms import base_of, grant_form, show_invitation
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.numbers import number_in
from wfdash.queries.people import SHOWN, PeoplePage, groups, needs, people
from wfdash.rendering import render

BLANK_ROLES = 3
"""Roles that the form offers at once; more are granted on the person's page."""


@page("GET")
def people_list(request: HttpRequest) -> HttpResponse:
    """Show people, by name; ``q`` searches, ``show`` is a tab, ``page`` a page of them."""
    viewer = viewer_of(request)
    text, show = request.GET.get("q", "").strip()[:200], request.GET.get("show", "")
    show = show if show in SHOWN else ""
    number = number_in(request.GET.get("page", "")) or 1
    found = people(viewer, text, show=show, number=number)
    whole = administered(viewer) is None
    context = {
        "found": found,
        "q": text,
        "show": show,
        "tabs": [(_address(text, key), label, key == show) for key, label in SHOWN.items()] if whole else [],
        "whole": whole,
        "here": "people",
        "needs": len(needs(viewer)) if whole else 0,
        **_neighbours(found, text, show),
    }
    return render(request, "people/page.html", context)


@page("GET", "POST")
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
                return _made_service_account(request, [(role, workflow) for role, workflow in roles if role])
            made = invite_person(
                viewer,
                post.get("name", ""),
                email=post.get("email", ""),
                groups=post.getlist("groups"),
                roles=[(role, workflow) for role, workflow in roles if role],
                base=base_of(request),
            )
            return show_invitation(request, made, new=True)
        except Invalid as error:
            problems = error.by_field
    context = grant_form(viewer, post, problems) | {
        "groups": [(row.name, row.name in post.getlist("groups")) for row in groups(viewer) if not row.django],
        "chosen": [*roles[:BLANK_ROLES], *[("", EVERY)] * (BLANK_ROLES - len(roles))],
        "whole": True,
        "here": "people",
    }
    return render(request, "people/invite.html", context, status=422 if problems else 200)


def _made_service_account(request: HttpRequest, roles: list[tuple[str, str]]) -> HttpResponse:
    """Make a service account, and go where it gets its first token."""
    name, about = request.POST.get("name", ""), request.POST.get("about", "")
    chosen = request.POST.getlist("groups")
    user = create_service_account(viewer_of(request), name, about=about, groups=chosen, roles=roles)
    messages.success(request, f"Service account {user.get_username()} made. Make its first token below.")
    return redirect("wfdash:person", user.get_username())


def _neighbours(found: PeoplePage, text: str, show: str) -> dict[str, str]:
    before = _address(text, show, found.number - 1) if found.number > 1 else ""
    after = _address(text, show, found.number + 1) if found.number < found.pages else ""
    return {"before": before, "after": after}


def _address(text: str, show: str, number: int = 1) -> str:
    query = {"q": text, "show": show, "page": str(number) if number > 1 else ""}
    given = urlencode({name: value for name, value in query.items() if value})
    return reverse("wfdash:people-list") + (f"?{given}" if given else "")
