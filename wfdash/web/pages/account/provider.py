"""Signing in at the OpenID Connect provider: the way there, and the return."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib import messages
from django.contrib.auth import logout
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from wfdash.access.signin import attempt_limits
from wfdash.access.signin.attempt_limits import address_of
from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import viewer_for
from wfdash.actions.people.identities import connect_identity, sign_in_at
from wfdash.domain.errors import Busy, NotAllowed, ProviderUnavailable, SignInFailed, TooManyTries, WrongState, kind_of
from wfdash.installation.provider import Provider
from wfdash.notifications.rendering import render
from wfdash.web.pages.account.second_factor import enter
from wfdash.web.pages.account.signin import wanted_page
from wfdash.web.problems import with_retry

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
