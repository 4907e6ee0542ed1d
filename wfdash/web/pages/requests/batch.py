"""Similar requests in one table: differing values, a selection, one decision, its result; the list of decisions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from checkpoints.records import Pairs, frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import Outcome, answer_batch, undo_batch
from wfdash.actions.runs.bulk import record_export
from wfdash.domain import json_patch
from wfdash.domain.errors import Invalid
from wfdash.domain.labels import label_of_key
from wfdash.domain.votes import EDITED
from wfdash.engines import catalog
from wfdash.notifications.rendering import render, render_to_string
from wfdash.queries.requests.batch import SimilarRequest, SimilarRequests, read_similar_requests
from wfdash.queries.requests.dataset import as_lines, read_examples
from wfdash.queries.requests.decisions import FILTER, MAX_SCANNED_DECISIONS, count_decisions, read_decisions
from wfdash.queries.requests.rules import suggest
from wfdash.queries.search import replaced
from wfdash.web.pages.site.decorators import form_page, get_page, key_of, post_page, viewer_of
from wfdash.web.pages.site.list_page import (
    InboxAddress,
    ListAddress,
    flaws_of,
    pages_context,
    read_address,
    read_inbox_address,
    search_context,
    term,
)
from wfdash.web.pages.ui import card
from wfdash.web.pages.ui.event_text import past
from wfdash.web.pages.ui.markup import beginning
from wfdash.web.pages.ui.parts import TableView, cell
from wfdash.web.pages.ui.times import counted

# The list of decisions, to which the numbers of statistics lead.

DECIDED = {
    "approved": "Approved",
    "edited": "Edited",
    "rejected": "Rejected",
    "other": "Other",
    "deadline": "By deadline",
    "rule": "By rule",
    "reversed": "Reversed",
}
"""What can become of a request, and what that is called."""
TONES = {"approved": "completed", "edited": "running", "rejected": "failed"}
QUICK: tuple[tuple[str, tuple[str, ...], Pairs], ...] = (
    ("Time", ("answered",), (("", "Any time"), ("answered:<1d", "24 hours"), ("answered:<7d", "7 days"))),
    ("Person", ("by",), (("", "Everyone"), ("by:me", "Me"))),
    (
        "Outcome",
        ("outcome", "is"),
        (
            ("", "All"),
            ("outcome:approved", "Approved"),
            ("outcome:edited", "Edited"),
            ("outcome:rejected", "Rejected"),
            ("outcome:deadline", "By deadline"),
            ("outcome:rule", "By rule"),
            ("is:reversed", "Reversed"),
        ),
    ),
)
"""Names of choices, the keys that each sets, and the terms to choose from."""
WEEK = "answered:<7d"


@get_page
def decisions(request: HttpRequest) -> HttpResponse:
    """Show one page of decisions, the latest first; ``q`` filters, ``after`` is the cursor of the next page."""
    viewer, place = viewer_of(request), read_address("decisions", request.GET)
    words = set(place.q.split())
    context: dict[str, Any] = search_context(place, FILTER) | {
        "quick": [
            (
                name,
                [((to := _with(place, keys, one)).url(), label, set(to.q.split()) == words) for one, label in choices],
            )
            for name, keys, choices in QUICK
        ],
        "most": MAX_SCANNED_DECISIONS,
        "exports": viewer.may_anywhere("inspect"),
    }
    try:
        found = read_decisions(viewer, place.q, cursor=request.GET.get("after", ""), far=bool(request.GET.get("far")))
        context["number"], context["more"] = count_decisions(viewer, place.q)
    except Invalid as error:
        return render(request, "requests/decisions.html", context | {"flaws": flaws_of(error)}, status=422)
    week = place if "answered:" in place.q else _with(place, ("answered",), WEEK)
    ways = {(row.answered_by, row.outcome == "rule") for row in found.items if row.answered_by}
    theirs = {by: _with(week, ("by",), "outcome:rule" if rule else term("by", by)).url() for by, rule in ways}
    context["rows"] = [
        (
            row,
            catalog.title_of(row.workflow),
            DECIDED[row.outcome],
            TONES.get(row.outcome, "cancelled"),
            theirs.get(row.answered_by, ""),
        )
        for row in found.items
    ]
    return render(request, "requests/decisions.html", context | pages_context(place, found))


@post_page
def export_decisions(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Send every decision the filter finds as a data set, people by their groups; it is recorded that they asked."""
    viewer, text = viewer_of(request), request.POST.get("q", "").strip()
    try:
        found = read_examples(viewer, text)
    except Invalid:
        return redirect(read_address("decisions", request.POST).url())
    record_export(viewer, "decisions", text=text, kind="jsonl")
    response = StreamingHttpResponse(as_lines(found), content_type="application/x-ndjson")
    response["Content-Disposition"] = 'attachment; filename="wfdash-decisions.jsonl"'
    return response


