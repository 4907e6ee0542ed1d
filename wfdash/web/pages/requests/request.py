"""One request: its decision card, the answer, answer links, its deadline, its files, and who works on it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import escape_uri_path
from django.utils.http import content_disposition_header
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from checkpoints.models import Reply
from checkpoints.models.user_model import User
from wfdash.access.viewer import Viewer
from wfdash.actions.account import read_notices
from wfdash.actions.requests.answer import answer_request, marks_for, undo_answer, undo_batch
from wfdash.actions.requests.answer_links import AnswerLink, answer_by_link, needs_sign_in, read_link, undo_by_link
from wfdash.actions.requests.collaboration import (
    MENTION,
    amend_request,
    ask_back,
    assign_request,
    comment_on,
    drop_draft,
    leave_request,
    reply_to_ask,
    save_draft,
    take_over,
    watch_request,
)
from wfdash.actions.requests.deadlines import extend_deadline
from wfdash.domain.errors import (
    AlreadyAnswered,
    Changed,
    Invalid,
    LinkUsed,
    NoLongerOpen,
    NotAllowed,
    NotFound,
    SignatureMissing,
    TooOften,
    WrongState,
)
from wfdash.engines.catalog import title_of
from wfdash.notifications.rendering import render, render_to_string
from wfdash.queries.requests.inbox import next_request
from wfdash.queries.requests.request import RequestView, assignable, mentionable, read_collaboration, read_request
from wfdash.values.schemas.secrets import sample
from wfdash.web.pages.requests.inbox import in_list
from wfdash.web.pages.requests.panel import (
    address_params,
    back_to,
    fields_of,
    live_context,
    offer_undo,
    panel,
    typed_texts,
)
from wfdash.web.pages.site.context_processors import MOST_UNDOABLE, path_in
from wfdash.web.pages.site.decorators import (
    LOCAL,
    form_page,
    get_page,
    key_of,
    moment_in,
    post_page,
    typed_moment,
    viewer_of,
    zone_of,
)
from wfdash.web.pages.ui import card
from wfdash.web.pages.ui.commands import commands
from wfdash.web.pages.ui.diff.lines import diff_values
from wfdash.web.pages.ui.event_text import past
from wfdash.web.pages.ui.fragments import respond
from wfdash.web.pages.ui.json_value import NoSuchNode
from wfdash.web.pages.ui.parts import CardMedia, json_at, media_at
from wfdash.web.pages.ui.times import counted

# Answer links: the card for one person without a session. Viewing changes nothing; only the form's POST decides.

LINK_PAGE = "requests/answer_link/page.html"


@never_cache
@sensitive_variables("token")
@require_http_methods(["GET", "HEAD", "POST"])
def answer_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the request of a link, or its outcome; a POST answers, or undoes."""
    try:
        if request.method == "POST":
            response = _answer_by_link(request, token)
        else:
            response = render(request, LINK_PAGE, _context(request, read_link(token), token))
    except (NotFound, NotAllowed, WrongState) as error:
        status = {NotFound: 404, NotAllowed: 403}.get(type(error), 410)
        response = render(request, "requests/answer_link/stale.html", {"reason": str(error)}, status=status)
    # Not ``no-referrer``: with it a browser hides the form's origin, too, and the form would be refused.
    response["Referrer-Policy"] = "same-origin"
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return response


