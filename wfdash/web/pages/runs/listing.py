"""The list of runs: its page, its address, bulk actions and export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.retention import text_of
from wfdash.actions.runs.bulk import (
    MOST_AT_ONCE,
    UNEXPECTED,
    continue_bulk,
    find_bulk,
    preview_bulk,
    record_export,
    start_bulk,
)
from wfdash.domain.errors import Invalid, KeyReused
from wfdash.domain.labels import escaped
from wfdash.domain.search_attributes import ColumnField
from wfdash.engines import catalog
from wfdash.notifications.rendering import render
from wfdash.queries.run_names import titles_of
from wfdash.queries.runs.filter_keys import FILTER
from wfdash.queries.runs.listing import (
    MOST_COMPARED,
    RunRow,
    all_ids,
    count_found,
    count_runs_since,
    every_page,
    longest,
    read_runs,
    run_rows,
)
from wfdash.queries.runs.values import field_values, fields_named, offered_fields
from wfdash.queries.search import (
    RANGE,
    Term,
    asked_for,
    duration_of,
    is_time,
    range_text,
    replaced,
    split,
    times_of,
    toggled,
)
from wfdash.web.pages.runs.actions import new_key
from wfdash.web.pages.site.context_processors import looks_of
from wfdash.web.pages.site.decorators import LOCAL, form_page, get_page, key_of, moment_in, post_page, viewer_of
from wfdash.web.pages.site.list_page import (
    COLUMNS,
    DURATIONS,
    FieldCell,
    RunsAddress,
    cells_of,
    flaws_of,
    grouped,
    known_columns,
    label_of,
    open_view,
    pages_context,
    read_runs_address,
    search_context,
    views_context,
)
from wfdash.web.pages.ui.fragments import csv_text, harmless, respond

MAX_EXPORTED_RUNS = 100_000
EXPORTED = (
    "id",
    "workflow",
    "title",
    "status",
    "failure",
    "waiting_for",
    "waits_on",
    "tags",
    "created_by",
    "created",
    "finished",
    "updated",
    "version",
    "altered",
    "forked",
    "step",
    "input_tokens",
    "output_tokens",
    "cost",
    "unpriced",
)


class Shown(dict[str, bool]):
    """The columns that are shown. Any other is False: to look for a name in vain costs a template dearly."""

    def __missing__(self, name: str) -> bool:
        return False


@post_page
def export(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Send every run the filter finds as it is shown to this person, newest first; it is recorded that they asked."""
    viewer, text, now = viewer_of(request), request.POST.get("q", "").strip(), timezone.now()
    kind = "csv" if request.POST.get("kind") == "csv" else "jsonl"
    pages = every_page(viewer, text, most=MAX_EXPORTED_RUNS)
    try:
        first = next(pages, ())
    except Invalid:
        return redirect(RunsAddress(q=text).url())
    record_export(viewer, "runs", text=text, kind=kind)
    media = "text/csv; charset=utf-8" if kind == "csv" else "application/x-ndjson"
    found = chain([first], pages)
    lines = as_csv(found) if kind == "csv" else as_json_lines(found)
    response = StreamingHttpResponse(lines, content_type=media)
    response["Content-Disposition"] = f'attachment; filename="wfdash-runs-{now:%Y%m%d-%H%M%S}.{kind}"'
    return response


def as_csv(pages: Iterable[tuple[RunRow, ...]]) -> Iterator[str]:
    """Give the runs as CSV with a header, page by page; what a spreadsheet would run as a formula is made text."""
    yield csv_text([list(EXPORTED)])
    for rows in pages:
        yield csv_text([[_exported_cell(value) for value in exported_run(run).values()] for run in rows])


def as_json_lines(pages: Iterable[tuple[RunRow, ...]]) -> Iterator[str]:
    """Give the runs as one JSON document a line, page by page."""
    for rows in pages:
        lines = (json.dumps(exported_run(run), ensure_ascii=False, default=text_of) for run in rows)
        yield "".join(escaped(line) + "\n" for line in lines)


def exported_run(run: RunRow) -> dict[str, Any]:
    """Return what is exported of a run."""
    found = {name: getattr(run, name) for name in EXPORTED}
    return found | {"status": run.status.value}


def _exported_cell(value: Any) -> str:
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None else text_of(value)
    return harmless(text)


