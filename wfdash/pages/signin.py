"""Signing in, by password or by a one-time link, and out again."""

from __future__ import annotations

from hashlib import sha256

from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from wfdash import signin as links
from wfdash.errors import NotFound

TRIES = 8
PERIOD = 300
"""Seconds for which failed tries of one name from one address are counted."""


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the form; sign in and go where the person was going."""
    target = _target(request)
    if request.method != "POST":
        return redirect(target) if request.user.is_authenticated else _form(request, target)
    name = request.POST.get("username", "").replace("\0", "").strip()[:150]
    password = request.POST.get("password", "")[:1000]
    key = throttle_key(name, request.META.get("REMOTE_ADDR", ""))
    if cache.get(key, 0) >= TRIES:
        return _form(request, target, name, "Too many tries. Wait five minutes, or use a sign-in link.", status=429)
    user = authenticate(request, username=name, password=password)
    if user is None:
        _count(key)
        return _form(request, target, name, "That name and password do not go together.", status=422)
    cache.delete(key)
    login(request, user)
    return redirect(target)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Show whom a link signs in; only the button uses it up, so that link scanners cannot."""
    try:
        if request.method != "POST":
            return render(request, "signin/link.html", {"person": links.find_link(secret).user})
        user = links.use_link(secret)
    except NotFound as error:
        return render(request, "signin/stale.html", {"reason": str(error)}, status=404)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("inbox")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    messages.info(request, "You are signed out.")
    return redirect("sign-in")


def throttle_key(name: str, address: str) -> str:
    """Return the cache key under which failed tries of this name from this address are counted."""
    return "sign-in:" + sha256(f"{name.lower()}\n{address}".encode()).hexdigest()


def _count(key: str) -> None:
    cache.set(key, cache.get(key, 0) + 1, PERIOD)


def _target(request: HttpRequest) -> str:
    target = request.POST.get("next") or request.GET.get("next") or "/"
    safe = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if safe else "/"


def _form(request: HttpRequest, target: str, name: str = "", problem: str = "", status: int = 200) -> HttpResponse:
    context = {"target": target, "username": name, "problem": problem}
    return render(request, "signin/page.html", context, status=status)
