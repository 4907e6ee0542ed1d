"""Answer links: the card for one person without a session. Viewing changes nothing; only the form's POST decides."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from checkpoints.models.user_model import User
from wfdash.actions.requests.answer_links import AnswerLink, answer_by_link, needs_sign_in, read_link, undo_by_link
from wfdash.catalog import titles
from wfdash.errors import AlreadyAnswered, Changed, Invalid, LinkUsed, NoLongerOpen, NotAllowed, NotFound, WrongState
from wfdash.pages.requests.panel import typed_texts
from wfdash.pages.site.decorators import key_of
from wfdash.pages.ui import card
from wfdash.queries.requests.collaboration import read_collaboration
from wfdash.queries.requests.request import read_request
from wfdash.rendering import render, render_to_string

PAGE = "requests/answer_link/page.html"


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def answer_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the request of a link, or its outcome; a POST answers, or undoes."""
    try:
        response = _answer(request, token) if request.method == "POST" else _link_page(request, token)
    except (NotFound, NotAllowed, WrongState) as error:
        status = {NotFound: 404, NotAllowed: 403}.get(type(error), 410)
        response = render(request, "requests/answer_link/stale.html", {"reason": str(error)}, status=status)
    # Not ``no-referrer``: with it a browser hides the form's origin, too, and the form would be refused.
    response["Referrer-Policy"] = "same-origin"
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return response


def _link_page(request: HttpRequest, token: str) -> HttpResponse:
    link = read_link(token)
    return render(request, PAGE, _context(request, link, token))


def _answer(request: HttpRequest, token: str) -> HttpResponse:
    link, signed_in = read_link(token), _signed_in(request)
    if "_undo" in request.POST:
        undo_by_link(token, signed_in=signed_in)
        return redirect("wfdash:answer-link", token)
    found = read_request(link.viewer, link.request)
    reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
    if found.open and not link.changed and not link.used and (reading.editing or reading.errors):
        context = _context(request, link, token, reading=reading)
        return render(request, PAGE, context, status=200 if reading.editing else 422)
    shown = render_to_string("components/card.html", {"card": card.build(found.card, found.answer_schema)})
    try:
        answer_by_link(
            token,
            reading.value,
            verdict=reading.action,
            as_text=reading.as_text,
            page=shown,
            signed_in=signed_in,
            key=key_of(request),
        )
    except Invalid as error:
        return render(request, PAGE, _context(request, link, token, reading=reading, errors=error.errors), status=422)
    except (AlreadyAnswered, Changed, LinkUsed, NoLongerOpen) as error:
        context = _context(request, read_link(token), token)
        context |= {"refused": True, "conflict": str(error), "typed": typed_texts(found, reading.value)}
        # The page itself says that the request changed, and when someone else answered.
        if isinstance(error, Changed):
            context["conflict"] = ""
        elif isinstance(error, AlreadyAnswered) and error.facts["by"] != link.viewer.name:
            context["conflict"] = f"Already answered by {error.facts['by']}"
        return render(request, PAGE, context, status=409)
    return redirect("wfdash:answer-link", token)


def _context(request: HttpRequest, link: AnswerLink, token: str, **given: Any) -> dict[str, Any]:
    """Return the page's context: the card, with a form only where this link may still answer it."""
    found = read_request(link.viewer, link.request)
    signed_in = _signed_in(request)
    stranger = signed_in is not None and signed_in.pk != link.viewer.user.pk
    asks = needs_sign_in(link, signed_in)
    voted = found.open and not found.refusal and read_collaboration(found).mine is not None
    decides = found.open and not (found.refusal or link.used or link.changed or stranger or asks or voted)
    url = reverse("wfdash:answer-link", args=[token])
    begin = (found.suggestion or {}).get("value")
    return {
        "item": found,
        "link": link,
        "card": card.build(found.card, found.answer_schema, url=url if decides else "", initial=begin, **given),
        "title": titles().get(found.workflow, found.workflow),
        "person": link.viewer.name,
        "stranger": signed_in.get_username() if stranger and signed_in else "",
        "asks_sign_in": asks and found.open and not stranger,
        "decides": decides,
        "voted": voted,
        "undo": found.state == "settling" and link.used and found.answer and found.answer.by == link.viewer.name,
        "url": url,
    }


def _signed_in(request: HttpRequest) -> User | None:
    return request.user if isinstance(request.user, User) and request.user.is_authenticated else None
