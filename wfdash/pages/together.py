"""What people do to a request besides answering it: take it back, keep a draft, have it open, give it to somebody."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme

from wfdash import desk, queries
from wfdash.desk.preferences import read_notices
from wfdash.errors import Invalid, NotFound, WrongState
from wfdash.pages.door import key_of, page, viewer_of
from wfdash.pages.panel import back_to, fields_of, place_of


@page("POST")
def undo(request: HttpRequest, request_id: str) -> HttpResponse:
    """Take one's own answer or vote back; the card opens again with it filled in."""
    try:
        desk.undo_answer(viewer_of(request), request_id)
    except WrongState as error:
        messages.warning(request, str(error))
    return back_to(request_id, place_of(request.GET))


@page("POST")
def undo_all(request: HttpRequest) -> HttpResponse:
    """Take back every answer of one's own that has not taken effect yet."""
    viewer, done, late = viewer_of(request), 0, 0
    for found in queries.undoable(viewer):
        try:
            desk.undo_answer(viewer, found.request)
            done += 1
        except (WrongState, NotFound):
            late += 1
    words = f"{done} answers taken back." + (f" {late} had taken effect already." if late else "")
    messages.add_message(request, messages.WARNING if late else messages.SUCCESS, words)
    back = request.POST.get("next", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else "inbox")


@page("POST")
def draft(request: HttpRequest, request_id: str) -> HttpResponse:
    """Keep what is typed in the card's form; ``_drop`` throws it away. 204 for a script, else the request again."""
    viewer = viewer_of(request)
    if "_drop" in request.POST:
        desk.drop_draft(viewer, request_id)
        return back_to(request_id, place_of(request.GET))
    desk.save_draft(viewer, request_id, fields_of(request.POST))
    if request.headers.get("X-Quiet"):
        return HttpResponse(status=204)
    messages.success(request, "Draft saved. Only you see it, on any device you sign in on.")
    return back_to(request_id, place_of(request.GET))


@page("POST")
def here(request: HttpRequest, request_id: str) -> HttpResponse:
    """A sign of life of a page that shows the request; ``typing``, or ``leave`` with the last ``seen`` when it goes."""
    viewer = viewer_of(request)
    if "leave" in request.POST:
        desk.leave_request(viewer, request_id, _moment(request.POST.get("seen", "")))
        return HttpResponse(status=204)
    seen = desk.watch_request(viewer, request_id, typing="typing" in request.POST)
    read_notices(viewer, request=request_id)
    return JsonResponse({"seen": seen.isoformat()})


@page("POST")
def take(request: HttpRequest, request_id: str) -> HttpResponse:
    """Take the request over from whoever has it open."""
    desk.take_over(viewer_of(request), request_id)
    return back_to(request_id, place_of(request.GET))


@page("GET", "POST")
def assign(request: HttpRequest, request_id: str) -> HttpResponse:
    """Choose whose it is; a POST with ``to`` (a user name, empty: nobody) gives it to them."""
    viewer, problem, status = viewer_of(request), "", 200
    if request.method == "POST":
        to = request.POST.get("to", "")
        try:
            desk.assign_request(viewer, request_id, to or None, key=key_of(request))
        except Invalid as error:
            problem, status = str(error.errors[0]["msg"]), 422
        else:
            messages.success(request, f"Assigned to {to}." if to else "Assigned to nobody now.")
            return back_to(request_id, place_of(request.GET))
    found = queries.request(viewer, request_id)
    context = {"item": found, "names": queries.assignable(found), "problem": problem, "place": request.GET.urlencode()}
    return render(request, "request/assign.html", context, status=status)


@page("GET")
def people(request: HttpRequest, request_id: str) -> HttpResponse:
    """Return the names of those whom a comment can mention, as JSON."""
    return JsonResponse({"names": queries.mentionable(queries.request(viewer_of(request), request_id))})


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
