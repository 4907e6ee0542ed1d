"""What a card shows, ready to be drawn: the proposal against what is there now, and the evidence. Pure.

A card comes from a workflow's code and is not trusted to have any shape: what does not fit is drawn as a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from wfdash.pages.diff import Change, FileDiff, TextDiff, diff_text, diff_values, parse_unified
from wfdash.pages.markup import host_of, is_safe_link

MAX_ROWS = 200
MAX_COLUMNS = 20
MAX_CELL = 500
FIRST_ROWS = 8
SHORT = 18
_NUMBER = re.compile(r"[-+−]?[\d.,\u2009 ]*\d%?")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of equal length; ``left_out`` rows are not shown, those after the first few are behind a fold."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @property
    def looks(self) -> tuple[str, ...]:
        """Return a class per column: ``number`` (aligned at its end), ``nowrap`` (short words), or nothing."""
        return tuple(_look(cells) for cells in zip(*self.rows, strict=True))

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """The columns, each with its class."""
        return tuple(zip_longest(self.columns, self.looks[: len(self.columns)], fillvalue=""))

    @property
    def first(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The rows that are shown at once: cells with their classes."""
        return self._cells(self.rows if len(self.rows) <= FIRST_ROWS else self.rows[: FIRST_ROWS - 2])

    @property
    def others(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The rows behind a fold; a long table leaves none of two."""
        return self._cells(() if len(self.rows) <= FIRST_ROWS else self.rows[FIRST_ROWS - 2 :])

    def _cells(self, rows: Sequence[Sequence[str]]) -> tuple[tuple[tuple[str, str], ...], ...]:
        looks = self.looks
        return tuple(tuple(zip(row, looks, strict=True)) for row in rows)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing to look at. ``kind`` names its template; only the attribute that goes with it is set."""

    kind: str
    title: str = ""
    value: Any = None
    text: str = ""
    language: str = ""
    table: Table | None = None
    files: tuple[FileDiff, ...] = ()
    changes: tuple[Change, ...] = ()
    diff: TextDiff | None = None
    href: str = ""
    host: str = ""

    @property
    def template(self) -> str:
        """The template that draws it."""
        return f"components/parts/{self.kind}.html"


def _look(cells: Iterable[str]) -> str:
    told = [text for text in cells if text not in {"", "—"}]
    if told and all(_NUMBER.fullmatch(text) for text in told):
        return "number"
    return "nowrap" if all(len(text) <= SHORT for text in told) else ""


def proposal_part(card: Mapping[str, Any]) -> Part | None:
    """Return the proposal as a difference to ``current`` where there is one; None when there is no proposal."""
    proposal, current = card.get("proposal"), card.get("current")
    if proposal is None:
        return None
    if current is None:
        return _alone(proposal)
    if isinstance(proposal, str) and isinstance(current, str):
        return Part(kind="text_diff", diff=diff_text(current, proposal))
    return Part(kind="changes", changes=diff_values(current, proposal), value=proposal)


def _alone(proposal: Any) -> Part:
    if isinstance(proposal, str):
        files = parse_unified(proposal) if "@@" in proposal else ()
        return Part(kind="diff", files=files, text=proposal) if files else Part(kind="text", text=proposal)
    if isinstance(proposal, Mapping) and _is_flat(proposal):
        return Part(kind="facts", value=facts(proposal))
    return Part(kind="json", value=proposal)


def context_part(card: Mapping[str, Any]) -> Part | None:
    """Return the context as names and values; None when there is none."""
    context = card.get("context")
    if not context:
        return None
    flat = isinstance(context, Mapping) and _is_flat(context)
    return Part(kind="facts", value=facts(context)) if flat else Part(kind="json", value=context)


def facts(value: Any) -> tuple[tuple[str, str], ...]:
    """Return names and short texts of a flat mapping, for a definition list."""
    pairs = value.items() if isinstance(value, Mapping) else ()
    return tuple((str(key), cell(item)) for key, item in pairs)


def _is_flat(value: Mapping[str, Any]) -> bool:
    return len(value) <= 40 and all(
        not isinstance(item, (Mapping, list)) and len(str(item)) <= 200 for item in value.values()
    )


def cell(value: Any) -> str:
    """Return a value as the text of a table cell."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value if isinstance(value, str) else repr(value)
    return text[:MAX_CELL] + ("…" if len(text) > MAX_CELL else "")


def evidence_parts(card: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the evidence, each piece by its kind: text, markdown, table, json, diff, link, code."""
    pieces = card.get("evidence")
    return tuple(_evidence(piece) for piece in pieces) if isinstance(pieces, list) else ()


def _evidence(piece: Any) -> Part:
    if not isinstance(piece, Mapping):
        return Part(kind="json", title="Evidence", value=piece)
    title, value = str(piece.get("title") or ""), piece.get("value")
    draw = {"table": _table_part, "link": _link, "diff": _diff, "code": _code}.get(str(piece.get("kind")))
    if draw is not None:
        return draw(title, value, piece)
    if piece.get("kind") in {"text", "markdown"} and isinstance(value, str):
        return Part(kind=str(piece["kind"]), title=title, text=value)
    return Part(kind="json", title=title, value=value)


def _table_part(title: str, value: Any, piece: Mapping[str, Any]) -> Part:
    table = read_table(value, piece.get("columns"))
    return Part(kind="table", title=title, table=table) if table else Part(kind="json", title=title, value=value)


def read_table(value: Any, columns: Any = None) -> Table | None:
    """Return a table from a list of objects, a list of lists, or ``{columns, rows}``; None for anything else."""
    if isinstance(value, Mapping) and "rows" in value:
        return read_table(value["rows"], value.get("columns"))
    if not isinstance(value, list):
        return None
    if value and all(isinstance(row, Mapping) for row in value):
        names = [str(name) for name in columns or dict.fromkeys(key for row in value[:MAX_ROWS] for key in row)]
        rows = [[row.get(name) for name in names] for row in value[:MAX_ROWS]]
    elif all(isinstance(row, list) for row in value):
        rows = value[:MAX_ROWS]
        names = [str(name) for name in columns or ()]
    else:
        names, rows = [str(name) for name in columns or ("Value",)], [[item] for item in value[:MAX_ROWS]]
    return _table(names, rows, len(value))


def _table(names: list[str], rows: Sequence[Sequence[Any]], count: int) -> Table:
    width = min(max([len(names), *(len(row) for row in rows)], default=0), MAX_COLUMNS)
    padded = [[*row, *[""] * (width - len(row))][:width] for row in rows]
    return Table(
        columns=tuple([*names, *[""] * (width - len(names))][:width]) if names else (),
        rows=tuple(tuple(cell(item) for item in row) for row in padded),
        left_out=max(count - len(rows), 0),
    )


def _link(title: str, value: Any, piece: Mapping[str, Any]) -> Part:
    address = value.get("href") or value.get("url") if isinstance(value, Mapping) else value
    if not isinstance(address, str) or not is_safe_link(address):
        return Part(kind="text", title=title, text=str(address))
    return Part(kind="link", title=title, href=address, host=host_of(address), text=title or address)


def _diff(title: str, value: Any, piece: Mapping[str, Any]) -> Part:
    if isinstance(value, Mapping) and {"before", "after"} <= set(value):
        before, after = value["before"], value["after"]
        if isinstance(before, str) and isinstance(after, str):
            return Part(kind="text_diff", title=title, diff=diff_text(before, after))
        return Part(kind="changes", title=title, changes=diff_values(before, after))
    text = value if isinstance(value, str) else str(value)
    return Part(kind="diff", title=title, files=parse_unified(text), text=text)


def _code(title: str, value: Any, piece: Mapping[str, Any]) -> Part:
    text = value.get("text") if isinstance(value, Mapping) else value
    language = piece.get("language") or (value.get("language") if isinstance(value, Mapping) else "")
    return Part(kind="code", title=title, text=str(text or ""), language=str(language or ""))