def _with(place: ListAddress, keys: tuple[str, ...], chosen: str) -> ListAddress:
    """Return the list with another term in place of those with these keys."""
    first, *others = keys
    return place.at(q=replaced(reduce(replaced, others, place.q), first, chosen))


RESULT = "batch_result"
LEAD = ("subject",)
BODY = ("body",)
ONCE = (LEAD, BODY, ("undo",))
"""Shown outside of the table where they are the same for all."""
SHOWN_COLUMNS = 8
CUT_CELL = 40
"""Characters from which on a cell may be cut, and is shown in full below its row."""
MOST_DETAIL = 800
"""Characters of a value that is shown below a row, or for all."""
MOST_ITEMS = 5
LONG = re.compile(r"https?://|.*\n")
"""What is not shown in one line."""


@frozen
class BatchRow:
    """A row of the table: the request, its cells with their classes, and whether it is selected.

    ``lead`` is its heading and leads to the request; ``more``: headings and texts that its one line has no room for.
    """

    alike: SimilarRequest
    title: str
    lead: str
    cells: tuple[tuple[str, str, str], ...]
    """Heading, class, text."""
    more: Pairs
    ticked: bool
    value: str


@form_page
def similar(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show the requests similar to one; a POST decides the selected ones.

    ``all`` selects every one that may be, ``request`` those it names.
    """
    viewer, place = viewer_of(request), read_inbox_address(request.GET)
    found = read_similar_requests(viewer, request_id, place.tab, place.q)
    if request.method == "POST":
        return _decide(request, viewer, found, place)
    free, wanted = {row.id for row in found.rows if not row.refusal}, set(request.GET.getlist("request"))
    context = _context(found, place, free if "all" in request.GET else free & wanted)
    missing = len(wanted - {row.id for row in found.rows})
    return render(request, "requests/batch/page.html", context | {"missing": missing})


@get_page
def result(request: HttpRequest) -> HttpResponse:
    """Show the result of the last batch."""
    outcome = request.session.get(RESULT)
    if not outcome:
        return redirect("wfdash:inbox")
    return render(
        request,
        "requests/batch/result.html",
        {"outcome": outcome, "title": catalog.titles().get(outcome["workflow"], "")},
    )


@post_page
def undo(request: HttpRequest) -> HttpResponse:
    """Undo the answers of the last batch."""
    outcome = request.session.get(RESULT) or {}
    done, late = undo_batch(viewer_of(request), [one["id"] for one in outcome.get("taken", [])])
    words = f"{counted(done, 'answer')} undone."
    words += f" {late} could not be undone." if late else ""
    messages.add_message(request, messages.WARNING if late else messages.SUCCESS, words)
    return redirect(outcome.get("back") or "wfdash:inbox")


def _decide(request: HttpRequest, viewer: Viewer, found: SimilarRequests, place: InboxAddress) -> HttpResponse:
    reading = card.read_answer(_schema(found), _batch_card(found), request.POST, request.FILES)
    chosen = dict(_chosen(one) for one in request.POST.getlist("tick"))
    context = _context(found, place, set(chosen), reading)
    if reading.editing or reading.errors or not chosen:
        problem = "" if reading.editing or chosen else "Select at least one request."
        status = 200 if reading.editing else 422
        return render(request, "requests/batch/page.html", context | {"problem": problem}, status=status)
    shown = render_to_string("requests/batch/table.html", context)
    try:
        outcomes = answer_batch(
            viewer, chosen.items(), reading.value, verdict=reading.action, page=shown, key=key_of(request)
        )
    except Invalid as error:
        problem = error.summary
        return render(request, "requests/batch/page.html", context | {"problem": problem}, status=422)
    request.session[RESULT] = _stored_result(found, place, outcomes, reading)
    return redirect("wfdash:batch-result")


def _chosen(tick: str) -> tuple[str, str]:
    """Return a selected row's request and the fingerprint of what it showed."""
    request_id, _, seen = tick.partition(" ")
    return request_id, seen


def _stored_result(
    found: SimilarRequests, place: InboxAddress, outcomes: list[Outcome], reading: card.PostedAnswer
) -> dict[str, Any]:
    """Return the outcome as the session stores it."""
    taken = [one for one in outcomes if one.reply is not None]
    stayed = [one for one in outcomes if one.reply is None]
    settles = [one.reply.settles for one in taken if one.reply and one.reply.settles]
    return {
        "workflow": found.like.workflow,
        "verdict": past(reading.action or "answered"),
        "taken": [{"id": one.request, "subject": one.subject} for one in taken],
        "stayed": [{"id": one.request, "subject": one.subject, "problem": one.problem} for one in stayed],
        "why": sorted(Counter(one.kind for one in stayed).items()),
        "settles": max(settles).isoformat() if settles else "",
        "back": reverse("wfdash:similar", args=[found.like.id]) + f"?{place.query}",
        "inbox": place.at(focus=False).url(),
    }


def _batch_card(found: SimilarRequests) -> dict[str, Any]:
    """Return the card of the batch: differing values are in the table, and proposals cannot be edited."""
    actions = [one for one in found.like.card.get("actions") or [] if isinstance(one, dict)]
    kept = [one for one in actions if not set(one.get("fields") or []).intersection(EDITED)]
    face: dict[str, Any] = {"subject": "Decide selected requests"}
    if actions:
        face["actions"] = kept
    for name in ("consequence", "undo"):
        if (name,) in found.same or any(path[0] == name for path in found.same):
            face[name] = found.like.card.get(name)
    return face


def _schema(found: SimilarRequests) -> dict[str, Any]:
    schema = card.unedited(found.like.answer_schema, found.like.card)
    kept = {name: node for name, node in schema.get("properties", {}).items() if name != json_patch.FIELD}
    return {**schema, "properties": kept} if kept else schema


def _context(
    found: SimilarRequests, place: InboxAddress, ticked: set[str], reading: card.PostedAnswer | None = None
) -> dict[str, Any]:
    url = reverse("wfdash:similar", args=[found.like.id]) + f"?{place.query}"
    tool = {("tool",): found.like.card.get("tool", {}).get("name")}
    shared = {path: value for path, value in (tool | found.same).items() if path not in ONCE}
    return {
        "batch": found,
        "title": catalog.title_of(found.like.workflow),
        "body": found.same.get(BODY, ""),
        "same": [(heading(path, shared), text) for path, value in shared.items() if (text := _words(path, value))],
        "spot": place,
        "url": url,
        "free": sum(not row.refusal for row in found.rows),
        "suggested": suggest(found.like.viewer, found.like.workflow, found.like.step, found.like.card),
        "form": card.build(_batch_card(found), _schema(found), url=url, reading=reading),
        **_table(found, ticked),
    }


def _words(path: tuple[str, ...], value: Any) -> str:
    """Return a value as text, the parts of a list in lines; empty for what only its request's page can show."""
    if path == BODY:
        return beginning(str(value or ""), MOST_DETAIL)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        lines = (", ".join(cell(part) for part in item.values()) for item in value[:MOST_ITEMS] if "role" not in item)
        return "\n".join(lines)[:MOST_DETAIL]
    return "" if value is None or value in ("", [], {}) else cell(value)


def _table(found: SimilarRequests, ticked: set[str]) -> dict[str, Any]:
    """Return the rows and headings: the subject, or what a tool is called with, which says the same; the text last.

    Lists of parts and addresses say nothing in a column: they are below each row, with what its one line cuts.
    """
    texts = {path: [_words(path, row.values.get(path)) for row in found.rows] for path in found.columns if path != LEAD}
    names = {path: heading(path, list(texts)) for path in texts}
    short = [path for path in texts if path != BODY and any(text and not LONG.match(text) for text in texts[path])]
    short.sort(key=lambda path: path[0] != "proposal")
    columns = short[:SHOWN_COLUMNS] + [BODY] * (BODY in texts)
    spoken = found.like.kind == "tool_call" and columns[:1] > [("proposal",)]
    lines = list(zip(*(texts[path] for path in columns[spoken:]), strict=True)) or [()] * len(found.rows)
    looks = TableView(columns=(), rows=tuple(lines)).looks
    rows = []
    for place, row in enumerate(found.rows):
        title = row.subject if LEAD in found.columns else f"Request {place + 1}"
        longer = [path for path in texts if path not in columns or len(texts[path][place]) > CUT_CELL]
        rows.append(
            BatchRow(
                alike=row,
                title=title,
                lead=(spoken and texts[columns[0]][place]) or title,
                cells=tuple(zip((names[path] for path in columns[spoken:]), looks, lines[place], strict=True)),
                more=tuple((names[path], texts[path][place]) for path in longer if texts[path][place]),
                ticked=row.id in ticked and not row.refusal,
                value=f"{row.id} {row.seen}",
            )
        )
    return {"rows": rows, "heads": ["Request"][spoken:] + [names[path] for path in columns]}


def heading(path: tuple[str, ...], others: Mapping[tuple[str, ...], Any] | list[tuple[str, ...]]) -> str:
    """Return a column's heading: the last part of its path, all of it where two would be the same."""
    last = path[-1]
    alone = sum(other[-1] == last for other in others) < 2
    parts = path[-1:] if alone else path
    labels = (label_of_key(part) for part in parts)
    return ": ".join(f"{label[:1].upper()}{label[1:]}" for label in labels)
