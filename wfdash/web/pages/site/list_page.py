"""What list pages share: the search box with its help and errors, its suggestions, saved views."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Self
from urllib.parse import parse_qsl, quote_plus, urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.actions.account import set_columns
from wfdash.domain.errors import Invalid
from wfdash.domain.labels import visible
from wfdash.domain.search_attributes import CARD_NAME, OUTPUT, ColumnField, FieldValue, known_names
from wfdash.domain.search_attributes import moment_in as moment_of_text
from wfdash.queries.account import ViewRow, read_view, read_views
from wfdash.queries.audit import audit_suggestions
from wfdash.queries.requests.decisions import decision_suggestions
from wfdash.queries.requests.inbox import SORTS, TABS, count_in_views, request_suggestions
from wfdash.queries.runs import listing
from wfdash.queries.runs.filter_keys import FILTER as RUNS
from wfdash.queries.runs.listing import DEFAULT_SORT, count_found
from wfdash.queries.schedules import FILTER as SCHEDULES
from wfdash.queries.search import ListFilter
from wfdash.queries.workflows import workflow_suggestions
from wfdash.records.base import Page, ScannedPage
from wfdash.web.pages.site.decorators import get_page, post_page, viewer_of
from wfdash.web.pages.ui.times import number


@post_page
def columns(request: HttpRequest, page: str) -> HttpResponse:
    """Keep which columns of a list this person sees, here and from now on."""
    chosen = {"columns": ",".join(request.POST.getlist("column")) or NONE}
    place = read_address(page, dict(parse_qsl(request.POST.get("query", ""))) | chosen)
    set_columns(viewer_of(request), page, place.columns or ())
    return redirect(place.url())


# Addresses of lists by what they shall find: every number of a chart leads to what it counts.

NEEDS_QUOTES = frozenset(' ,"<>')


def term(key: str, value: str) -> str:
    """Return a term of a filter; a value with blanks, commas or signs is quoted."""
    plain, quote, _ = value.partition('"')
    # A filter has no way to write a quote: what begins so is found.
    value = f"{plain}*" if quote else value
    return f'{key}:"{value}"' if NEEDS_QUOTES & set(value) else f"{key}:{value}"


def error_term(error: str) -> str:
    """Return the term for a class of errors; of runs whose class is unknown where it is empty."""
    return term("error", error) if error else "-error:*"


class ListLinks:
    """Addresses of one list by what it shall find. Its path is looked up once: charts have hundreds of links."""

    def __init__(self, page: str) -> None:
        """Look up the path of ``runs`` or ``decisions``."""
        self._path = reverse(f"wfdash:{page}")

    def __call__(self, *terms: str, workflow: str = "") -> str:
        """Return the address of what these terms find, of one workflow or of all."""
        found = " ".join([*filter(None, terms), *([term("workflow", workflow)] if workflow else [])])
        return f"{self._path}?{urlencode({'q': found})}" if found else self._path

    def by_time(self, *terms: str, key: str, workflow: str = "") -> Callable[[str], str]:
        """Return what returns the address of what these terms find in a range of times, which the key filters by.

        The same as with ``f"{key}:{range}"`` as the last term, without putting it together again for each range.
        """
        before = quote_plus(" ".join([*filter(None, terms), f"{key}:"]))
        after = quote_plus(f" {term('workflow', workflow)}") if workflow else ""
        return lambda when: f"{self._path}?q={before}{quote_plus(when)}{after}"


@lru_cache(maxsize=256)
def runs_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the runs that these terms find, of one workflow or of all."""
    return ListLinks("runs")(*terms, workflow=workflow)