def _answer_by_link(request: HttpRequest, token: str) -> HttpResponse:
    link, signed_in = read_link(token), _signed_in(request)
    if "_undo" in request.POST:
        undo_by_link(token, signed_in=signed_in)
        return redirect("wfdash:answer-link", token)
    found = read_request(link.viewer, link.request)
    reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
    if found.open and not link.changed and not link.used and (reading.editing or reading.errors):
        context = _context(request, link, token, reading=reading)
        return render(request, LINK_PAGE, context, status=200 if reading.editing else 422)
    try:
        answer_by_link(
            token,
            reading.value,
            verdict=reading.action,
            as_text=reading.as_text,
            page=_rendered_card(found, reading),
            signed_in=signed_in,
            key=key_of(request),
        )
    except Invalid as error:
        refused = reading._replace(errors=error.errors)
        return render(request, LINK_PAGE, _context(request, link, token, reading=refused), status=422)
    except (AlreadyAnswered, Changed, LinkUsed, NoLongerOpen) as error:
        context = _context(request, read_link(token), token)
        context |= {"refused": True, "conflict": str(error), "typed": typed_texts(found, reading.value)}
        # The page itself says that the request changed, and when someone else answered.
        if isinstance(error, Changed):
            context["conflict"] = ""
        elif isinstance(error, AlreadyAnswered) and error.facts["by"] != link.viewer.name:
            context["conflict"] = f"Already answered by {error.facts['by']}"
        return render(request, LINK_PAGE, context, status=409)
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
        "title": title_of(found.workflow),
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


# Changing a request's deadline, in the person's own time zone.

A_DAY = timedelta(days=1)
"""What the form suggests from now on where there is no due date yet."""


