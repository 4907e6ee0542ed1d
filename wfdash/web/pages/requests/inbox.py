"""The inbox: every request that waits for this person, the list left, the decision card right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from checkpoints.errors import Unreadable
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import MOST_ASSIGNED, assign_requests
from wfdash.actions.requests.collaboration import snooze_request
from wfdash.domain.errors import AlreadyAnswered, Invalid, NoLongerOpen, NotFound
from wfdash.domain.search_attributes import CARD_NAME, MOST_OFFERED, card_field, known_names
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.requests.inbox import (
    FILTER,
    TABS,
    Gate,
    RequestRow,
    card_values,
    count_all,
    count_similar,
    count_similar_shown,
    count_since,
    read_inbox,
    read_neighbours,
    request_rows,
)
from wfdash.queries.requests.request import read_assignees, read_request
from wfdash.queries.requests.rules import rule_of
from wfdash.queries.unreadable import why
from wfdash.web.pages.requests.panel import panel
from wfdash.web.pages.site.context_processors import looks_of
from wfdash.web.pages.site.decorators import (
    LOCAL,
    form_page,
    get_page,
    key_of,
    moment_in,
    typed_moment,
    viewer_of,
    zone_of,
)
from wfdash.web.pages.site.list_page import (
    MAX_LINE,
    FieldCell,
    InboxAddress,
    cells_of,
    flaws_of,
    grouped,
    open_view,
    read_inbox_address,
    search_context,
    views_context,
)
from wfdash.web.pages.ui.event_text import past, step_label
from wfdash.web.pages.ui.fragments import RISKS, draw_icon, respond
from wfdash.web.pages.ui.time_html import draw_time, format_html

# What is done with the requests that are selected in the inbox: decided together, or assigned.

RESULT = "selected_result"
ACTS = ("together", "take", "assign", "remind")


@form_page
def selected(request: HttpRequest) -> HttpResponse:
    """Act on the requests that a POST names (``request``, ``act``); a GET shows what became of the last ones.

    ``together`` opens the table of similar requests, with these selected; ``take`` assigns them to oneself, ``assign``
    to ``to``, and asks for it first. ``remind`` keeps them out of one's own queue until ``until``, a time in one's own
    zone, and asks for it first, by a GET too.
    """
    viewer, place = viewer_of(request), read_inbox_address(request.GET)
    if request.method != "POST" and request.GET.get("act") == "remind":
        return _choose_time(request, viewer, place, request.GET.getlist("request")[:MOST_ASSIGNED])
    if request.method != "POST":
        outcome = request.session.get(RESULT)
        return (
            render(request, "requests/selected/result.html", {"outcome": outcome})
            if outcome
            else redirect("wfdash:inbox")
        )
    ids = list(dict.fromkeys(request.POST.getlist("request")))[:MOST_ASSIGNED]
    act = request.POST.get("act", "")
    if not ids or act not in ACTS:
        messages.error(request, "Select at least one request.")
        return redirect(place.url())
    if act == "together":
        return _together(request, viewer, place, ids)
    if act == "remind":
        return _remind(request, viewer, place, ids)
    if act == "assign" and "to" not in request.POST:
        return _choose(request, viewer, place, ids)
    return _assign(request, viewer, place, ids, viewer.name if act == "take" else request.POST.get("to", ""))


def _assign(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str], to: str) -> HttpResponse:
    try:
        outcomes = assign_requests(viewer, ids, to or None, key=key_of(request))
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.url())
    words = f"assigned to {'you' if to == viewer.name else to}" if to else "unassigned"
    request.session[RESULT] = {
        "words": words,
        "done": [{"id": one.request, "subject": one.subject} for one in outcomes if not one.problem],
        "stayed": [
            {"id": one.request, "subject": one.subject, "problem": one.problem} for one in outcomes if one.problem
        ],
        "inbox": place.at(focus=False).url(),
    }
    return redirect("wfdash:selected")


def _choose(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str]) -> HttpResponse:
    """Ask to whom they are assigned: anyone who may answer in one of their workflows."""
    rows = request_rows(viewer, ids)
    names = read_assignees(viewer, {row.workflow for row in rows})
    context = {"rows": rows, "names": names, "spot": place, "viewer": viewer}
    return render(request, "requests/selected/assign.html", context)


def _choose_time(
    request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str], problem: str = ""
) -> HttpResponse:
    """Ask when this person wants to be reminded."""
    rows = request_rows(viewer, ids)
    if not rows:
        messages.error(request, "Select at least one request.")
        return redirect(place.url())
    zone = ZoneInfo(zone_of(viewer))
    now = timezone.now().astimezone(zone)
    nine = now.replace(hour=9, minute=0, second=0, microsecond=0)
    times = {
        "In an hour": now + timedelta(hours=1),
        "Tomorrow": nine + timedelta(days=1),
        "Next Monday": nine + timedelta(days=7 - now.weekday()),
    }
    context = {
        "rows": rows,
        "times": [(label, f"{at:%a, %Y-%m-%d %H:%M}", at.strftime(LOCAL)) for label, at in times.items()],
        "own": request.POST.get("at", times["Tomorrow"].strftime(LOCAL)),
        "zone": zone.key,
        "problem": problem,
        "spot": place,
    }
    return render(request, "requests/selected/remind.html", context, status=422 if problem else 200)


def _remind(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str]) -> HttpResponse:
    chosen = request.POST.get("until")
    if chosen is None:
        return _choose_time(request, viewer, place, ids)
    given = request.POST.get("at", "") if chosen == "own" else chosen
    key, done, stayed, sooner = key_of(request), 0, 0, 0
    try:
        until = typed_moment(given, ZoneInfo(zone_of(viewer)), "at") if given else None
        for one in ids:
            try:
                found = snooze_request(viewer, one, until, key=f"{key} {one}" if key else None)
            except (AlreadyAnswered, NoLongerOpen, NotFound):
                stayed += 1
            else:
                done += 1
                sooner += bool(until and found.due and found.due < until)
    except Invalid as error:
        return _choose_time(request, viewer, place, ids, str(error.errors[0]["msg"]))
    words = f"{done} snoozed until {until:%Y-%m-%d %H:%M}." if until else f"{done} back in your queue."
    if sooner:
        words += f" {sooner} of them due before that: see Snoozed."
    if stayed:
        words += f" {stayed} no longer open."
    messages.success(request, words)
    return redirect(place.at(focus=False).url())


def _together(request: HttpRequest, viewer: Viewer, place: InboxAddress, ids: Sequence[str]) -> HttpResponse:
    """Open the table of similar requests; if they do not ask the same, say which of them do."""
    rows = request_rows(viewer, ids)
    gates: dict[tuple[str, str, str], list[RequestRow]] = {}
    for row in rows:
        if row.open:
            gates.setdefault(row.gate, []).append(row)
    if len(gates) == 1:
        return redirect(_table(place, next(iter(gates.values()))))
    groups = [
        {"title": catalog.title_of(gate[0]), "step": gate[1], "rows": asked, "href": _table(place, asked)}
        for gate, asked in gates.items()
    ]
    closed = list(inbox_rows(viewer, place, [row for row in rows if not row.open]))
    context = {"groups": groups, "closed": closed, "missing": len(ids) - len(rows), "spot": place}
    return render(request, "requests/selected/groups.html", context)


def _table(place: InboxAddress, rows: Sequence[RequestRow]) -> str:
    """Return the address of the table of what is similar to these, with them selected."""
    first = next((row for row in rows if row.risk != "high"), rows[0])
    chosen = urlencode([("request", row.id) for row in rows])
    return f"{reverse('wfdash:similar', args=[first.id])}?{place.query}&{chosen}"


# A row of the inbox as HTML. In Python: as templates, fifty rows would take most of the page's time.

UNREAD = SafeString('<span class="unread-dot" title="Not opened yet"></span><span class="visually-hidden">New: </span>')
NOTHING = SafeString("")
ROW = (
    '<li id="row-{id}" class="{classes}" data-row="{id}" data-nav-row>{box}'
    '<a class="row-link" href="{href}" data-nav data-cell="row"{here}>'
    '<span class="row-mark">{unread}</span>'
    '<span class="row-title" title="{subject}" dir="auto">{same}<span class="row-own">{own}</span></span>{values}'
    '<span class="row-risk">{risk}</span><span class="row-run" title="{run} · {step}" dir="auto">{run} · {step}</span>'
    '<span class="row-meta">{meta}</span></a></li>'
)


def render_row(line: InboxRow) -> SafeString:
    """Return the row as a list item."""
    row = line.row
    return format_html(
        ROW,
        id=row.id,
        classes=line.classes,
        box=format_html(
            '<label class="row-tick"><input type="checkbox" name="request" value="{}" form="inbox-chosen"'
            ' aria-label="Select {}"></label>',
            line.row.id,
            line.row.subject,
        )
        if not line.answered
        else NOTHING,
        href=line.href,
        here=SafeString(' aria-current="true"') if line.here else NOTHING,
        unread=UNREAD if row.unread and row.open and not line.answered else NOTHING,
        risk=_risk(row.risk) if row.risk and not line.gone else NOTHING,
        subject=row.subject,
        same=format_html('<span class="row-same">{}</span>', line.same) if line.same else NOTHING,
        own=row.subject.removeprefix(line.same),
        values=format_html(
            '<span class="row-values">{}</span>', format_html_join("", VALUE, (_value(cell) for cell in line.cells))
        )
        if line.cells
        else NOTHING,
        run=row.run_title,
        step=line.step,
        meta=SafeString("".join((*_marks(line), *_times(line)))),
    )


VALUE = '<span class="row-value{}" title="{}: {}"><span class="row-label">{}</span> {}</span>'


def _value(cell: FieldCell) -> tuple[str, str, str, str, str]:
    look = " is-none" * (not cell.kind) + " is-number" * cell.numeric
    return look, cell.label, cell.text, cell.label, draw_time(cell.at) if cell.at else cell.text


def _risk(level: str) -> SafeString:
    kind, drawing = (level if level in RISKS else "unknown"), draw_icon(RISKS.get(level, "question-mark-circle"), 16)
    return format_html(
        '<span class="risk-icon is-{0}" title="{1} risk">{2}<span class="visually-hidden">{1} risk: </span></span>',
        kind,
        level,
        drawing,
    )


def _times(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if line.gone:
        yield format_html('<span class="row-gone">{}{}</span>', draw_icon("check-circle", 16), line.gone)
    elif line.answered:
        words = past(row.verdict) if row.answered else "given"
        yield format_html('<span class="chip tone is-completed">{}</span>', words)
        if row.answered:
            yield format_html('<span class="row-when">{}</span>', draw_time(row.answered))
    else:
        if row.snoozed and row.open:
            yield format_html(
                '<span class="row-until" title="Snoozed until">{}{}</span>', REMINDER, draw_time(row.snoozed)
            )
        else:
            yield format_html('<span class="row-when" title="Asked">{}</span>', draw_time(row.created))
        if line.due:
            words = "overdue, " if line.due == "late" else "due "
            moment = draw_time(row.due, due=True)
            yield format_html(DUE, line.due, CLOCK, words, moment)


def _marks(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if row.here:
        names = ", ".join(row.here)
        hint = SafeString('<span class="visually-hidden"> is viewing</span>')
        eye = draw_icon("eye", 16)
        yield format_html(
            '<span class="inbox-here" title="{0} is viewing">{1}<span>{0}</span>{2}</span>', names, eye, hint
        )
    if row.asked and row.open:
        yield ASKED
    if line.whom and not line.gone and not line.answered:
        yield _whom(line)


def _whom(line: InboxRow) -> SafeString:
    taken = bool(line.row.assignee)
    words = "Assigned to" if taken else "For"
    return format_html(
        '<span class="inbox-who{}" title="{} {}">{}<span class="visually-hidden">{} </span><span>{}</span></span>',
        " has-one" if taken else "",
        words,
        line.whom,
        draw_icon("user" if taken else "user-group", 16),
        words,
        line.whom,
    )


CLOCK, REMINDER = draw_icon("clock", 16), draw_icon("bell", 16)
DUE = '<span class="row-due due-{}">{}<span class="due-words">{}</span>{}</span>'
ASKED = format_html(
    '<span class="inbox-asked" title="Information requested">{}<span>information requested</span></span>',
    draw_icon("chat-bubble-left-ellipsis", 16),
)


LABELS = {
    "mine": "My queue",
    "groups": "My groups",
    "unassigned": "Unassigned",
    "asked": "Questions for me",
    "snoozed": "Snoozed",
    "all": "All open",
    "answered": "Decided by me",
}
SORTS = {"age": "Oldest first", "due": "Due date", "risk": "Risk", "alike": "Similar"}
TEMPLATES = {False: "requests/inbox/page.html", True: "requests/inbox/focus.html"}
FRAGMENTS = {
    "list": "requests/inbox/list.html",
    "news": "requests/inbox/news.html",
    "columns": "requests/inbox/columns.html",
}
MOST_IDS = 200


@get_page
def inbox(request: HttpRequest) -> HttpResponse:
    """Show a tab of the inbox. ``request`` names the selected one; without it the first is shown on wide screens.

    ``view`` alone opens a saved view; ``focus`` shows one card and nothing else; ``fragment=news`` says what became
    of the requests named by ``ids``, and how many are new since ``since``; ``fragment=columns`` which values of their
    cards can be shown.
    """
    viewer, place = viewer_of(request), read_inbox_address(request.GET)
    if place.view and "tab" not in request.GET:
        return open_view(viewer, place.view)
    fragment = request.GET.get("fragment", "")
    if fragment == "news":
        return respond(request, "requests/inbox/page.html", _news_context(request, viewer, place), FRAGMENTS)
    context, place, shown = _surroundings(request, viewer, place, request.GET.get("request", ""))
    if fragment not in FRAGMENTS:
        context |= _card(viewer, shown, place) | views_context(viewer, place)
        context["rule"] = rule_of(viewer, place.q) if place.q else ()
    return respond(request, TEMPLATES[place.focus], context, FRAGMENTS)


def in_list(request: HttpRequest, request_id: str, panel: dict[str, Any], *, status: int) -> HttpResponse:
    """Return the panel of a request with the list it was opened from, which the address names."""
    viewer = viewer_of(request)
    context, place, _ = _surroundings(request, viewer, read_inbox_address(request.GET), request_id)
    return render(request, TEMPLATES[place.focus], context | panel | views_context(viewer, place), status=status)


def _surroundings(
    request: HttpRequest, viewer: Viewer, place: InboxAddress, selected: str
) -> tuple[dict[str, Any], InboxAddress, str]:
    """Return what is around a card, the place with its progress, and which request is shown."""
    context = _list_context(request, viewer, place)
    shown = selected or (context["rows"][0].row.id if context["rows"] else "")
    for number, line in enumerate(context["rows"], 1):
        line.here = line.row.id == shown
        if line.here and not context.get("paged"):
            context["at"] = number
    context |= {"selected": selected, "back": place.query}
    if place.focus:
        context |= _progress(viewer, place, shown, context)
        place = place.at(of=context["of"])
    return context, place, shown


@get_page
def focus(request: HttpRequest) -> HttpResponse:
    """Begin focus mode with what the address names."""
    return redirect(read_inbox_address(request.GET).at(focus=True).url(request=request.GET.get("request", "")))


def _list_context(request: HttpRequest, viewer: Viewer, place: InboxAddress) -> dict[str, Any]:
    """Return the list and everything about it; with a filter that is none, what is wrong with it instead."""
    now = timezone.now()
    common = search_context(place, FILTER) | {
        "now": now,
        "sorts": [
            {"label": label, "href": place.at(sort=sort, focus=False).url(), "here": sort == place.sort}
            for sort, label in SORTS.items()
        ],
    }
    try:
        counts, waiting = count_all(viewer, place.q)
        cursor = request.GET.get("after", "")
        found = read_inbox(viewer, place.tab, place.q, sort=place.sort, cursor=cursor, limit=1 if place.focus else 50)
    except Invalid as error:
        return common | {"tabs": _tabs(place, {}), "rows": [], "flaws": flaws_of(error)}
    if place.sort == "alike":
        alike = count_similar(viewer, place.tab, place.q, found.items)
    else:
        alike = count_similar_shown(found.items)
    request.open_count = waiting  # type: ignore[attr-defined]
    shown = {"cells": {}} if place.focus else _columns(request, viewer, place, found.items)
    return common | {
        "tabs": _tabs(place, counts),
        "counts": counts,
        "count": counts[place.tab],
        "rows": list(inbox_rows(viewer, place, found.items, alike=alike, cells=shown.pop("cells"))),
        **shown,
        "older": place.url(after=found.next) if found.next else "",
        "paged": bool(cursor),
    }


def _news_context(request: HttpRequest, viewer: Viewer, place: InboxAddress) -> dict[str, Any]:
    ids = [one for one in request.GET.get("ids", "").split(",") if one][:MOST_IDS]
    rows = request_rows(viewer, ids)
    counts, waiting = count_all(viewer, place.q)
    request.open_count = waiting  # type: ignore[attr-defined]
    since, known = moment_in(request.GET.get("since", "")) or timezone.now(), ids if request.GET.get("whole") else None
    cells = _columns(request, viewer, place.at(columns=place.columns or ()), rows)["cells"]
    return {
        "spot": place,
        "tabs": _tabs(place, counts),
        "rows": inbox_rows(viewer, place, rows, cells=cells),
        "new": count_since(viewer, place.tab, place.q, since, known),
    }


def _columns(request: HttpRequest, viewer: Viewer, place: InboxAddress, rows: Sequence[RequestRow]) -> dict[str, Any]:
    """Return the values of cards that rows show, by request, and what the menu offers once it is asked (one query)."""
    names = place.columns
    if names is None:
        names = known_names(looks_of(request).columns.get("inbox", ()), CARD_NAME)
    asked = names or "choose" in request.GET or request.GET.get("fragment") == "columns"
    values = card_values(viewer, [row.id for row in rows]) if asked else {}
    found: dict[str, list[Any]] = {}
    for name, one in (item for cells in values.values() for item in cells.items()):
        short = len(found) < MOST_OFFERED and not (isinstance(one.value, str) and len(one.value) > MAX_LINE)
        if short or name in found or name in names:
            found.setdefault(name, []).append(one.value)
    fields = {name: card_field(name, found.get(name, ())) for name in (*found, *names)}
    shown = [fields[name] for name in names]
    return {
        "heads": shown,
        "choosing": asked,
        "field_columns": grouped(fields.values(), names),
        "live_address": (place.at(columns=names) if names else place).url(),
        "cells": {row.id: cells_of(shown, values.get(row.id, {})) for row in rows if names},
    }


def _tabs(place: InboxAddress, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": tab,
            "label": LABELS[tab],
            "count": counts.get(tab),
            "here": tab == place.tab,
            "href": place.at(tab=tab, view="", focus=False).url(),
        }
        for tab in TABS
    ]


def _card(viewer: Viewer, request_id: str, place: InboxAddress) -> dict[str, Any]:
    if not request_id:
        return {}
    try:
        return panel(read_request(viewer, request_id), place.parts)
    except NotFound:
        return {"gone": True}
    except Unreadable as error:
        return {"unreadable": why(error), "remedy": str(error)}


def _progress(viewer: Viewer, place: InboxAddress, shown: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return the progress in focus mode, the number of the request in the list, and the ways to its neighbours."""
    left = context.get("count", 0)
    of = max(place.of, left)
    before, after, at = read_neighbours(viewer, shown, place.tab, place.q, sort=place.sort)
    return {
        "left": left,
        "at": at,
        "of": of,
        "done": of - left,
        "before": place.at(of=of).url(request=before) if before else "",
        "after": place.at(of=of).url(request=after) if after else "",
        "leave": place.at(focus=False).url(request=shown),
    }


