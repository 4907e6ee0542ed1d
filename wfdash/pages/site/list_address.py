"""Addresses of list pages: filter, order, columns, saved view. What they name is what a saved view stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict
from django.urls import reverse

from wfdash.domain.run_fields import known_names
from wfdash.queries.requests.inbox import SORTS, TABS
from wfdash.queries.runs import listing
from wfdash.queries.runs.listing import DEFAULT_SORT

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
}
"""What a row of the list of runs can show beside its name, in this order."""
DURATIONS = ("-took", "took")
RUN_SORTS = (*listing.RUN_SORTS, *DURATIONS)
NONE = "none"
Query = QueryDict | Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ListAddress:
    """A list and how it is looked at. ``page`` is the name of its address."""

    page: str
    q: str = ""
    view: str = ""
    sort: str = "age"

    @property
    def given(self) -> dict[str, str]:
        """The query parameters, empty where they have their default."""
        return {"q": self.q, "view": self.view}

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


@dataclass(frozen=True, kw_only=True)
class InboxAddress(ListAddress):
    """The inbox. ``of``: how many requests there were when focus mode began."""

    page: str = "inbox"
    tab: str = "mine"
    focus: bool = False
    of: int = 0

    @property
    def given(self) -> dict[str, str]:
        """The query parameters. The tab is always there: it says that the person comes from the inbox."""
        found = {"tab": self.tab, "q": self.q, "sort": self.sort if self.sort != "age" else "", "view": self.view}
        return found | {"focus": "1" if self.focus else "", "of": str(self.of or "") if self.focus else ""}

    @property
    def kept(self) -> Self:
        """The address without saved view and focus mode."""
        return replace(self, view="", focus=False, of=0)


@dataclass(frozen=True, kw_only=True)
class RunsAddress(ListAddress):
    """The list of runs. ``columns``: those the address names, None if it names none."""

    page: str = "runs"
    sort: str = DEFAULT_SORT
    columns: tuple[str, ...] | None = None

    @property
    def given(self) -> dict[str, str]:
        """The query parameters."""
        columns = "" if self.columns is None else ",".join(self.columns) or NONE
        return {"q": self.q, "sort": self.sort if self.is_sorted else "", "columns": columns, "view": self.view}


def read_address(page: str, query: Query) -> ListAddress:
    """Return the address that query parameters of a list page name; unknown ones get their default."""
    if page == "inbox":
        return read_inbox_address(query)
    return read_runs_address(query) if page == "runs" else ListAddress(page=page, **_common(query))


def read_inbox_address(query: Query) -> InboxAddress:
    """Return the address of the inbox that query parameters name."""
    tab, sort = query.get("tab") or "", query.get("sort") or ""
    number = query.get("of") or ""
    return InboxAddress(
        **_common(query),
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


def _common(query: Query) -> dict[str, str]:
    return {"q": (query.get("q") or "").strip().replace("\0", ""), "view": (query.get("view") or "")[:36]}