DONE_MESSAGES = {
    "retry": ("Retry", "retried: only failed and interrupted steps run again", "retried"),
    "cancel": ("Cancel", "cancelled: open requests will be closed", "cancelled"),
    "pause": ("Pause", "paused until resumed", "paused"),
    "resume": ("Resume", "resumed from where they were", "resumed"),
    "delete": ("Delete", "deleted permanently: only their audit entries are kept", "deleted"),
    "tag": ("Tag", "tagged", "tagged"),
}
"""The verb, what would happen to the runs, and what has."""
MOST_SHOWN = 10
RUNS_PER_PAGE = 50
RESULT_COLUMNS = ("status", "progress", "started", "took")
BULK_FRAGMENTS = {"told": "runs/listing/progress.html", "news": "runs/listing/news.html"}


@form_page
def bulk(request: HttpRequest) -> HttpResponse:
    """Say what a ``verb`` would do to the runs named by ``run``, or with ``all`` to all that ``q`` finds."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _begin(request, viewer)
    verb, text = request.GET.get("verb", ""), request.GET.get("q", "").strip()
    try:
        ids = _chosen(request, viewer, text)
        found = preview_bulk(viewer, verb, ids)
    except Invalid as error:
        return _page(request, viewer, verb, text, {"problem": error.summary}, status=422)
    return _page(request, viewer, verb, text, {"found": found, "runs": " ".join(found.runs)})


@form_page
def bulk_result(request: HttpRequest, bulk_id: str) -> HttpResponse:
    """Show the progress, why runs are unchanged, and its runs as they are now; a POST continues with the rest."""
    viewer = viewer_of(request)
    row = find_bulk(viewer, bulk_id)
    if request.method == "POST":
        continue_bulk(row.pk)
        return redirect("wfdash:runs-bulk-result", row.pk)
    if request.GET.get("fragment") == "news":
        known = set(row.runs)
        ids = [one for one in request.GET.get("ids", "").split(",") if one in known][:RUNS_PER_PAGE]
        return respond(
            request, "runs/listing/told.html", _rows_context(request, ids) | {"new": 0, "most": 0}, BULK_FRAGMENTS
        )
    return respond(request, "runs/listing/told.html", _result_context(request, row), BULK_FRAGMENTS)


def _result_context(request: HttpRequest, row: Any) -> dict[str, Any]:
    """Return how far it is, why runs are unchanged, and its runs as they are now, in pages."""
    number = page_number(request.GET.get("page", ""), -(-len(row.runs) // RUNS_PER_PAGE))
    shown = row.runs[(number - 1) * RUNS_PER_PAGE : number * RUNS_PER_PAGE]
    why: dict[str, int] = row.refused.get("why", {})
    failed = why.get(UNEXPECTED, 0)
    return {
        "bulk": row,
        "of": len(row.runs),
        "verb": DONE_MESSAGES[row.verb],
        "stays": sorted(why.items(), key=lambda item: -item[1]),
        "skipped": sum(why.values()) - failed,
        "failed": failed,
        "some": _refused_runs(request, row),
        "back": RunsAddress(q=str(row.facts.get("filter") or "")).url(),
        "spot": RunsAddress(),
        "now": timezone.now(),
        "first": (number - 1) * RUNS_PER_PAGE + 1,
        "last": (number - 1) * RUNS_PER_PAGE + len(shown),
        "newer": f"?page={number - 1}" if number > 1 else "",
        "older": f"?page={number + 1}" if number * RUNS_PER_PAGE < len(row.runs) else "",
    } | _rows_context(request, shown)


def _rows_context(request: HttpRequest, ids: Sequence[str]) -> dict[str, Any]:
    """Return rows as the list has them, with columns that say what becomes of a run."""
    columns = [(name, COLUMNS[name], name in RESULT_COLUMNS) for name in COLUMNS]
    viewer = viewer_of(request)
    rows = listed_runs(viewer, run_rows(viewer, ids))
    return {
        "rows": rows,
        "columns": columns,
        "shown": Shown.fromkeys(RESULT_COLUMNS, True),
        "gone": len(ids) - len(rows),
    }


def _refused_runs(request: HttpRequest, row: Any) -> list[dict[str, str]]:
    refused = row.refused.get("some", [])
    called = titles_of(viewer_of(request), [run for run, _, _ in refused])
    return [{"id": run, "title": called.get(run, title), "problem": problem} for run, title, problem in refused]


def page_number(text: str, most: int) -> int:
    """Return the page an address names, the nearest there is for any other text."""
    return max(1, min(int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1, most))


def _chosen(request: HttpRequest, viewer: Viewer, text: str) -> tuple[str, ...]:
    if request.GET.get("all"):
        return all_ids(viewer, text, MOST_AT_ONCE)
    return tuple(request.GET.getlist("run"))


def _begin(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Act on exactly the runs that the page counted."""
    verb, text = request.POST.get("verb", ""), request.POST.get("q", "").strip()
    ids = request.POST.get("runs", "").split()
    add, remove = (request.POST.get(name, "").replace(",", " ").split() for name in ("add", "remove"))
    try:
        row = start_bulk(viewer, verb, ids, text=text, add=add, remove=remove, key=key_of(request))
    except (Invalid, KeyReused) as error:
        problem = error.summary if isinstance(error, Invalid) else str(error)
        more: dict[str, Any] = {"problem": problem, "typed": request.POST}
        if ids and verb in DONE_MESSAGES:
            more |= {"found": preview_bulk(viewer, verb, ids), "runs": " ".join(ids)}
        return _page(request, viewer, verb, text, more, status=422)
    continue_bulk(row.pk)
    return redirect("wfdash:runs-bulk-result", row.pk)


