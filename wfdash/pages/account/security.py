"""One's own account: the password, and the browsers one is signed in with."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters

from wfdash.access.viewer import Viewer
from wfdash.actions.account.password import end_other_sessions, end_own_session, set_password
from wfdash.errors import Busy, Invalid, NotFound, TooManyTries, status_for
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.queries.account.security import own_account
from wfdash.rendering import render


@page("GET", "POST")
@sensitive_post_parameters("current", "new", "repeated", "code")
def account(request: HttpRequest) -> HttpResponse:
    """Show whether this person has a password, and their sessions; a POST (``act``) changes one or ends some."""
    viewer, act = viewer_of(request), request.POST.get("act", "")
    if request.method != "POST":
        return _shown(request, viewer)
    try:
        if act == "password":
            _change_password(request, viewer)
        elif act == "others":
            count = end_other_sessions(viewer, request.session.session_key)
            messages.success(request, f"Ended {count} other session{'' if count == 1 else 's'}.")
        elif act == "end":
            end_own_session(viewer, request.POST.get("session", ""))
            messages.success(request, "Session ended.")
    except Invalid as error:
        return _shown(request, viewer, problems=error.by_field, status=422)
    except (TooManyTries, Busy) as error:
        response = _shown(request, viewer, problems={"current": str(error).rstrip(".")}, status=status_for(error))
        response.headers["Retry-After"] = str(error.facts["retry_after"])
        return response
    except NotFound as error:
        messages.error(request, f"{error}.")
    return redirect("wfdash:account")


def _change_password(request: HttpRequest, viewer: Viewer) -> None:
    given = {name: request.POST.get(name, "") for name in ("repeated", "current", "code")}
    user = set_password(viewer, request.POST.get("new", ""), **given, session=request.session.session_key)
    # Also gives the session another key, so that a stolen one is worth nothing.
    update_session_auth_hash(request, user)
    messages.success(request, "Password saved. Other browsers were signed out.")


def _shown(
    request: HttpRequest, viewer: Viewer, *, problems: dict[str, str] | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "account": own_account(viewer, request.session.session_key),
        "problems": problems or {},
        "here": "account",
    }
    return render(request, "account/settings/account.html", context, status=status)
