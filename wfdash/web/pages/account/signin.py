"""Signing in, by password, by a one-time link or at the OpenID Connect provider, and out."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, logout
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from checkpoints.models.user_model import is_staff
from wfdash.access.signin import attempt_limits, links, second_factor
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import NO_PASSWORDS
from wfdash.actions.people.identities import connect_identity, sign_in_at
from wfdash.domain.errors import (
    Busy,
    NotAllowed,
    NotFound,
    ProviderUnavailable,
    SignInFailed,
    TooManyTries,
    WrongState,
    kind_of,
    status_for,
)
from wfdash.installation.provider import Provider
from wfdash.notifications.rendering import render
from wfdash.web.pages.account.second_factor import CODE_SECONDS, enter, waiting
from wfdash.web.pages.site.context_processors import path_in
from wfdash.web.problems import with_retry


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the form; a POST signs in and redirects to the page the person wanted."""
    target = wanted_page(request)
    if request.method != "POST":
        return HttpResponseRedirect(target) if request.user.is_authenticated else _form(request, target)
    if not settings.WFDASH_PASSWORDS:
        return _form(request, target, "", f"{NO_PASSWORDS}.", status=409)
    name = request.POST.get("username", "").replace("\0", "").strip()[:150]
    try:
        user = authenticate(request, username=name, password=request.POST.get("password", ""))
    except (TooManyTries, Busy) as error:
        return with_retry(_form(request, target, name, str(error), status=status_for(error)), error.facts)
    if user is None:
        return _form(request, target, name, "Wrong user name or password.", status=422)
    return enter(request, user, target, how="password")


@never_cache
@sensitive_post_parameters("passkey")
@require_POST
def sign_in_passkey(request: HttpRequest) -> HttpResponse:
    """Say what a passkey is to sign, for who is signed in, is signing in, or anyone; with ``passkey``, what it signed,
    sign in by it alone, unless ``WFDASH_PASSWORDS`` is 0: no one passes by the provider then.
    """
    if not second_factor.takes_passkeys():
        raise Http404
    passkeys = second_factor.allauth_passkeys()
    answer, target = request.POST.get("passkey", ""), wanted_page(request)
    known = request.user if request.user.is_authenticated else waiting(request)
    if known is not None and not answer:
        return JsonResponse(passkeys.to_use(known))
    if not settings.WFDASH_PASSWORDS:
        raise Http404
    limits = attempt_limits.for_begun("passkey", address_of(request.META))
    if not answer:
        try:
            attempt_limits.charge(limits)
        except TooManyTries as error:
            return with_retry(JsonResponse({"error": str(error)}, status=status_for(error)), error.facts)
        request.session.set_expiry(CODE_SECONDS)
        return JsonResponse(passkeys.to_use(None))
    user = passkeys.used(answer)
    if user is None:
        return _form(request, target, "", "No one here has this passkey.", status=422)
    if known is None:
        attempt_limits.forgive(limits)
    return enter(request, user, target, how="passkey", asks=False)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Show who a link signs in; only the button uses it up, so that link scanners cannot."""
    try:
        if request.method != "POST":
            return render(request, "account/signin/link.html", {"person": links.find_link(secret).user})
        user = links.use_link(secret)
    except NotFound as error:
        return render(request, "account/signin/stale.html", {"reason": str(error)}, status=404)
    return enter(request, user, reverse("wfdash:inbox"), how="link")


@never_cache
def admin_sign_in(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """Redirect from the admin's sign-in to this one; ``NotAllowed`` for people who are signed in already."""
    if request.user.is_authenticated and not is_staff(request.user):
        raise NotAllowed("The administration is for staff. Sign in with a staff account.")
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    messages.info(request, "Signed out.")
    return redirect(settings.LOGOUT_REDIRECT_URL or settings.LOGIN_URL)