# Rows of the inbox as they are shown: words, marks, links. Drawn by the fifty, so that they are made of few parts.

SOON = timedelta(hours=4)
MOST_NAMES = 2


@dataclass(kw_only=True)
class InboxRow:
    """A row. ``gone``: what became of it, if it is not open any more; ``head``: begins a group of alike ones."""

    row: RequestRow
    title: str
    same: str
    """What the subjects of alike requests begin with: cut before what they differ in."""
    step: str
    href: str
    whom: str
    due: str
    """``late``, ``soon``, ``later``, or empty."""
    gone: str = ""
    alike: int = 0
    batch: str = ""
    head: bool = False
    here: bool = False
    answered: bool = False
    """It stands among one's answers."""
    cells: Sequence[FieldCell] = ()
    """Values of its card, one for each column that was chosen."""

    @property
    def classes(self) -> str:
        """Return the row's state as classes."""
        states = {
            "is-unread": self.row.unread and self.row.open and not self.answered,
            "is-gone": not self.row.open and not self.answered,
            "is-overdue": self.due == "late",
            "is-here": self.here,
        }
        return " ".join(["inbox-row", *(name for name, holds in states.items() if holds)])


def inbox_rows(
    viewer: Viewer,
    place: InboxAddress,
    rows: Sequence[RequestRow],
    *,
    alike: Mapping[Gate, int] | None = None,
    cells: Mapping[str, Sequence[FieldCell]] | None = None,
) -> Iterator[InboxRow]:
    """Yield the rows as they are shown to this person, with these ``cells`` of each."""
    now, answered = timezone.now(), place.tab == "answered"
    last, offered = None, set()
    begun = Counter(
        (gate, begin)
        for gate, subject in {(row.gate, row.subject) for row in rows}
        for begin in ("", *beginnings(subject))
    )
    for row in rows:
        number = (alike or {}).get(row.gate, 0)
        first = row.gate not in offered
        offered.add(row.gate)
        most = max(2, begun[row.gate, ""] / 2)
        yield InboxRow(
            row=row,
            title=catalog.title_of(row.workflow),
            same=max((one for one in beginnings(row.subject) if begun[row.gate, one] >= most), key=len, default=""),
            step=step_label(row.step, row.workflow),
            href=place.url(request=row.id),
            whom=_responsible(row, viewer),
            due=_due(row, now),
            gone="" if answered else _outcome(row, viewer),
            alike=number,
            batch=reverse("wfdash:similar", args=[row.id]) + f"?{place.query}" if number and first else "",
            answered=answered,
            head=place.sort == "alike" and row.gate != last,
            cells=(cells or {}).get(row.id, ()),
        )
        last = row.gate


