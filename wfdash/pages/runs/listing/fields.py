"""Cells of the list of runs that show a field of input or output, by its type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from wfdash.access.viewer import Viewer
from wfdash.domain.invisible import visible
from wfdash.domain.run_fields import INPUT, OUTPUT, RunField
from wfdash.domain.search_attributes import moment_in
from wfdash.pages.ui.times import number
from wfdash.queries.runs.values import FieldValue, offered_fields

LONGEST = 80
DIGITS = re.compile(r"[-+]?[0-9]{1,40}(\.[0-9]{1,40})?")
"""A decimal, which JSON has as text."""
FieldColumns = tuple[str, list[tuple[RunField, bool]]]
"""A heading of the columns menu, and the fields below it with whether they are shown."""
HEADINGS = (("Input", INPUT), ("Output", OUTPUT))
YEARS = range(2, 9999)
"""Years whose times exist in every zone."""


@dataclass(frozen=True, kw_only=True)
class FieldCell:
    """A cell. ``kind``: moment, choice, text, problem; empty where there is no value."""

    name: str
    label: str
    numeric: bool = False
    kind: str = ""
    text: str = ""
    at: datetime | None = None


def label_of(field: RunField) -> str:
    """Return a field's label as the head of its column."""
    label = visible(field.label)
    return f"{label} (output)" if field.part == OUTPUT else label


def field_columns(viewer: Viewer, text: str, chosen: Sequence[RunField]) -> list[FieldColumns]:
    """Return what the columns menu offers: the fields of the one workflow that the filter names, and those chosen."""
    names = {field.name for field in chosen}
    offered = {field.name: field for field in (*offered_fields(viewer, text), *chosen)}.values()
    groups = [(title, [field for field in offered if field.part == part]) for title, part in HEADINGS]
    return [(title, [(field, field.name in names) for field in found]) for title, found in groups if found]


def cells_of(fields: Sequence[RunField], values: Mapping[str, FieldValue]) -> tuple[FieldCell, ...]:
    """Return a row's cells, one for each column."""
    return tuple(_cell(field, values.get(field.name)) for field in fields)


def _cell(column: RunField, found: FieldValue | None) -> FieldCell:
    """Return one cell. The type is that of the row's own workflow, label and alignment are the column's."""
    cell = FieldCell(name=column.name, label=label_of(column), numeric=column.kind == "number")
    if found is None or found.problem:
        return replace(cell, kind="problem", text=found.problem) if found else cell
    kind, value = found.field.kind, found.value
    at = moment_in(value) if kind == "moment" else None
    if value is None or value == "":
        return cell
    if at is not None and at.year in YEARS:
        return replace(cell, kind="moment", at=at)
    written = _written(value) if kind == "number" else None
    return replace(cell, kind="choice" if kind == "choice" else "text", text=shortened(written or _text(value)))


def _written(value: Any) -> str | None:
    """Return a number as text, None for what is none."""
    if isinstance(value, bool) or (isinstance(value, str) and not DIGITS.fullmatch(value)):
        return None
    try:
        return number(Decimal(value) if isinstance(value, str) else value)
    except ValueError:  # More digits than Python writes.
        return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    try:
        return str(value)
    except ValueError:  # More digits than Python writes.
        return "a very large number"


def shortened(text: str) -> str:
    """Return text as one line of at most ``LONGEST`` characters in which none is invisible."""
    line = visible(" ".join(text[: LONGEST * 4].split()))
    return line if len(line) <= LONGEST and len(text) <= LONGEST * 4 else line[: LONGEST - 1] + "…"
