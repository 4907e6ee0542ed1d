"""The list of runs: filter, columns, saved views, live rows that keep their places, export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.actions.account.looks import set_columns
from wfdash.domain.run_fields import RunField
from wfdash.errors import Invalid
from wfdash.pages.runs.listing.dates import dates_of, with_dates
from wfdash.pages.runs.listing.fields import FieldCell, cells_of, field_columns, label_of
from wfdash.pages.runs.listing.tabs import mine_of, tabs_of
from wfdash.pages.site.decorators import page, viewer_of
from wfdash.pages.site.list_address import COLUMNS, DURATIONS, RunsAddress, address_in, known_columns, read_runs_address
from wfdash.pages.site.list_page import flaws_of, open_view, pages_context, search_context, views_context
from wfdash.pages.site.looks import looks_of
from wfdash.pages.site.time_zone import moment_in
from wfdash.pages.ui.event_text import status_sentence
from wfdash.pages.ui.fragments import respond
from wfdash.queries.runs.filter_keys import FILTER
from wfdash.queries.runs.listing import MOST_COMPARED, RunRow, count_runs_since, longest, read_runs, run_rows
from wfdash.queries.runs.values import field_values, fields_named

DEFAULT_COLUMNS = ("status", "progress", "tags", "started", "took")
FRAGMENTS = {"list": "runs/listing/list.html", "news": "runs/listing/news.html", "tabs": "runs/listing/tabs.html"}
VERBS = (
    ("retry", "Retry"),
    ("cancel", "Cancel"),
    ("pause", "Pause"),
    ("resume", "Resume"),
    ("tag", "Change tags"),
    ("delete", "Delete"),
)
SORTED = ("started", "finished", "took")
MOST_IDS = 200
MOST_NEW = 100


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run as a row shows it. ``marks``: how people changed its course; ``whom``: who has to answer.

    ``fields``: values of its input and output.
    """

    run: RunRow
    words: str
    title: str
    marks: tuple[str, ...]
    fields: tuple[FieldCell, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.run.title or self.title


@dataclass(frozen=True, kw_only=True)
class ColumnSort:
    """The head of a column that sorts. ``state``: descending, ascending or empty."""

    href: str
    state: str


@page("GET")
def runs(request: HttpRequest) -> HttpResponse:
    """Show one page of runs: ``q`` filters, ``sort`` orders, ``after`` is the cursor of the next page.

    ``far`` looks through more of them; ``view`` alone opens a saved view; ``from`` and ``to`` are written into the
    filter. ``fragment=news`` says how the runs named by ``ids`` are now, and how many are new since ``since``;
    ``fragment=tabs`` how many each tab has.
    """
    viewer, place = viewer_of(request), read_runs_address(request.GET)
    if place.view and not request.GET.keys() - {"view"}:
        return open_view(viewer, place.view)
    if request.GET.keys() & {"from", "to"}:
        return _open_dates(request, place)
    fragment = request.GET.get("fragment", "")
    if fragment == "news":
        return respond(request, "runs/listing/page.html", _news_context(request, viewer, place), FRAGMENTS)
    if fragment == "tabs":
        context = {"spot": place, "tabs": tabs_of(place, viewer), "mine": mine_of(place), "counted": True}
        return respond(request, "runs/listing/page.html", context, FRAGMENTS)
    common = _common(request, viewer, place)
    context = common | _list_context(request, viewer, place, common["fields"])
    if fragment != "list":
        context |= views_context(viewer, place)
    return respond(request, "runs/listing/page.html", context, FRAGMENTS)


@page("POST")
def columns(request: HttpRequest) -> HttpResponse:
    """Keep which columns this person sees, here and from now on."""
    chosen = known_columns(request.POST.getlist("column"))
    set_columns(viewer_of(request), "runs", chosen)
    return redirect(address_in("runs", request.POST.get("query", "")).at(columns=chosen).url())


def _open_dates(request: HttpRequest, place: RunsAddress) -> HttpResponse:
    """Lead to the list of what began between two times, which its filter says from then on."""
    try:
        text = with_dates(place.q, request.GET.get("from", ""), request.GET.get("to", ""))
    except Invalid as error:
        messages.error(request, error.summary)
        return redirect(place.url())
    return redirect(place.at(q=text, view="").url())


def sort_of(place: RunsAddress, column: str) -> ColumnSort:
    """Return how a column is sorted, and where a click on its head leads: latest first, then the other way round."""
    down = place.sort == f"-{column}"
    state = "descending" if down else "ascending" if place.sort == column else ""
    return ColumnSort(href=place.at(sort=column if down else f"-{column}", view="").url(), state=state)


def listed_runs(viewer: Viewer, rows: Sequence[RunRow], fields: Sequence[RunField] = ()) -> list[ListedRun]:
    """Return runs as rows show them, with these fields of input and output."""
    titles, values = catalog.titles(), field_values(viewer, rows, [field.name for field in fields])
    return [
        ListedRun(
            run=run,
            words=status_sentence(run),
            title=titles.get(run.workflow, run.workflow),
            marks=_marks(run),
            fields=cells_of(fields, values.get(run.id, {})),
        )
        for run in rows
    ]


def _marks(run: RunRow) -> tuple[str, ...]:
    return (*(part for part in run.altered.split(",") if part), *(("forked",) if run.forked else ()))


def _common(request: HttpRequest, viewer: Viewer, place: RunsAddress) -> dict[str, Any]:
    shown = place.columns
    if shown is None:
        kept = looks_of(request).columns.get("runs")
        shown = DEFAULT_COLUMNS if kept is None else known_columns(kept)
    # What the list is sorted by is shown.
    shown = known_columns((*shown, place.sort.lstrip("-"))) if place.is_sorted else shown
    fields = fields_named(viewer, [name for name in shown if name not in COLUMNS])
    own = tuple(name for name in shown if name in COLUMNS)
    shown = (*own, *(field.name for field in fields))
    return {
        "spot": place,
        "now": timezone.now(),
        "columns": [(name, label, name in shown) for name, label in COLUMNS.items()],
        "field_columns": field_columns(viewer, place.q, fields),
        "fields": fields,
        "field_heads": [(field, label_of(field)) for field in fields],
        "heads": [
            (name, COLUMNS[name], sort_of(place, name) if name in SORTED else None) for name in shown if name in COLUMNS
        ],
        "ascending": not place.sort.startswith("-"),
        "shown": dict.fromkeys(shown, True),
        "live_address": place.at(columns=shown).url(),
        "may_act": viewer.may_anywhere("operate"),
        "verbs": VERBS,
    }


def _list_context(
    request: HttpRequest, viewer: Viewer, place: RunsAddress, fields: Sequence[RunField]
) -> dict[str, Any]:
    """Return the list and everything about it; with a filter that is none, what is wrong with it instead."""
    cursor, far = request.GET.get("after", ""), bool(request.GET.get("far"))
    context: dict[str, Any] = search_context(place, FILTER) | {
        "tabs": tabs_of(place),
        "mine": mine_of(place),
        "dates": dates_of(place, timezone.now()),
        "paged": bool(cursor),
        "rows": [],
    }
    try:
        if place.sort in DURATIONS:
            rows, more = longest(viewer, place.q, shortest=place.sort == "took")
            return context | {
                "rows": listed_runs(viewer, rows, fields),
                "compared": MOST_COMPARED if more else 0,
            }
        found = read_runs(viewer, place.q, cursor=cursor, far=far, sort=place.sort)
    except Invalid as error:
        return context | {"flaws": flaws_of(error)}
    return context | {
        "rows": listed_runs(viewer, found.items, fields),
        **pages_context(place, found),
        "whole": not found.next and not cursor,
    }


def _news_context(request: HttpRequest, viewer: Viewer, place: RunsAddress) -> dict[str, Any]:
    ids = [one for one in request.GET.get("ids", "").split(",") if one][:MOST_IDS]
    since = moment_in(request.GET.get("since", ""))
    new = count_runs_since(viewer, place.q, since, MOST_NEW) if since else 0
    context = _common(request, viewer, place)
    return context | {
        "rows": listed_runs(viewer, run_rows(viewer, ids), context["fields"]),
        "new": new,
        "most": MOST_NEW,
    }