def _page(
    request: HttpRequest, viewer: Viewer, verb: str, text: str, more: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    found = more.get("found")
    shown = run_rows(viewer, found.runs[:MOST_SHOWN]) if found else ()
    context = {
        "name": verb,
        "verb": DONE_MESSAGES.get(verb, ("Do", "", "")),
        "text": text,
        "shown": shown,
        "left": len(found.runs) - len(shown) if found else 0,
        "back": RunsAddress(q=text).url(),
        "key": new_key(),
        "all": bool(request.GET.get("all")),
    }
    return render(request, "runs/listing/bulk.html", context | more, status=status)


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


@frozen
class ListedRun:
    """A run as a row shows it. ``name``: what it is called; ``marks``: how people changed its course.

    ``fields``: values of its input and output.
    """

    run: RunRow
    name: str
    marks: tuple[str, ...]
    fields: tuple[FieldCell, ...] = ()


@frozen
class ColumnSort:
    """The head of a column that sorts. ``state``: descending, ascending or empty."""

    href: str
    state: str


@get_page
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
        try:
            text = with_dates(place.q, request.GET.get("from", ""), request.GET.get("to", ""))
        except Invalid as error:
            messages.error(request, error.summary)
            return redirect(place.url())
        return redirect(place.at(q=text, view="").url())
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


def sort_of(place: RunsAddress, column: str) -> ColumnSort:
    """Return how a column is sorted, and where a click on its head leads: latest first, then the other way round."""
    down = place.sort == f"-{column}"
    state = "descending" if down else "ascending" if place.sort == column else ""
    return ColumnSort(href=place.at(sort=column if down else f"-{column}", view="").url(), state=state)


def listed_runs(viewer: Viewer, rows: Sequence[RunRow], fields: Sequence[ColumnField] = ()) -> list[ListedRun]:
    """Return runs as rows show them, with these fields of input and output."""
    values = field_values(viewer, rows, [field.name for field in fields])
    return [
        ListedRun(
            run=run,
            name=run.title or catalog.title_of(run.workflow),
            marks=(*filter(None, run.altered.split(",")), *(("forked",) if run.forked else ())),
            fields=cells_of(fields, values.get(run.id, {})),
        )
        for run in rows
    ]


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
        "field_columns": grouped(
            {field.name: field for field in (*offered_fields(viewer, place.q), *fields)}.values(), shown
        ),
        "fields": fields,
        "field_heads": [(field, label_of(field)) for field in fields],
        "heads": [
            (name, COLUMNS[name], sort_of(place, name) if name in SORTED else None) for name in shown if name in COLUMNS
        ],
        "ascending": not place.sort.startswith("-"),
        "shown": Shown.fromkeys(shown, True),
        "live_address": place.at(columns=shown).url(),
        "may_act": viewer.may_anywhere("operate"),
        "verbs": VERBS,
    }


