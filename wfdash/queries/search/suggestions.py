"""Where the values come from that a search box suggests: rows of the list, and the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.queries.search.qualifiers import Suggestion


@dataclass(frozen=True, kw_only=True)
class ListedValues:
    """What occurs in rows of a list: of each row the values of ``columns``, a name or a list of names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def of(self, column: str) -> list[str]:
        """Return the values of a column, sorted."""
        found = (row[self.columns.index(column)] for row in self.rows)
        return sorted({name for value in found for name in (value if isinstance(value, list) else [value]) if name})


def listed(column: str) -> Callable[[ListedValues], Iterable[str]]:
    """Return what suggests the values that occur in a column."""
    return lambda values: values.of(column)


def listed_workflows(values: ListedValues) -> list[Suggestion]:
    """Return the workflows that occur, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles.get(name, "")) for name in values.of("workflow")]


def visible_workflows(viewer: Viewer) -> list[Suggestion]:
    """Return the loaded workflows this person may see, with their titles."""
    titles = catalog.titles()
    return [Suggestion(name, titles[name]) for name in sorted(titles) if viewer.may("see", name)]
