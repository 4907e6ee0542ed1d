"""Second looks: those a person may give, the card without its first decision, and what is known of a question."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from wfdash.actions.requests.second import SETTLED, give_second_look, right_to_look, settle_second_look
from wfdash.domain.agreement import LEAST
from wfdash.domain.errors import Invalid
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.requests.request import read_request
from wfdash.queries.requests.second import MOST_READ, read_open_looks, read_quality, read_questions
from wfdash.web.pages.site.decorators import form_page, get_page, post_page, viewer_of
from wfdash.web.pages.ui import card

LOOKS = "wfdash:second-looks"


@get_page
def second_looks(request: HttpRequest) -> HttpResponse:
    """Show the second looks that this person may give, and the questions whose agreement they may read."""
    viewer = viewer_of(request)
    context = {
        "looks": [(look, catalog.title_of(look.workflow)) for look in read_open_looks(viewer)],
        "questions": [(one, catalog.title_of(one.workflow)) for one in read_questions(viewer)],
        "operates": viewer.may_anywhere("operate"),
    }
    return render(request, "requests/second/page.html", context)


@form_page
def second_look(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show a decided card as it was asked, without the decision; a POST says what this person would have decided, and
    leads to the next one.
    """
    viewer = viewer_of(request)
    found = read_request(viewer, request_id)
    right_to_look(viewer, found.row)
    reading, status = None, 200
    if request.method == "POST":
        reading = card.read_answer(found.answer_schema, found.card, request.POST, request.FILES)
        status = 200 if reading.editing else 422
        if not reading.editing and not reading.errors:
            try:
                give_second_look(viewer, request_id, reading.value, reason=request.POST.get("_reason", ""))
            except Invalid as error:
                reading = reading._replace(errors=list(error.errors))
            else:
                messages.success(request, "Second look recorded. The decision remains.")
                following = read_open_looks(viewer)[:1]
                return redirect("wfdash:second-look", following[0].request) if following else redirect(LOOKS)
    context: dict[str, Any] = {
        "item": found,
        "title": catalog.title_of(found.workflow),
        "card": card.build(
            found.card,
            found.answer_schema,
            url=request.path,
            reading=reading,
            page=reverse("wfdash:request", args=[found.id]),
        ),
    }
    return render(request, "requests/second/look.html", context, status=status)


@get_page
def question(request: HttpRequest) -> HttpResponse:
    """Show how a ``step`` of a ``workflow`` is decided: agreement, what differed, edits, and the time it takes."""
    workflow, step = request.GET.get("workflow", ""), request.GET.get("step", "")
    found = read_quality(viewer_of(request), workflow, step)
    context = {
        "workflow": workflow,
        "step": step,
        "title": catalog.title_of(workflow),
        "found": found,
        "least": LEAST,
        "most": MOST_READ,
        "hasty": found.paced // 4,
        "ways": list(SETTLED.items()),
    }
    return render(request, "requests/second/question.html", context)


@post_page
def settle(request: HttpRequest, request_id: str) -> HttpResponse:
    """Record which of two decisions may stand, and return to the question's page."""
    found = settle_second_look(viewer_of(request), request_id, request.POST.get("settled", ""))
    messages.success(request, "Recorded.")
    query = {"workflow": found.workflow, "step": found.step}
    return redirect(f"{reverse('wfdash:question')}?{urlencode(query)}#differ")