def decisions_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the decisions that these terms find, of one workflow or of all."""
    return ListLinks("decisions")(*terms, workflow=workflow)


SUGGESTIONS = {
    "inbox": request_suggestions,
    "runs": RUNS.suggestions,
    "audit": audit_suggestions,
    "decisions": decision_suggestions,
    "schedules": SCHEDULES.suggestions,
    "workflows": workflow_suggestions,
}

COUNTED_VIEWS = 20
"""Of how many saved views the rows are counted."""
MOST_COUNTED = 99


@get_page
def suggestions(request: HttpRequest, name: str) -> HttpResponse:
    """Return what the search box of a list suggests, as JSON."""
    return JsonResponse(SUGGESTIONS[name](viewer_of(request)))


def search_context(place: ListAddress, known: ListFilter[Any, Any]) -> dict[str, Any]:
    """Return what the search box of a list shows."""
    return {"spot": place, "help": known.help(), "words": f"{place.page}-suggestions"}


def flaws_of(error: Invalid) -> list[dict[str, str]]:
    """Return the parts of a filter that cannot be understood, each with its message."""
    return [{"part": flaw["loc"][-1], "message": flaw["msg"]} for flaw in error.errors]


def pages_context(place: ListAddress, found: Page[Any]) -> dict[str, Any]:
    """Return the links to what follows: to the next page, or on where only a part of the list was looked through."""
    reached = found.reached if isinstance(found, ScannedPage) else None
    return {
        "older": place.url(after=found.next) if found.next and reached is None else "",
        "further": place.url(after=found.next, far="1") if reached else "",
        "reached": reached,
    }


def views_context(viewer: Viewer, place: ListAddress) -> dict[str, Any]:
    """Return the saved views of a list, the one that is open, and whether the list has been changed since."""
    views = read_views(viewer, place.page)
    current = next((view for view in views if view.id == place.view), None)
    changed = current is not None and address_in(place.page, current.query).saved != place.saved
    return {"views": views, "current_view": current, "view_changed": changed, "saved": place.saved}


def counted_views(viewer: Viewer, name: str, views: Sequence[ViewRow]) -> tuple[ViewRow, ...]:
    """Return saved views of a list with how many rows they have: the first of them, and up to a limit each."""
    counted, rest = views[:COUNTED_VIEWS], views[COUNTED_VIEWS:]
    if name == "runs":
        numbers = [_found_runs(viewer, address_in(name, view.query).q) for view in counted]
    else:
        places = [read_inbox_address(dict(parse_qsl(view.query))) for view in counted]
        numbers = count_in_views(viewer, [(place.tab, place.q) for place in places], MOST_COUNTED + 1)
    return (*map(_with_count, counted, numbers), *rest)


def _found_runs(viewer: Viewer, text: str) -> int | None:
    try:
        number, more = count_found(viewer, text, MOST_COUNTED)
    except Invalid:
        return None
    return number + more


def _with_count(view: ViewRow, number: int | None) -> ViewRow:
    if number is None:
        return view.model_copy(update={"broken": True})
    return view.model_copy(update={"count": f"{MOST_COUNTED}+" if number > MOST_COUNTED else str(number)})


def open_view(viewer: Viewer, view_id: str) -> HttpResponse:
    """Return to the list a saved view names."""
    view = read_view(viewer, view_id)
    return redirect(address_in(view.page, view.query).at(view=view.id).url())


# Addresses of list pages: filter, order, columns, saved view. What they name is what a saved view stores.

MOST_OF = 1_000_000
COLUMNS = {
    "status": "Status",
    "progress": "Progress",
    "tags": "Tags",
    "started": "Started",
    "took": "Duration",
    "by": "Started by",
    "finished": "Finished",
    "version": "Version",
    "cost": "Cost",
    "tokens": "Tokens",
}
"""What a row of the list of runs can show beside its name, in this order."""
DURATIONS = ("-took", "took")
RUN_SORTS = (*listing.RUN_SORTS, *DURATIONS)
NONE = "none"
Query = QueryDict | Mapping[str, str]


@frozen
class ListAddress:
    """A list and how it is looked at. ``page`` is the name of its address."""

    page: str
    q: str = ""
    view: str = ""
    sort: str = "age"
    columns: tuple[str, ...] | None = None
    """Those the address names, None if it names none."""

    @property
    def given(self) -> dict[str, str]:
        """The query parameters, empty where they have their default."""
        columns = "" if self.columns is None else ",".join(self.columns) or NONE
        sort = self.sort if self.is_sorted else ""
        return {"q": self.q, "sort": sort, "columns": columns, "view": self.view}

    @property
    def parts(self) -> dict[str, str]:
        """The query parameters, without defaults."""
        return {name: value for name, value in self.given.items() if value}

    @property
    def is_sorted(self) -> bool:
        """Return whether another order than the usual one was chosen."""
        return self.sort != type(self).sort

    @property
    def query(self) -> str:
        """The query string, without defaults."""
        return urlencode(self.parts)

    @property
    def kept(self) -> Self:
        """The address without what a saved view does not store."""
        return replace(self, view="")

    @property
    def saved(self) -> str:
        """The query string that a saved view stores."""
        return self.kept.query

    @property
    def carried(self) -> dict[str, str]:
        """The query parameters that another filter leaves as they are."""
        return {name: value for name, value in self.kept.parts.items() if name != "q"}

    def url(self, **changes: str) -> str:
        """Return the address, with parameters added."""
        path, query = self._base
        parts = urlencode({name: value for name, value in changes.items() if value})
        return path + (f"?{query}{'&' if query and parts else ''}{parts}" if query or parts else "")

    @cached_property
    def _base(self) -> tuple[str, str]:
        """The path and the query: a list asks for the address of each of its rows."""
        return reverse(f"wfdash:{self.page}"), self.query

    def at(self, **changes: Any) -> Self:
        """Return the address with parts of it changed."""
        return replace(self, **changes)


@frozen
class CatalogueAddress(ListAddress):
    """The catalogue: a list, or the workflows' graphs."""

    page: str = "workflows"
    graphs: bool = False

    @property
    def given(self) -> dict[str, str]:
        """The query parameters."""
        return super().given | {"graphs": "1" * self.graphs}