SHORT, LONG = 12, 200
"""Characters of a beginning that is worth cutting, and of those compared."""


def beginnings(subject: str) -> list[str]:
    """Return what a subject may share with others: its first words, one more each time, never the whole."""
    return [subject[: match.end()] for match in re.finditer(r"\s", subject[:LONG]) if match.end() > SHORT]


def _due(row: RequestRow, now: datetime) -> str:
    if row.due is None or not row.open:
        return ""
    return "late" if row.due <= now else "soon" if row.due <= now + SOON else "later"


def _responsible(row: RequestRow, viewer: Viewer) -> str:
    """Say whose it is: the one who has it, else those it is for."""
    if row.assignee:
        return "you" if row.assignee == viewer.name else row.assignee
    names = ["you" if name == viewer.name else "the requester" if name == "requester" else name for name in row.by]
    more = f" +{len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _outcome(row: RequestRow, viewer: Viewer) -> str:
    """Say what became of a request that is not open any more."""
    if row.open:
        return ""
    if row.answered is not None:
        who = "You" if row.answered_by == viewer.name else row.answered_by or "A deadline"
        return f"{who} {past(row.verdict)} it"
    if row.settles is not None:
        return "Just decided"
    return {"withdrawn": "No longer needed", "cancelled": "The run was cancelled"}.get(row.closed_as, "Asked again")