def _list_context(
    request: HttpRequest, viewer: Viewer, place: RunsAddress, fields: Sequence[ColumnField]
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


TABS = (
    ("", "All"),
    ("open", "Open"),
    ("waiting", "Waiting"),
    ("failed", "Failed"),
    ("completed", "Completed"),
)
MINE = "is:mine"
MOST_COUNTED = 999


@frozen
class RunsTab:
    """A tab. ``count``: how many runs it has, as text; empty until it is counted."""

    label: str
    href: str
    here: bool
    count: str = ""


def tabs_of(place: RunsAddress, viewer: Viewer | None = None) -> tuple[RunsTab, ...]:
    """Return the tabs, with counts for a viewer; statuses that have no tab are one of their own, which is open."""
    asked = asked_for(place.q, "status")
    names = [*TABS, *([] if _joined(asked) in dict(TABS) else [(_joined(asked), _joined(asked).capitalize())])]
    texts = [replaced(place.q, "status", f"status:{name}" if name else "") for name, _ in names]
    return tuple(
        RunsTab(
            label=label,
            href=place.at(q=text, view="").url(),
            here=name == _joined(asked),
            count=count_text(viewer, text) if viewer else "",
        )
        for (name, label), text in zip(names, texts, strict=True)
    )


def mine_of(place: RunsAddress) -> RunsTab:
    """Return the switch for one's own runs, which a second click removes."""
    here = MINE in (part.lower() for part, _ in split(place.q))
    return RunsTab(label="Mine", href=place.at(q=toggled(place.q, MINE), view="").url(), here=here)


def count_text(viewer: Viewer, text: str) -> str:
    """Return how many runs a filter finds, at most ``999+``; nothing for an invalid one."""
    try:
        number, more = count_found(viewer, text, MOST_COUNTED)
    except Invalid:
        return ""
    return f"{number}{'+' if more else ''}"


def _joined(values: tuple[str, ...]) -> str:
    return ",".join(values)


KEY = "started"
MINUTE = timedelta(minutes=1)


@frozen
class DateChoice:
    """The menu of dates. ``since`` and ``until``: the times that the filter names, as a field has them, else empty."""

    label: str
    presets: tuple[tuple[str, str, bool], ...]
    any_time: str
    since: str
    until: str


def dates_of(place: RunsAddress, now: datetime) -> DateChoice:
    """Return what the menu offers for a filter, and what of it holds now."""
    parts = [part for part, said in split(place.q) if isinstance(said, Term) and said.key == KEY and not said.negated]
    presets = [(f"{KEY}:<1h", "Last hour"), (f"{KEY}:{_today(now)}", "Today")]
    presets += [(f"{KEY}:<{days}d", f"Last {days} days") for days in (7, 30)]
    here = next((label for part, label in presets if parts == [part]), "Custom" if parts else "Any time")
    since, until = _named(place.q, now) if here == "Custom" else (None, None)
    return DateChoice(
        label=here,
        presets=tuple((_changed(place, part), label, label == here) for part, label in presets),
        any_time=_changed(place, "") if parts else "",
        since=_as_field(since),
        until=_as_field(until),
    )


def with_dates(text: str, first: str, last: str) -> str:
    """Return a filter for what began from one time until before another, either of them empty for no end.

    The times are those of fields, in the person's zone. ``Invalid`` if one is none, or they are the wrong way round.
    """
    since, until = _read(first, "from"), _read(last, "to")
    if since and until and since >= until:
        raise Invalid.at("to", "The end must be after the start")
    if since and until:
        return replaced(text, KEY, f"{KEY}:{range_text(since, until)}")
    ends = _minute(since) + RANGE + _minute(until - MINUTE if until else None)
    return replaced(text, KEY, f"{KEY}:{ends}" if ends != RANGE else "")


def _changed(place: RunsAddress, part: str) -> str:
    return place.at(q=replaced(place.q, KEY, part), view="").url()


def _today(now: datetime) -> str:
    """Return today in the person's zone, as a filter says it."""
    zone, today = timezone.get_current_timezone(), timezone.localtime(now).date()
    start, end = (datetime.combine(day, time(), zone) for day in (today, today + timedelta(days=1)))
    return range_text(start, end) if start.utcoffset() else "today"


def _named(text: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the times that a filter names by one part; none where it names none, or lengths of time."""
    terms = [said for _, said in split(text) if isinstance(said, Term) and said.key == KEY and not said.negated]
    values = [(value, term.sign) for term in terms for value in term.values]
    if len(values) != 1 or duration_of(values[0][0]) is not None or not is_time(*values[0]):
        return None, None
    return times_of(*values[0], now)


def _as_field(at: datetime | None) -> str:
    return f"{timezone.localtime(at):{LOCAL}}" if at else ""


def _minute(at: datetime | None) -> str:
    """Return a minute as a filter says it: in UTC, because offsets of old times have seconds."""
    return f"{at.astimezone(UTC):{LOCAL}}" if at else ""


def _read(text: str, field: str) -> datetime | None:
    if not text:
        return None
    try:
        found = parse_datetime(text)
        if found is not None and timezone.is_naive(found):
            return timezone.make_aware(found.replace(second=0, microsecond=0)).astimezone(
                timezone.get_current_timezone()
            )
    except (ValueError, OverflowError):
        pass
    raise Invalid.at(field, "Enter a date and time")