@form_page
def deadline(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show the deadline; a POST changes it. For operators and the assignee."""
    viewer, problem = viewer_of(request), ""
    zone = ZoneInfo(zone_of(viewer))
    if request.method == "POST":
        try:
            due = typed_moment(request.POST.get("due", ""), zone, "due")
            extend_deadline(viewer, request_id, due, key=key_of(request))
            messages.success(request, "Due date changed.")
            return back_to(request_id, address_params(request.GET))
        except Invalid as error:
            problem = str(error.errors[0]["msg"])
    found = read_request(viewer, request_id)
    if not (found.open and (found.operates or found.assignee == viewer.name)):
        raise NotAllowed("Only operators and the assignee can change the due date of an open request")
    shown = (found.due or timezone.now() + A_DAY).astimezone(zone).strftime(LOCAL)
    context = {
        "item": found,
        "verb": "Change" if found.due else "Set",
        "zone": zone.key,
        "value": request.POST.get("due", shown),
        "problem": problem,
        "origin": request.GET.urlencode(),
    }
    return render(request, "requests/request/deadline.html", context, status=422 if problem else 200)


# The images and files of a card: for people who may see the request, and never run by a browser.

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
DOCUMENT = {
    **HEADERS,
    # In a sandbox browsers do not show PDF documents at all. Nothing else can be loaded, and only a card frames it.
    "Content-Security-Policy": "default-src 'none'; object-src 'self'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}


@get_page
def evidence(request: HttpRequest, request_id: str, number: int) -> HttpResponse:
    """Send an image or a PDF to be shown, or a file to be saved. ``number``: which piece of evidence, from zero.

    The type is detected from the content, and for a file never one that a browser shows; ``download`` saves the others
    too. ``before``: the earlier version of an image. A value is sent as JSON, or what of it is ``at`` a JSON Pointer.
    """
    found = read_request(viewer_of(request), request_id)
    media = _media(request, found.card, number) if found.shown else None
    if media is None:
        raise NotFound("This request has no such image or file")
    attached = not media.inline or "download" in request.GET
    headers = HEADERS if attached or media.picture else DOCUMENT
    response = HttpResponse(media.data, content_type=media.media_type, headers=headers)
    response["Content-Disposition"] = content_disposition_header(attached, media.name) or "attachment"
    return response


def _media(request: HttpRequest, card: Mapping[str, Any], number: int) -> CardMedia | None:
    try:
        value = json_at(card, number, request.GET.get("at", ""))
    except NoSuchNode as error:
        raise NotFound(str(error)) from None
    return value or media_at(card, number, before="before" in request.GET)


PAGE = "requests/request/page.html"
FRAGMENTS = {"live": "requests/request/live.html"}


@form_page
def request(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show a request; a POST answers it. 422 and 409 keep what was typed.

    ``tab``, ``q`` and ``sort`` say where in the inbox the person came from, so that the next one opens after it.
    ``override`` is an operator's way to decide instead of those it is addressed to.
    """
    viewer = viewer_of(request)
    posted = request.method == "POST"
    found = read_request(viewer, request_id, marks_for(undo=True) if posted else None)
    override = "override" in request.GET
    if posted:
        return _answer(request, viewer, found, override)
    place, piece = address_params(request.GET), request.GET.get("piece", "")
    if request.GET.get("fragment") == "live":
        context = live_context(found, place, override=override)
    else:
        context = panel(found, place, override=override, piece=piece)
    shown = request.GET.get("seen", "")
    # What the open page shows stays the base of its comparison, however often this part is refreshed.
    context |= {"fragment": "fragment" in request.GET, "seen": shown}
    context["stale"] = found.open and shown not in {"", found.seen}
    if context["decides"] and not override:
        body = {"value": sample(found.answer_schema), "seen": found.seen}
        path = reverse("wfdash:api:answer_request", args=[found.id])
        context["answer_commands"] = commands(request, "answer-commands", "Answer from a program", path, body)
    return respond(request, PAGE, context, FRAGMENTS)


def _answer(request: HttpRequest, viewer: Viewer, found: RequestView, override: bool) -> HttpResponse:
    reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
    place, seen, piece = address_params(request.GET), request.POST.get("_seen", ""), request.GET.get("piece", "")
    if found.open and seen in {"", found.seen} and (reading.editing or reading.errors):
        context = panel(found, place, reading, override=override, piece=piece)
        return _render_again(request, found, context | _operator_fields(request), 200 if reading.editing else 422)
    try:
        reply = answer_request(
            viewer,
            found.id,
            reading.value,
            verdict=reading.action,
            reason=request.POST.get("_reason", ""),
            seen=seen,
            undo=True,
            via="page",
            page=_rendered_card(found, reading),
            override=override,
            on_behalf_of=request.POST.get("_for", "") if override else "",
            as_text=reading.as_text,
            key=key_of(request),
            found=found.row,
            signature=(request.get_host().partition(":")[0], request.POST.get("_signature", "")),
        )
    except Invalid as error:
        unsigned = isinstance(error, SignatureMissing)
        context = panel(found, place, reading, () if unsigned else error.errors, override=override, piece=piece)
        if isinstance(error, SignatureMissing):
            with suppress(Invalid, TooOften):  # it is kept in the page, too
                save_draft(viewer, found.id, fields_of(request.POST))
            context["unsigned"] = {"words": error.summary, "ask": error.ask, "action": reading.action}
        return _render_again(request, found, context | _operator_fields(request), 422)
    except (AlreadyAnswered, Changed, NoLongerOpen) as error:
        return _conflict(request, viewer, found, reading, error)
    _flash_result(request, viewer, found, reply, reading)
    return offer_undo(request, _next_page(request, viewer, found, place), found.id, reply.settles)


def _render_again(request: HttpRequest, found: RequestView, context: dict[str, Any], status: int) -> HttpResponse:
    """Render the card with what was typed: in the inbox, if the person came from there."""
    if address_params(request.GET):
        return in_list(request, found.id, context, status=status)
    return render(request, PAGE, context, status=status)


def _operator_fields(request: HttpRequest) -> dict[str, str]:
    """Return an operator's fields beside the card: why they decide, and on whose behalf."""
    return {"override_reason": request.POST.get("_reason", ""), "override_for": request.POST.get("_for", "")}


def _conflict(
    request: HttpRequest,
    viewer: Viewer,
    found: RequestView,
    reading: card.PostedAnswer,
    error: AlreadyAnswered | Changed | NoLongerOpen,
) -> HttpResponse:
    """Render why the answer was refused and what changed, with what was typed."""
    now = read_request(viewer, found.id)
    context = panel(now, address_params(request.GET), reading._replace(errors=[]), override="override" in request.GET)
    typed = typed_texts(found, reading.value)
    context |= {
        "conflict": str(error),
        "typed": typed,
        "typed_text": "\n\n".join(text for _, text in typed),
        "error": type(error).__name__,
    }
    before, after = error.facts.get("before"), now.card
    if isinstance(error, NoLongerOpen) and now.replaced_by:
        before, after = now.card, _carry_over(request, viewer, now.replaced_by)
        context["carried"] = after is not None
    if before is not None and after is not None:
        context["changes"] = diff_values(before, after)
    return _render_again(request, found, context, 409)


def _carry_over(request: HttpRequest, viewer: Viewer, replaced_by: str) -> Any:
    """Store what was typed as a draft of the request that replaced this one, and return its card."""
    try:
        later = read_request(viewer, replaced_by)
        if later.open and not later.refusal:
            save_draft(viewer, replaced_by, fields_of(request.POST))
    except (NotFound, NotAllowed, Invalid):
        return None
    return later.card


def _rendered_card(found: RequestView, reading: card.PostedAnswer) -> str:
    """Return the card as HTML, for the audit. It is what was shown: its fingerprint is compared."""
    shown = card.build(found.card, found.answer_schema, choices=reading.choices)
    return render_to_string("components/card.html", {"card": shown})


def _flash_result(
    request: HttpRequest, viewer: Viewer, found: RequestView, reply: Reply, reading: card.PostedAnswer
) -> None:
    """Flash the outcome of the answer; while it can be undone, the undo bar shows it."""
    if reply.settles is not None:
        return
    if found.rules.need > 1 and read_request(viewer, found.id).open:
        messages.success(request, f"Your vote was recorded: you {past(reply.verdict)} “{found.subject}”.")
        return
    words = {"approve": "Approved", "reject": "Rejected", "answered": "Answered"}
    labels = {choice.name: choice.label for choice in reading.choices}
    done = words.get(reply.verdict) or labels.get(reply.verdict) or reply.verdict
    messages.success(request, f"{done}: {found.subject}. {_what_follows(found)}")


def _what_follows(found: RequestView) -> str:
    """Return what becomes of a run that has its answer."""
    if settings.WFDASH_HOLD:
        return "The run continues where this installation is not on hold."
    return "The run continues once it is resumed." if found.run_phase == "paused" else "The run continues."


def _next_page(request: HttpRequest, viewer: Viewer, found: RequestView, place: dict[str, str]) -> HttpResponseRedirect:
    """Redirect to the next request of the inbox where the answer came from there, else to this one's outcome, which has
    the address that the answer was sent to.
    """
    if not place:
        return HttpResponseRedirect(escape_uri_path(request.path))
    try:
        order = {"sort": place.get("sort", "age")}
        following = next_request(viewer, found.id, place["tab"], place.get("q", ""), **order)
    except Invalid:  # an invalid filter: the answer was accepted all the same
        following = ""
    further = {"request": following} if following and place["tab"] != "answered" else {}
    return redirect(f"{reverse('wfdash:inbox')}?{urlencode({**place, **further})}")


# Comments on a request: comments, questions back, replies, and additions to the card.

COMMENT_ACTIONS = {"comment": comment_on, "ask": ask_back, "reply": reply_to_ask}
KINDS = {"markdown": "Text (markdown)", "text": "Plain text", "link": "Link", "diff": "Difference"}


@post_page
def talk(request: HttpRequest, request_id: str) -> HttpResponse:
    """Add a comment; ``kind`` is comment, ask (a question back) or reply (to it). The text is kept if it is refused.

    ``write`` adds none, but shows the request with the text in its field.
    """
    viewer, place = viewer_of(request), address_params(request.GET)
    text = _unix_lines(request.POST.get("text", ""))
    if request.POST.get("kind") == "write":
        return _draw_again(request, viewer, request_id, text, "", 200)
    say = COMMENT_ACTIONS.get(request.POST.get("kind", ""), comment_on)
    try:
        comment = say(viewer, request_id, text, key=key_of(request))
    except Invalid as error:
        return _draw_again(request, viewer, request_id, text, str(error.errors[0]["msg"]), 422)
    except WrongState as error:
        return _draw_again(request, viewer, request_id, text, str(error), 409)
    # Show a warning about mentioned people who were not notified.
    unheard = set(MENTION.findall(comment.text)) - set(comment.mentions)
    if unheard:
        names = ", ".join(f"@{name}" for name in sorted(unheard))
        messages.warning(request, f"{names} was not notified: no such user, or no access to this request.")
    return back_to(request_id, place, f"#said-{comment.pk}")


@form_page
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


def _draw_again(
    request: HttpRequest, viewer: Viewer, request_id: str, text: str, problem: str, status: int
) -> HttpResponse:
    context = panel(read_request(viewer, request_id), address_params(request.GET))
    context |= {"comment_text": text, "comment_problem": problem}
    return render(request, "requests/request/page.html", context, status=status)


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


@post_page
def undo(request: HttpRequest, request_id: str) -> HttpResponse:
    """Undo the viewer's own answer or vote; the card opens again with it filled in."""
    try:
        undo_answer(viewer_of(request), request_id)
        messages.info(request, "Decision undone.")
    except WrongState as error:
        messages.warning(request, str(error))
    return back_to(request_id, address_params(request.GET))


@post_page
def undo_all(request: HttpRequest) -> HttpResponse:
    """Undo one's own answers to the requests that the form names (``request``): those that the page listed."""
    done, late = undo_batch(viewer_of(request), request.POST.getlist("request")[:MOST_UNDOABLE])
    words = f"{counted(done, 'answer')} undone." + (f" {late} could not be undone." if late else "")
    messages.add_message(request, messages.WARNING if late else messages.SUCCESS, words)
    return redirect(path_in(request.POST.get("next", "")) or "wfdash:inbox")


@post_page
def draft(request: HttpRequest, request_id: str) -> HttpResponse:
    """Save the card's form as a draft; ``_drop`` deletes it. 204 for a script, else the request again."""
    viewer = viewer_of(request)
    if "_drop" in request.POST:
        drop_draft(viewer, request_id)
        return back_to(request_id, address_params(request.GET))
    save_draft(viewer, request_id, fields_of(request.POST))
    if request.headers.get("X-Quiet"):
        return HttpResponse(status=204)
    messages.success(request, "Draft saved. Only you can see it.")
    return back_to(request_id, address_params(request.GET))


@post_page
def presence(request: HttpRequest, request_id: str) -> HttpResponse:
    """Record the heartbeat of a page that shows the request; ``typing``, or ``leave`` with the last ``seen`` when it
    closes.
    """
    viewer = viewer_of(request)
    if "leave" in request.POST:
        leave_request(viewer, request_id, moment_in(request.POST.get("seen", "")))
        return HttpResponse(status=204)
    seen = watch_request(viewer, request_id, typing="typing" in request.POST)
    read_notices(viewer, request=request_id)
    return JsonResponse({"seen": seen.isoformat()})


@post_page
def take(request: HttpRequest, request_id: str) -> HttpResponse:
    """Take the request over from the person who has it open."""
    take_over(viewer_of(request), request_id)
    return back_to(request_id, address_params(request.GET))


@form_page
def assign(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show the choice of assignees; a POST with ``to`` (a user name, empty: no one) assigns it."""
    viewer, problem, status = viewer_of(request), "", 200
    if request.method == "POST":
        to = request.POST.get("to", "")
        try:
            assign_request(viewer, request_id, to or None, key=key_of(request))
        except Invalid as error:
            problem, status = str(error.errors[0]["msg"]), 422
        else:
            messages.success(request, f"Assigned to {to}." if to else "Unassigned.")
            return back_to(request_id, address_params(request.GET))
    found = read_request(viewer, request_id)
    if not found.may_assign:
        raise NotAllowed("You cannot assign this request: " + (found.refusal or "it is no longer open"))
    context = {
        "item": found,
        "names": assignable(found),
        "problem": problem,
        "origin": request.GET.urlencode(),
    }
    return render(request, "requests/request/assign.html", context, status=status)


@get_page
def people(request: HttpRequest, request_id: str) -> HttpResponse:
    """Return the names of the people whom a comment can mention, as JSON."""
    return JsonResponse({"names": mentionable(read_request(viewer_of(request), request_id))})
