"""Comments on a request: comments, questions back, replies, and additions to the card."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from checkpoints.models import Comment
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.amend import amend_request
from wfdash.actions.requests.comments import MENTION, ask_back, comment_on, reply_to_ask
from wfdash.errors import Invalid, NotAllowed, WrongState
from wfdash.pages.requests.panel import address_params, back_to, panel
from wfdash.pages.site.decorators import key_of, page, viewer_of
from wfdash.queries.requests.request import read_request
from wfdash.rendering import render

COMMENT_ACTIONS = {"comment": comment_on, "ask": ask_back, "reply": reply_to_ask}
KINDS = {"markdown": "Text (markdown)", "text": "Plain text", "link": "Link", "diff": "Difference"}


@page("POST")
def talk(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add a comment; ``kind`` is comment, ask (a question back) or reply (to it). The text is kept if it is refused.

    ``write`` adds none, but shows the request with the text in its field.
    """
    viewer, place = viewer_of(request), address_params(request.GET)
    text = _unix_lines(request.POST.get("text", ""))
    if request.POST.get("kind") == "write":
        return _render_again(request, viewer, request_id, text, "", 200)
    say = COMMENT_ACTIONS.get(request.POST.get("kind", ""), comment_on)
    try:
        comment = say(viewer, request_id, text, key=key_of(request))
    except Invalid as error:
        return _render_again(request, viewer, request_id, text, str(error.errors[0]["msg"]), 422)
    except WrongState as error:
        return _render_again(request, viewer, request_id, text, str(error), 409)
    _warn_unreached(request, comment)
    return back_to(request_id, place, f"#said-{comment.pk}")


@page("GET", "POST")
def amend(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add to the description and the evidence of an open request; the proposal does not change."""
    viewer = viewer_of(request)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            body, evidence = _unix_lines(request.POST.get("body", "")), _evidence(request)
            amend_request(viewer, request_id, body=body, evidence=evidence, key=key_of(request))
            messages.success(request, "Information added. Reviewers see the change before they decide.")
            return back_to(request_id, address_params(request.GET))
        except Invalid as error:
            problems = error.by_field
    found = read_request(viewer, request_id)
    if not (found.may_inform and found.open):
        raise NotAllowed("Only the requester, operators and reviewers can add information")
    context = {"item": found, "kinds": KINDS, "typed": request.POST, "problems": problems}
    context["origin"] = request.GET.urlencode()
    return render(request, "requests/request/amend.html", context, status=422 if problems else 200)


def _render_again(
    request: HttpRequest, viewer: Viewer, request_id: str, text: str, problem: str, status: int
) -> HttpResponse:
    context = panel(read_request(viewer, request_id), address_params(request.GET))
    context |= {"comment_text": text, "comment_problem": problem}
    return render(request, "requests/request/page.html", context, status=status)


def _warn_unreached(request: HttpRequest, comment: Comment) -> None:
    """Show a warning about mentioned people who were not notified."""
    unheard = set(MENTION.findall(comment.text)) - set(comment.mentions)
    if unheard:
        names = ", ".join(f"@{name}" for name in sorted(unheard))
        messages.warning(request, f"{names} was not notified: no such user, or no access to this request.")


def _evidence(request: HttpRequest) -> list[dict[str, Any]]:
    value = _unix_lines(request.POST.get("value", "")).strip()
    if not value:
        return []
    kind = request.POST.get("kind", "markdown")
    title = request.POST.get("title", "").strip()[:200] or "Added"
    return [{"kind": kind if kind in KINDS else "markdown", "title": title, "value": value[:200_000]}]


def _unix_lines(text: str) -> str:
    """Return text with ``\\n`` as line ends: browsers send ``\\r\\n``."""
    return text.replace("\r\n", "\n")