def wanted_page(request: HttpRequest) -> str:
    """Return the page to show after the sign-in, the inbox unless ``next`` is an address of this site."""
    return path_in(request.POST.get("next") or request.GET.get("next", "")) or reverse("wfdash:inbox")


def _form(request: HttpRequest, target: str, name: str = "", problem: str = "", status: int = 200) -> HttpResponse:
    takes = second_factor.takes_passkeys() and settings.WFDASH_PASSWORDS
    context = {"target": target, "username": name, "problem": problem, "takes_passkeys": takes}
    return render(request, "account/signin/page.html", context, status=status)


log = logging.getLogger(__name__)

BEGUN_SECONDS = 3600
"""How long the session of a sign-in that was begun is kept: allauth's state in it counts for ten minutes."""
FAILURES = (SignInFailed, ProviderUnavailable, NotAllowed, WrongState, TooManyTries, Busy)


@never_cache
@require_POST
def begin_at_provider(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, to come back and be signed in."""
    provider = _provider()
    try:
        return to_provider(request, provider, wanted_page(request))
    except FAILURES as error:
        return _failed(request, provider, error)


@never_cache
@require_GET
def back_from_provider(request: HttpRequest) -> HttpResponse:
    """Sign in who comes back from the provider, or connect them with the account that began it."""
    provider = _provider()
    # The models of allauth exist only where a provider is set.
    from wfdash.access.signin import openid_connect

    try:
        arrival = openid_connect.finish(request, provider)
        if arrival.connects:
            if not request.user.is_authenticated or str(request.user.pk) != arrival.connects:
                raise SignInFailed(
                    "The account that was to be connected is no longer signed in here", cause="another session"
                )
            connect_identity(viewer_for(request.user), provider, arrival.identity)
            attempt_limits.forgive(_limits(request))
            messages.success(request, f"Connected. You can sign in with {provider.name} from now on.")
            return redirect("wfdash:account")
        user = sign_in_at(provider, arrival.identity)
    except FAILURES as error:
        return _failed(request, provider, error)
    attempt_limits.forgive(_limits(request))
    if request.user.is_authenticated:
        logout(request)
    # Of those who never came back.
    request.session.clear_expired()
    target, ends = arrival.target or reverse("wfdash:inbox"), timezone.now() + timedelta(hours=provider.hours)
    return enter(request, user, target, how=provider.name, asks=provider.second_factor, ends=ends)


def to_provider(request: HttpRequest, provider: Provider, target: str, *, connects: str = "") -> HttpResponse:
    """Return the page that leads to the provider. ``SignInFailed``, ``ProviderUnavailable``, ``TooManyTries``.

    Not a redirect: browsers apply the policy's ``form-action`` to each redirect after a form, and a provider may lead
    on to others, which no one knows here.
    """
    from wfdash.access.signin import openid_connect

    attempt_limits.charge(_limits(request))
    if not request.user.is_authenticated:
        request.session.set_expiry(BEGUN_SECONDS)
    address = openid_connect.begin(request, provider, target, connects=connects)
    response = render(request, "account/signin/leaving.html", {"provider": provider, "address": address})
    response.headers["Refresh"] = f"0; url={address}"
    return response


def _provider() -> Provider:
    provider = provider_in_use()
    if provider is None:
        raise Http404
    return provider


def _limits(request: HttpRequest) -> list[attempt_limits.AttemptLimit]:
    return attempt_limits.for_begun("provider", address_of(request.META))


def _failed(request: HttpRequest, provider: Provider, error: Exception) -> HttpResponse:
    facts = getattr(error, "facts", {})
    kind = kind_of(error)
    log.warning("Sign-in with %s: %s (%s)", provider.name, error, facts.get("cause", kind.code))
    heading = "Not connected" if request.user.is_authenticated else "Sign-in did not work"
    context = {"provider": provider, "heading": heading, "message": str(error).rstrip(".")}
    return with_retry(render(request, "account/signin/failed.html", context, status=kind.status), facts)
