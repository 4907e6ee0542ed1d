"""The address of the list of runs: filter, columns, saved view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict
from django.urls import reverse

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
"""What a row can show beside its name, in this order."""
DEFAULT_COLUMNS = ("status", "progress", "tags", "started", "took")
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class RunsAddress:
    """A list of runs and how it is looked at. ``columns``: those the address names, none if it names none."""

    q: str = ""
    view: str = ""
    columns: tuple[str, ...] | None = None
    sort: str = "age"
    """Always newest first."""

    @property
    def query(self) -> str:
        """The query string, without defaults."""
        return urlencode(self.parts)

    @property
    def parts(self) -> dict[str, str]:
        """The parameters of an address."""
        columns = "" if self.columns is None else ",".join(self.columns) or NONE
        found = {"q": self.q, "columns": columns, "view": self.view}
        return {name: value for name, value in found.items() if value}

    @property
    def saved(self) -> str:
        """The query string that a saved view stores."""
        return replace(self, view="").query

    def url(self, **changes: str) -> str:
        """Return the address, with parameters added."""
        parts = urlencode({**self.parts, **{name: value for name, value in changes.items() if value}})
        return reverse("runs") + (f"?{parts}" if parts else "")

    def at(self, **changes: object) -> RunsAddress:
        """Return the address with parts of it changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def read_runs_address(query: QueryDict | Mapping[str, str]) -> RunsAddress:
    """Return the address that query parameters name; unknown ones get their default."""
    given = query.get("columns") or ""
    return RunsAddress(
        q=(query.get("q") or "").strip().replace("\0", ""),
        view=(query.get("view") or "")[:36],
        columns=known_columns(given.split(",")) if given else None,
    )


def runs_address_in(query: str) -> RunsAddress:
    """Return the address that a saved view's query string names."""
    return read_runs_address(dict(parse_qsl(query)))


def known_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return those that are columns, in the order of the list."""
    given = set(names)
    return tuple(name for name in COLUMNS if name in given)
