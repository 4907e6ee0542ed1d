"""One's own account: the password, the sign-in provider, and the browsers one is signed in with."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import Viewer
from wfdash.actions.account import end_other_sessions, end_own_session, set_password
from wfdash.actions.people.identities import disconnect_own, may_connect
from wfdash.domain.errors import (
    Busy,
    Invalid,
    NotFound,
    ProviderUnavailable,
    SignInFailed,
    TooManyTries,
    WrongState,
    status_for,
)
from wfdash.notifications.rendering import render
from wfdash.queries.account import own_account
from wfdash.web.pages.account.provider import to_provider
from wfdash.web.pages.site.decorators import page, viewer_of
from wfdash.web.problems import with_retry


@page("GET", "POST")
@sensitive_post_parameters("current", "new", "repeated", "code", "passkey")
def account(request: HttpRequest) -> HttpResponse:
    """Show whether this person has a password, and their sessions; a POST (``act``) changes one or ends some."""
    viewer, act = viewer_of(request), request.POST.get("act", "")
    if request.method != "POST":
        return _shown(request, viewer)
    try:
        if act == "password":
            given = {name: request.POST.get(name, "") for name in ("repeated", "current", "code", "passkey")}
            user = set_password(viewer, request.POST.get("new", ""), **given, session=request.session.session_key)
            # Also gives the session another key, so that a stolen one is worth nothing.
            update_session_auth_hash(request, user)
            messages.success(request, "Password saved. Other browsers were signed out.")
        elif act == "connect":
            return _connect(request, viewer)
        elif act == "disconnect":
            disconnect_own(viewer, session=request.session.session_key)
            messages.success(request, "Disconnected. Other browsers were signed out.")
        elif act == "others":
            count = end_other_sessions(viewer, request.session.session_key)
            messages.success(request, f"Ended {count} other session{'' if count == 1 else 's'}.")
        elif act == "end":
            end_own_session(viewer, request.POST.get("session", ""))
            messages.success(request, "Session ended.")
    except Invalid as error:
        return _shown(request, viewer, act=act, problems=error.by_field, status=422)
    except (TooManyTries, Busy) as error:
        problems = {"current": str(error).rstrip(".")}
        return with_retry(_shown(request, viewer, act=act, problems=problems, status=status_for(error)), error.facts)
    except (NotFound, WrongState, ProviderUnavailable, SignInFailed) as error:
        messages.error(request, f"{error}.")
    return redirect("wfdash:account")


def _connect(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    provider = provider_in_use()
    if provider is None:
        raise NotFound("No sign-in provider is set")
    may_connect(viewer, provider, **{name: request.POST.get(name, "") for name in ("current", "code", "passkey")})
    return to_provider(request, provider, "", connects=str(viewer.user.pk))


def _shown(
    request: HttpRequest, viewer: Viewer, *, act: str = "", problems: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "account": own_account(viewer, request.session.session_key),
        "problems": (problems or {}) if act != "connect" else {},
        "connecting": (problems or {}) if act == "connect" else {},
        "here": "account",
    }
    return render(request, "account/settings/account.html", context, status=status)
