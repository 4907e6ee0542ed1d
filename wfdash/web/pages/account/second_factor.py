"""The second factor: asked for at sign-in, set up and managed in the settings."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from checkpoints.models.user_model import User
from wfdash.access.signin import second_factor as signin_second_factor
from wfdash.access.signin.attempt_limits import remember_browser
from wfdash.access.signin.sessions import SECOND_FACTOR, note_start, started
from wfdash.access.viewer import Viewer
from wfdash.actions.account import may_add_passkey
from wfdash.domain.errors import Busy, Invalid, NotFound, TooManyTries, WrongState, status_for
from wfdash.notifications.rendering import render
from wfdash.web.pages.site.context_processors import path_in
from wfdash.web.pages.site.decorators import form_page, keep_zone, viewer_of
from wfdash.web.pages.ui.drawing import scannable
from wfdash.web.problems import with_retry

PENDING = "wfdash_signing_in"
SETUP = "wfdash_second_factor_setup"
"""The session key with the id of the set-up that this session started."""
PASSKEY = "wfdash_passkey"
"""The session key with the name of the passkey that this session may add, and until when."""
CODE_SECONDS = 600
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
        request.session[SECOND_FACTOR] = True
        return response
    if not signin_second_factor.is_on(user) and not signin_second_factor.is_required():
        return _start_session(request, user, target, how=how, ends=ends)
    request.session.cycle_key()
    request.session[PENDING] = {
        "user": user.pk,
        "password": user.get_session_auth_hash(),
        "target": target,
        "how": how,
        "until": time.time() + CODE_SECONDS,
        "ends": ends and ends.isoformat(),
    }
    return redirect("wfdash:sign-in-code")


@never_cache
@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Ask for the code that completes a sign-in; where one is required and missing, set it up here."""
    pending, user = request.session.get(PENDING, {}), waiting(request)
    if user is None:
        return redirect("wfdash:sign-in")
    if not signin_second_factor.is_on(user):
        return _set_up_first(request, user, pending)
    shown = {"person": user, "has_passkeys": signin_second_factor.passkeys(user=user).exists()}
    if request.method != "POST":
        return render(request, "account/signin/code.html", shown)
    passkey = request.POST.get("passkey", "")
    try:
        signin_second_factor.check(user, request.POST.get("code", "")[:100], passkey)
    except (Invalid, TooManyTries) as error:
        return _refused(request, "account/signin/code.html", shown, error)
    return _complete(request, user, pending, by="passkey" if passkey else "code")


