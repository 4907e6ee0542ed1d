"""Tables of a card: rows of cells as text, bounded, the long tail behind a fold. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from wfdash.domain.invisible import visible
from wfdash.domain.labels import label_of_key
from wfdash.pages.ui.json_value import describe, is_opaque

MAX_ROWS = 200
MAX_COLUMNS = 20
MAX_CELL = 500
FIRST_ROWS = 8
SHORT = 18
_NUMBER = re.compile(r"[-+−]?[\d.,\u2009 ]*\d%?")


@dataclass(frozen=True, kw_only=True)
class TableView:
    """Rows of equal length; ``left_out`` rows are not shown, those after the first few are behind a fold."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @property
    def count(self) -> int:
        """Return how many rows there are, those that are not shown included."""
        return len(self.rows) + self.left_out

    @property
    def many(self) -> bool:
        """Return whether sorting and filtering helps."""
        return len(self.rows) > 1 and len(self.columns) > 0

    @property
    def looks(self) -> tuple[str, ...]:
        """Return a class per column: ``number`` (right-aligned), ``nowrap`` (short words), or empty."""
        return tuple(_column_class(cells) for cells in zip(*self.rows, strict=True))

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """Return the columns, each with its class."""
        return tuple(zip_longest(self.columns, self.looks[: len(self.columns)], fillvalue=""))

    @property
    def first(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the rows that are shown at once: cells with their classes."""
        return self._cells(self.rows if len(self.rows) <= FIRST_ROWS else self.rows[: FIRST_ROWS - 2])

    @property
    def others(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the rows behind a fold; a long table is never folded for two."""
        return self._cells(() if len(self.rows) <= FIRST_ROWS else self.rows[FIRST_ROWS - 2 :])

    def _cells(self, rows: Sequence[Sequence[str]]) -> tuple[tuple[tuple[str, str], ...], ...]:
        looks = self.looks
        return tuple(tuple(zip(row, looks, strict=True)) for row in rows)


def cell(value: Any) -> str:
    """Return a value as the text of a table cell."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and is_opaque(value):
        return visible(str(value["repr"])[:MAX_CELL])
    text = value if isinstance(value, str) else _cell_text(value)
    return visible(text[:MAX_CELL]) + ("…" if len(text) > MAX_CELL else "")


def read_table(value: Any, columns: Any = None) -> TableView | None:
    """Return a table from a list of objects, a list of lists, or ``{columns, rows}``; None for anything else."""
    if isinstance(value, Mapping) and "rows" in value:
        return read_table(value["rows"], value.get("columns"))
    if not isinstance(value, list):
        return None
    picked = [str(name) for name in columns] if isinstance(columns, list) else []
    if value and all(isinstance(row, Mapping) for row in value):
        names = picked or [str(name) for name in dict.fromkeys(key for row in value[:MAX_ROWS] for key in row)]
        rows = [[row.get(name) for name in names] for row in value[:MAX_ROWS]]
        names = [label_of_key(name) for name in names]
    elif all(isinstance(row, list) for row in value):
        names, rows = picked, value[:MAX_ROWS]
    else:
        names, rows = picked or ["Value"], [[item] for item in value[:MAX_ROWS]]
    return _table(names, rows, len(value))


def _table(names: list[str], rows: Sequence[Sequence[Any]], count: int) -> TableView:
    width = min(max([len(names), *(len(row) for row in rows)], default=0), MAX_COLUMNS)
    padded = [[*row, *[""] * (width - len(row))][:width] for row in rows]
    return TableView(
        columns=tuple(cell(name) for name in [*names, *[""] * (width - len(names))][:width]) if names else (),
        rows=tuple(tuple(cell(item) for item in row) for row in padded),
        left_out=max(count - len(rows), 0),
    )


def _column_class(cells: Iterable[str]) -> str:
    filled = [text for text in cells if text not in {"", "—"}]
    if filled and all(_NUMBER.fullmatch(text) for text in filled):
        return "number"
    return "nowrap" if all(len(text) <= SHORT for text in filled) else ""


def _cell_text(value: Any) -> str:
    if isinstance(value, list) and 0 < len(value) <= 8 and all(isinstance(item, (str, int, float)) for item in value):
        return ", ".join(str(item) for item in value)
    return describe(value)
