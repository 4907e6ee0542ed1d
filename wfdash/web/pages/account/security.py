"""One's own account: the password, the sign-in provider, the browsers one is signed in with, and tokens of programs.

The text of a new token is shown once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.dateparse import parse_datetime
from django.views.decorators.debug import sensitive_post_parameters

from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import EVERY, THROUGH_AGENTS, Viewer
from wfdash.actions.account import (
    DEFAULT_DAYS,
    NewToken,
    create_token,
    end_other_sessions,
    end_own_session,
    revoke_token,
    set_password,
)
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
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.account import own_account, own_tokens
from wfdash.web.pages.account.signin import to_provider
from wfdash.web.pages.site.decorators import form_page, key_of, number_in, show_once, shown_once, viewer_of
from wfdash.web.pages.ui.times import counted
from wfdash.web.problems import with_retry


@form_page
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
            messages.success(request, f"Ended {counted(count, 'other session')}.")
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


RIGHTS = (
    ("see", "see runs, their graph and status"),
    ("inspect", "read inputs, state and outputs"),
    ("answer", "answer requests"),
    ("start", "start runs and manage schedules"),
    ("code", "read workflow code"),
    ("operate", "cancel, retry, restore and fork runs"),
    ("admin", "manage people and roles"),
    (THROUGH_AGENTS, "answer through agents (MCP): an agent passes on your answers, none about risk high"),
)
"""Each right with what it lets a token do."""
TERMS = (("7", "7 days"), ("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("never", "Never"))
"""When a token expires, as the form offers it."""


@form_page
def tokens(request: HttpRequest) -> HttpResponse:
    """List one's own tokens; a POST makes one and shows it, this once, or revokes one."""
    viewer, problems = viewer_of(request), dict[str, str]()
    if request.method == "POST":
        try:
            if request.POST.get("act") == "revoke":
                revoke_posted(request, viewer)
                return redirect("wfdash:tokens")
            return show_new(request, made_by(request), "wfdash:tokens")
        except Invalid as error:
            problems = error.by_field
    if shown := shown_once(request):
        return new_token(request, shown)
    context = token_form(viewer, request.POST, problems) | {
        "rows": own_tokens(viewer),
        "here": "tokens",
        "admin": viewer.may("admin", EVERY),
    }
    return render(request, "account/settings/tokens.html", context, status=422 if problems else 200)


def made_by(request: HttpRequest, *, owner: str = "") -> NewToken:
    """Make the token that a form describes; sent twice, the same one. ``Invalid``, ``NotAllowed``."""
    post = request.POST
    days = post.get("days", str(DEFAULT_DAYS))
    return create_token(
        viewer_of(request),
        post.get("name", ""),
        rights=post.getlist("rights") or ["see"],
        workflows=post.getlist("workflows") if post.get("where") == "some" else [EVERY],
        days=None if days == "never" else number_in(days),
        owner=owner,
        key=key_of(request),
    )


def revoke_posted(request: HttpRequest, viewer: Viewer) -> None:
    """Revoke the token that a form names, and say so."""
    try:
        token = revoke_token(viewer, request.POST.get("token", ""))
        messages.success(request, f"Token {token.name} revoked.")
    except NotFound as error:
        messages.error(request, f"{error}.")


def show_new(request: HttpRequest, made: NewToken, to: str, *args: str) -> HttpResponse:
    """Redirect to a page that shows a new token, this once, by ``new_token``."""
    token = made.token
    expires = token.expires.isoformat() if token.expires else ""
    shown = {"token": made.text, "name": token.name, "expires": expires, "owner": token.owner.get_username()}
    return show_once(request, shown, to, *args)


def new_token(request: HttpRequest, shown: Mapping[str, str]) -> HttpResponse:
    """Show what ``show_new`` left for this page."""
    context = {**shown, "expires": parse_datetime(shown["expires"]), "back": request.path, "here": "tokens"}
    return render(request, "account/settings/token_made.html", context)


def token_form(viewer: Viewer, post: Mapping[str, Any], problems: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the form that makes a token: rights and workflows that the viewer has."""
    chosen = post.getlist("rights") if isinstance(post, QueryDict) and post else ["see", "inspect", "answer", "start"]
    named = post.getlist("workflows") if isinstance(post, QueryDict) else []
    seen = [(name, title) for name, title in catalog.titles().items() if viewer.may("see", name)]
    return {
        "token_rights": [
            (name, words, name in chosen) for name, words in RIGHTS if viewer.may_anywhere(name.partition("-")[0])
        ],
        "token_workflows": [
            (name, title, name in named) for name, title in sorted(seen, key=lambda one: one[1].lower())
        ],
        "terms": TERMS,
        "term": post.get("days", str(DEFAULT_DAYS)),
        "token_typed": post,
        "token_problems": problems,
    }
