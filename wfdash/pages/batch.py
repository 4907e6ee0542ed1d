"""Requests that are alike, in one table: only what differs, ticks, one decision; and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse

from wfdash import desk, queries
from wfdash.access import Viewer
from wfdash.errors import Invalid
from wfdash.pages import card
from wfdash.pages.card.card import EDITED
from wfdash.pages.card.tables import Table, cell
from wfdash.pages.door import page, viewer_of
from wfdash.pages.forms.spec import humanize
from wfdash.pages.inboxplace import InboxPlace, read_place
from wfdash.pages.panel import offer_undo
from wfdash.pages.words import past

RESULT = "batch_result"
LEAD = ("subject",)
BODY = ("body",)
ONCE = (LEAD, BODY, ("undo",))
"""Shown in places of their own where they are the same for all."""
LONG = 160


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """A row of the table: the request, its cells with their classes, and whether it is ticked."""

    alike: queries.Alike
    title: str
    cells: tuple[tuple[str, str, str], ...]
    """Heading, class, text."""
    ticked: bool
    value: str


@page("GET", "POST")
def alike(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show what is alike to a request; a POST decides those that are ticked. ``all`` ticks every one that may be."""
    viewer, place = viewer_of(request), read_place(request.GET)
    found = queries.batch(viewer, request_id, place.tab, place.q)
    if request.method == "POST":
        return _decide(request, viewer, found, place)
    ticked = {row.id for row in found.rows if not row.refusal} if "all" in request.GET else set()
    return render(request, "batch/page.html", _context(found, place, ticked))


@page("GET")
def result(request: HttpRequest) -> HttpResponse:
    """Show what came of the last batch."""
    told = request.session.get(RESULT)
    if not told:
        return redirect("inbox")
    return render(request, "batch/result.html", {"told": told, "title": queries.titles().get(told["workflow"], "")})


@page("POST")
def undo(request: HttpRequest) -> HttpResponse:
    """Take the answers of the last batch back."""
    told = request.session.get(RESULT) or {}
    done, late = desk.undo_batch(viewer_of(request), [one["id"] for one in told.get("taken", [])])
    words = f"{done} answer{'' if done == 1 else 's'} taken back: they are open again."
    words += f" {late} had taken effect already." if late else ""
    messages.add_message(request, messages.WARNING if late else messages.SUCCESS, words)
    return redirect(told.get("back") or "inbox")


def _decide(request: HttpRequest, viewer: Viewer, found: queries.Batch, place: InboxPlace) -> HttpResponse:
    reading = card.read_answer(found.like.answer_schema, _face(found), request.POST, request.FILES)
    chosen = dict(_chosen(one) for one in request.POST.getlist("tick"))
    context = _context(found, place, set(chosen), reading)
    if reading.editing or reading.errors or not chosen:
        problem = "" if reading.editing or chosen else "Tick at least one request: nothing was decided."
        status = 200 if reading.editing else 422
        return render(request, "batch/page.html", context | {"problem": problem}, status=status)
    shown = render_to_string("batch/table.html", context)
    try:
        outcomes = desk.answer_batch(viewer, chosen.items(), reading.value, verdict=reading.action, page=shown)
    except Invalid as error:
        problem = "; ".join(str(one["msg"]) for one in error.errors)
        return render(request, "batch/page.html", context | {"problem": problem}, status=422)
    request.session[RESULT] = _told(found, place, outcomes, reading)
    settles = max((one.reply.settles for one in outcomes if one.reply and one.reply.settles), default=None)
    return offer_undo(redirect("batch-result"), settles)


def _chosen(tick: str) -> tuple[str, str]:
    """Read a tick: the request and the fingerprint of what its row showed."""
    request_id, _, seen = tick.partition(" ")
    return request_id, seen


def _told(
    found: queries.Batch, place: InboxPlace, outcomes: list[desk.Outcome], reading: card.Reading
) -> dict[str, Any]:
    """Return the outcome as the session keeps it."""
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
        "back": reverse("alike", args=[found.like.id]) + f"?{place.query}",
        "inbox": place.at(focus=False).url(),
    }


def _face(found: queries.Batch) -> dict[str, Any]:
    """Return the card one decides the batch with: what differs is in the table, and nobody edits thirty proposals."""
    actions = [one for one in found.like.card.get("actions") or [] if isinstance(one, dict)]
    kept = [one for one in actions if not set(one.get("fields") or []).intersection(EDITED)]
    face: dict[str, Any] = {"subject": "Your decision for all that are ticked"}
    if actions:
        face["actions"] = kept
    for name in ("consequence", "undo"):
        if (name,) in found.same or any(path[0] == name for path in found.same):
            face[name] = found.like.card.get(name)
    return face


def _context(
    found: queries.Batch, place: InboxPlace, ticked: set[str], reading: card.Reading | None = None
) -> dict[str, Any]:
    url = reverse("alike", args=[found.like.id]) + f"?{place.query}"
    columns = [path for path in found.columns if path != LEAD]
    return {
        "batch": found,
        "title": queries.titles().get(found.like.workflow, found.like.workflow),
        "rows": _rows(found, columns, ticked),
        "heads": [(heading(path, columns)) for path in columns],
        "body": found.same.get(BODY, ""),
        "same": [(heading(path, found.same), cell(value)) for path, value in found.same.items() if path not in ONCE],
        "spot": place,
        "url": url,
        "free": sum(not row.refusal for row in found.rows),
        # What is missing on this card is in the table above it.
        "form": replace(card.build(_face(found), found.like.answer_schema, url=url, reading=reading), missing=""),
    }


def _rows(found: queries.Batch, columns: list[tuple[str, ...]], ticked: set[str]) -> list[BatchRow]:
    texts = [tuple(_short(row.values.get(path)) for path in columns) for row in found.rows]
    looks = Table(columns=tuple(heading(path, columns) for path in columns), rows=tuple(texts)).looks if texts else ()
    heads = [heading(path, columns) for path in columns]
    return [
        BatchRow(
            alike=row,
            title=row.subject if LEAD in found.columns else f"Request {number}",
            cells=tuple(zip(heads, looks, cells, strict=True)),
            ticked=row.id in ticked and not row.refusal,
            value=f"{row.id} {row.seen}",
        )
        for number, (row, cells) in enumerate(zip(found.rows, texts, strict=True), 1)
    ]


def _short(value: Any) -> str:
    text = cell(value)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def heading(path: tuple[str, ...], others: Mapping[tuple[str, ...], Any] | list[tuple[str, ...]]) -> str:
    """Return a column's heading: the last part of its path, all of it where two would be called the same."""
    last = path[-1]
    alone = sum(other[-1] == last for other in others) < 2
    parts = path[-1:] if alone else path
    return ": ".join(humanize(part) if part.isidentifier() else f"{part[:1].upper()}{part[1:]}" for part in parts)
