"""Where in the list of runs a person is, as an address says it: filter, columns, saved view."""

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
    "took": "Took",
    "by": "Started by",
    "finished": "Finished",
    "version": "Version",
}
"""What a row can show beside its name, in this order."""
USUAL = ("status", "progress", "tags", "started", "took")
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class RunsPlace:
    """A list of runs and how it is looked at. ``columns``: those the address names, none if it names none."""

    q: str = ""
    view: str = ""
    columns: tuple[str, ...] | None = None
    sort: str = "age"
    """Always newest first."""

    @property
    def query(self) -> str:
        """The query string, without what is as usual."""
        return urlencode(self.parts)

    @property
    def parts(self) -> dict[str, str]:
        """The parameters of an address."""
        columns = "" if self.columns is None else ",".join(self.columns) or NONE
        found = {"q": self.q, "columns": columns, "view": self.view}
        return {name: value for name, value in found.items() if value}

    @property
    def saved(self) -> str:
        """What a saved view keeps of it."""
        return replace(self, view="").query

    def url(self, **changes: str) -> str:
        """Return the address, with parameters added."""
        parts = urlencode({**self.parts, **{name: value for name, value in changes.items() if value}})
        return reverse("runs") + (f"?{parts}" if parts else "")

    def at(self, **changes: object) -> RunsPlace:
        """Return the place with something else about it."""
        return replace(self, **changes)  # type: ignore[arg-type]


def read_runs_place(query: QueryDict | Mapping[str, str]) -> RunsPlace:
    """Return the place of an address; what it does not know is as usual."""
    given = query.get("columns") or ""
    return RunsPlace(
        q=(query.get("q") or "").strip().replace("\0", ""),
        view=(query.get("view") or "")[:36],
        columns=known_columns(given.split(",")) if given else None,
    )


def runs_place_in(query: str) -> RunsPlace:
    """Return the place a saved view's query string names."""
    return read_runs_place(dict(parse_qsl(query)))


def known_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return those that are columns, in the order of the list."""
    given = set(names)
    return tuple(name for name in COLUMNS if name in given)