@form_page
@sensitive_post_parameters("_key", "current", "code", "passkey")
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether this person has a second factor; a POST sets it up, adds, renames or removes a passkey, renews
    recovery codes or turns all of it off. ``next``: the page that wanted a passkey, to go back to once there is one.
    """
    viewer, back = viewer_of(request), path_in(request.GET.get("next", ""))
    shown: dict[str, Any] = {"here": "second-factor", "back": back}
    if request.method != "POST":
        return render(request, "account/settings/secondfactor.html", shown | _page_context(request, viewer.user))
    try:
        found = _perform_once(request, viewer)
    except (Invalid, TooManyTries, Busy) as error:
        shown |= _page_context(request, viewer.user) | {"name": request.POST.get("name", "")}
        return _refused(request, "account/settings/secondfactor.html", shown, error)
    except (NotFound, WrongState) as error:
        messages.error(request, f"{error}.")
        found = {}
    if found.get("codes"):
        request.session[SECOND_FACTOR] = True
    elif "making" not in found:
        return redirect(("codes" in found and back) or request.get_full_path())
    return render(request, "account/settings/secondfactor.html", shown | found)


def _perform_once(request: HttpRequest, viewer: Viewer) -> dict[str, Any]:
    """Do what a button of the page says; for a form that was sent twice return the codes that the first one made.

    Only for the same proof again: who finds the form's key sees nothing by it.
    """
    form = [request.POST.get(name, "") for name in ("_key", "act", "code", "passkey")]
    once = " ".join(form) if form[0] else ""
    try:
        return _perform(request, viewer, once)
    except (Invalid, WrongState):
        if codes := signin_second_factor.codes_made(viewer.user, once):
            return {"codes": codes}
        raise


def _perform(request: HttpRequest, viewer: Viewer, once: str) -> dict[str, Any]:
    """Do what a button of the page says, and return what it then shows instead of what there is."""
    user, given = viewer.user, request.POST
    name, key = given.get("name", ""), given.get("key", "")
    proof = {"code": given.get("code", "")[:100], "passkey": given.get("passkey", "")}
    match given.get("act"):
        case "begin":
            request.session[SETUP] = signin_second_factor.begin(user, **proof)
        case "cancel":
            signin_second_factor.cancel(user)
        case "confirm":
            return {"codes": _confirm(request, user, proof["code"], once)}
        case "renew":
            return {"codes": signin_second_factor.renew_codes(user, **proof, once=once)}
        case "off":
            signin_second_factor.turn_off(user, **proof)
            messages.success(request, "Second factor turned off.")
        case "name-passkey":
            name, since = signin_second_factor.checked_name(name), started(request)
            on = may_add_passkey(viewer, current=given.get("current", ""), **proof, since=since)
            request.session[PASSKEY] = {"name": name, "on": on, "until": time.time() + CODE_SECONDS}
            return {"making": signin_second_factor.allauth_passkeys().to_add(user), "name": name}
        case "add-passkey":
            may = request.session.pop(PASSKEY, {"until": 0})
            if may["until"] < time.time() or may["on"] != signin_second_factor.is_on(user):
                raise WrongState("This took too long. Add the passkey again")
            codes = signin_second_factor.add_passkey(user, may["name"], proof["passkey"], once=once)
            request.session[SECOND_FACTOR] = True
            messages.success(request, f"Passkey {may['name']} added.")
            return {"codes": codes}
        case "rename-passkey":
            signin_second_factor.rename_passkey(user, key, name)
        case "remove-passkey":
            signin_second_factor.remove_passkey(user, key, **proof)
            messages.success(request, "Passkey removed.")
    return {}


def waiting(request: HttpRequest) -> User | None:
    """Return who gave their password or link a moment ago, unless it has changed since."""
    pending = request.session.get(PENDING, {})
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
    response = _complete(request, user, pending, by="code")
    shown = render(request, "account/signin/codes.html", {"person": user, "codes": codes, "target": target})
    shown.cookies.update(response.cookies)
    return shown


def _complete(request: HttpRequest, user: User, pending: dict[str, Any], *, by: str) -> HttpResponse:
    ends = datetime.fromisoformat(pending["ends"]) if pending.get("ends") else None
    response = _start_session(request, user, str(pending["target"]), how=f"{pending['how']} and {by}", ends=ends)
    request.session[SECOND_FACTOR] = True
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


def _confirm(request: HttpRequest, user: User, code: str, once: str = "") -> list[str]:
    return signin_second_factor.confirm(user, code, request.session.get(SETUP, ""), once=once)


def _page_context(request: HttpRequest, user: User) -> dict[str, Any]:
    """Return the page's context: on, being set up (QR code and text of the secret), or off."""
    secret = _pending_secret(request, user)
    if not secret:
        return {
            "on": signin_second_factor.is_on(user),
            "has_app": signin_second_factor.has_app(user),
            "passkeys": list(signin_second_factor.passkeys(user=user)),
            "takes_passkeys": signin_second_factor.takes_passkeys(),
            "password": user.has_usable_password(),
            "left": signin_second_factor.codes_left(user),
            "required": signin_second_factor.is_required(),
        }
    picture = scannable(signin_second_factor.provisioning_uri(user, secret))
    return {"picture": picture, "secret": " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))}


def _refused(
    request: HttpRequest, template: str, shown: dict[str, Any], error: Invalid | TooManyTries | Busy
) -> HttpResponse:
    problem = str(error.errors[0]["msg"]) if isinstance(error, Invalid) else str(error).rstrip(".")
    return with_retry(render(request, template, shown | {"problem": problem}, status=status_for(error)), error.facts)
