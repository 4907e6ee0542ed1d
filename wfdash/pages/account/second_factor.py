"""The second factor: asked for at sign-in, set up and managed in the settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from checkpoints.models.user_model import User
from wfdash.errors import Invalid, TooManyTries, status_for
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.time_zone import keep_zone
from wfdash.problems import with_retry
from wfdash.rendering import render
from wfdash.signin import second_factor as signin_second_factor
from wfdash.signin.known_browsers import remember_browser
from wfdash.signin.open_sessions import note_start

PENDING = "wfdash_signing_in"
SETUP = "wfdash_second_factor_setup"
"""The session key with the id of the set-up that this session started."""
SECONDS = 600
"""Time to enter a code after the password or the link."""


def enter(
    request: HttpRequest, user: User, target: str, *, how: str, asks: bool = True, ends: datetime | None = None
) -> HttpResponse:
    """Start the session after the password or link, or ask for the second factor first.

    ``asks``: False after a sign-in elsewhere that counts as one with a second factor. ``ends``: when the session ends,
    if it does not last as long as others.
    """
    if not asks:
        response = _start_session(request, user, target, how=how, ends=ends)
        request.session[signin_second_factor.SESSION_MARK] = True
        return response
    if not signin_second_factor.is_on(user) and not signin_second_factor.is_required():
        return _start_session(request, user, target, how=how, ends=ends)
    request.session.cycle_key()
    request.session[PENDING] = {
        "user": user.pk,
        "password": user.get_session_auth_hash(),
        "target": target,
        "how": how,
        "until": time.time() + SECONDS,
        "ends": ends and ends.isoformat(),
    }
    return redirect("wfdash:sign-in-code")


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Ask for the code that completes a sign-in; where one is required and missing, set it up here."""
    pending = request.session.get(PENDING, {})
    user = _waiting(pending)
    if user is None:
        return redirect("wfdash:sign-in")
    if not signin_second_factor.is_on(user):
        return _set_up_first(request, user, pending)
    if request.method != "POST":
        return render(request, "account/signin/code.html", {"person": user})
    try:
        signin_second_factor.check(user, request.POST.get("code", "")[:100])
    except (Invalid, TooManyTries) as error:
        return _refused(request, "account/signin/code.html", {"person": user}, error)
    return _complete(request, user, pending)


@page("GET", "POST")
@sensitive_post_parameters("code")
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether this person has a second factor; a POST sets it up, renews its recovery codes or turns it off."""
    user = viewer_of(request).user
    shown = {"here": "second-factor"}
    if request.method != "POST":
        return render(request, "account/settings/secondfactor.html", shown | _page_context(request, user))
    code, act = request.POST.get("code", "")[:100], request.POST.get("act", "")
    try:
        if act in ("confirm", "renew"):
            codes = _confirm(request, user, code) if act == "confirm" else signin_second_factor.renew_codes(user, code)
            request.session[signin_second_factor.SESSION_MARK] = True
            return render(request, "account/settings/secondfactor.html", shown | {"codes": codes})
        _change(request, user, act, code)
    except (Invalid, TooManyTries) as error:
        return _refused(request, "account/settings/secondfactor.html", shown | _page_context(request, user), error)
    return redirect("wfdash:second-factor")


class RequireSecondFactor:
    """Middleware: where everyone must have a second factor, ends sessions that were started without one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        session = request.session
        if (
            signin_second_factor.is_required()
            and SESSION_KEY in session
            and signin_second_factor.SESSION_MARK not in session
        ):
            logout(request)
        return self.get_response(request)


def _change(request: HttpRequest, user: User, act: str, code: str) -> None:
    if act == "begin":
        request.session[SETUP] = signin_second_factor.begin(user)
    elif act == "cancel":
        signin_second_factor.cancel(user)
    elif act == "off":
        signin_second_factor.turn_off(user, code)
        messages.success(request, "Second factor turned off.")


def _waiting(pending: dict[str, Any]) -> User | None:
    """Return who gave their password or link a moment ago, unless it has changed since."""
    if pending.get("until", 0) < time.time():
        return None
    user = User.objects.filter(pk=pending["user"], is_active=True).first()
    return user if user is not None and user.get_session_auth_hash() == pending["password"] else None


def _set_up_first(request: HttpRequest, user: User, pending: dict[str, Any]) -> HttpResponse:
    if not _pending_secret(request, user):
        request.session[SETUP] = signin_second_factor.begin(user)
    if request.method != "POST":
        return render(request, "account/signin/setup.html", {"person": user} | _page_context(request, user))
    try:
        codes = _confirm(request, user, request.POST.get("code", "")[:100])
    except (Invalid, TooManyTries) as error:
        return _refused(request, "account/signin/setup.html", {"person": user} | _page_context(request, user), error)
    target = str(pending["target"])
    response = _complete(request, user, pending)
    shown = render(request, "account/signin/codes.html", {"person": user, "codes": codes, "target": target})
    shown.cookies.update(response.cookies)
    return shown


def _complete(request: HttpRequest, user: User, pending: dict[str, Any]) -> HttpResponse:
    ends = datetime.fromisoformat(pending["ends"]) if pending.get("ends") else None
    response = _start_session(request, user, str(pending["target"]), how=f"{pending['how']} and code", ends=ends)
    request.session[signin_second_factor.SESSION_MARK] = True
    return response


def _start_session(request: HttpRequest, user: User, target: str, *, how: str, ends: datetime | None) -> HttpResponse:
    """Start the session and redirect to the target."""
    request.session.pop(PENDING, None)
    request.signed_in_by = how  # type: ignore[attr-defined]
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[0])
    # Also where it is None: what led here may have been a session for a shorter time.
    request.session.set_expiry(ends)
    note_start(request)
    keep_zone(request, user.pk)
    response = HttpResponseRedirect(target)
    remember_browser(response, user.get_username())
    return response


def _pending_secret(request: HttpRequest, user: User) -> str:
    return signin_second_factor.pending_secret(user, request.session.get(SETUP, ""))


def _confirm(request: HttpRequest, user: User, code: str) -> list[str]:
    return signin_second_factor.confirm(user, code, request.session.get(SETUP, ""))


def _page_context(request: HttpRequest, user: User) -> dict[str, Any]:
    """Return the page's context: on, being set up (QR code and text of the secret), or off."""
    secret = _pending_secret(request, user)
    if not secret:
        return {
            "on": signin_second_factor.is_on(user),
            "left": signin_second_factor.codes_left(user),
            "required": signin_second_factor.is_required(),
        }
    picture = segno.make(signin_second_factor.provisioning_uri(user, secret), error="m", micro=False)
    groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    return {"picture": picture.svg_data_uri(scale=5, border=3, light="#fff"), "secret": groups}


def _refused(request: HttpRequest, template: str, shown: dict[str, Any], error: Invalid | TooManyTries) -> HttpResponse:
    problem = str(error.errors[0]["msg"]) if isinstance(error, Invalid) else str(error).rstrip(".")
    return with_retry(render(request, template, shown | {"problem": problem}, status=status_for(error)), error.facts)