@frozen
class InboxAddress(ListAddress):
    """The inbox. ``of``: how many requests there were when focus mode began."""

    page: str = "inbox"
    tab: str = "mine"
    focus: bool = False
    of: int = 0

    @property
    def given(self) -> dict[str, str]:
        """The query parameters. The tab is always there: it says that the person comes from the inbox."""
        found = {"tab": self.tab, **super().given}
        return found | {"focus": "1", "of": str(self.of or "")} if self.focus else found

    @property
    def kept(self) -> Self:
        """The address without saved view and focus mode."""
        return replace(self, view="", focus=False, of=0)


@frozen
class RunsAddress(ListAddress):
    """The list of runs."""

    page: str = "runs"
    sort: str = DEFAULT_SORT


def read_address(page: str, query: Query) -> ListAddress:
    """Return the address that query parameters of a list page name; unknown ones get their default."""
    if page == "inbox":
        return read_inbox_address(query)
    return read_runs_address(query) if page == "runs" else ListAddress(page=page, **_common(query))


def read_inbox_address(query: Query) -> InboxAddress:
    """Return the address of the inbox that query parameters name."""
    tab, sort = query.get("tab") or "", query.get("sort") or ""
    number, given = query.get("of") or "", query.get("columns") or ""
    return InboxAddress(
        **_common(query),
        columns=known_names(given.split(","), CARD_NAME) if given else None,
        tab=tab if tab in TABS else "mine",
        sort=sort if sort in SORTS else "age",
        focus=bool(query.get("focus")),
        of=min(int(number), MOST_OF) if re.fullmatch(r"[0-9]{1,7}", number) else 0,
    )


def read_runs_address(query: Query) -> RunsAddress:
    """Return the address of the list of runs that query parameters name."""
    given = query.get("columns") or ""
    sort = query.get("sort") or ""
    return RunsAddress(
        **_common(query),
        sort=sort if sort in RUN_SORTS else DEFAULT_SORT,
        columns=known_columns(given.split(",")) if given else None,
    )


def address_in(page: str, query: str) -> ListAddress:
    """Return the address that the query string of a saved view names."""
    return read_address(page, dict(parse_qsl(query)))


def known_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return those that are columns of the list of runs, in its order; fields of input and output follow as given."""
    given = list(names)
    return (*(name for name in COLUMNS if name in given), *known_names(given))


def _common(query: Query) -> dict[str, Any]:
    return {"q": (query.get("q") or "").strip().replace("\0", ""), "view": (query.get("view") or "")[:36]}


# Columns that show fields: what the menu offers, and cells.

MAX_LINE = 80
DIGITS = re.compile(r"[-+]?[0-9]{1,40}(\.[0-9]{1,40})?")
"""A decimal, which JSON has as text."""
FieldColumns = tuple[str, list[tuple[ColumnField, bool]]]
"""A heading of the columns menu, and the fields below it with whether they are shown."""
YEARS = range(2, 9999)
"""Years whose times exist in every zone."""


@frozen
class FieldCell:
    """A cell. ``kind``: moment, choice, text, problem; empty where there is no value."""

    name: str
    label: str
    numeric: bool = False
    kind: str = ""
    text: str = ""
    at: datetime | None = None


def label_of(field: ColumnField) -> str:
    """Return a field's label as the head of its column."""
    label = visible(field.label)
    return f"{label} (output)" if field.part == OUTPUT else label


def grouped(fields: Iterable[ColumnField], chosen: Collection[str]) -> list[FieldColumns]:
    """Return what the columns menu offers: fields by the part they are of, each with whether it is chosen."""
    groups: dict[str, list[tuple[ColumnField, bool]]] = {}
    for field in fields:
        groups.setdefault(field.part.capitalize(), []).append((field, field.name in chosen))
    return list(groups.items())


def cells_of(fields: Sequence[ColumnField], values: Mapping[str, FieldValue]) -> tuple[FieldCell, ...]:
    """Return a row's cells, one for each column."""
    return tuple(_cell(field, values.get(field.name)) for field in fields)


def _cell(column: ColumnField, found: FieldValue | None) -> FieldCell:
    """Return one cell. The type is that of the row's own workflow, label and alignment are the column's."""
    cell = FieldCell(name=column.name, label=label_of(column), numeric=column.kind == "number")
    if found is None or found.problem:
        return replace(cell, kind="problem", text=found.problem) if found else cell
    kind, value = found.field.kind, found.value
    at = moment_of_text(value) if kind == "moment" else None
    if value is None or value == "":
        return cell
    if at is not None and at.year in YEARS:
        return replace(cell, kind="moment", at=at)
    return replace(cell, kind="choice" if kind == "choice" else "text", text=shortened(_text(value, kind)))


def _text(value: Any, kind: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    try:
        if kind == "number" and (not isinstance(value, str) or DIGITS.fullmatch(value)):
            return number(Decimal(value) if isinstance(value, str) else value)
        return str(value)
    except ValueError:  # More digits than Python writes.
        return "a very large number"


def shortened(text: str) -> str:
    """Return text as one line of at most ``MAX_LINE`` characters in which none is invisible."""
    line = visible(" ".join(text[: MAX_LINE * 4].split()))
    return line if len(line) <= MAX_LINE and len(text) <= MAX_LINE * 4 else line[: MAX_LINE - 1] + "…"
