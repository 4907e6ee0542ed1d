"""What commands print: tables and fields for people, JSON for scripts. Whatever comes from a workflow is untrusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Protocol

from wfdash.domain.labels import escaped

WIDEST = 80
"""Characters of a cell where no terminal says how many there is room for."""


Shown = Callable[[Any], Mapping[str, Any]]


class Advance(Protocol):
    """Says how much is done, and what is being done if that has changed."""

    def __call__(self, done: float, text: str = "") -> None: ...


class Output:
    """Prints to standard output: in colours and columns on a terminal, plain elsewhere."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    @property
    def is_terminal(self) -> bool:
        """Whether a person watches."""
        return sys.stdout.isatty()

    @property
    def is_watched(self) -> bool:
        """Whether a person sees what is printed besides the result."""
        return sys.stderr.isatty()

    def data(self, value: Any) -> None:
        """Print JSON, in which characters that could deceive or move the cursor are escaped."""
        sys.stdout.write(escaped(json.dumps(plain(value), indent=2, ensure_ascii=False)) + "\n")

    def line(self, text: str) -> None:
        """Print a line for people; nothing where JSON is wanted."""
        if not self.as_json:
            sys.stdout.write(f"{clean(text)}\n")
            sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a line that is no result, to standard error."""
        sys.stderr.write(f"{clean(text)}\n")

    def hint(self, text: str) -> None:
        """Print advice to people who watch, to standard error."""
        if self.is_terminal and not self.as_json:
            self.note(text)

    def result(self, value: Any, text: str) -> None:
        """Print what was done: JSON, or a sentence."""
        if self.as_json:
            self.data(value)
        else:
            self.line(text)

    def rows(
        self,
        items: Sequence[Any],
        columns: str,
        *,
        shown: Shown | None = None,
        none: str = "(none)",
    ) -> None:
        """Print records: all of them as JSON, or a table with the columns that a person reads.

        ``shown``: what a person reads of a record, where that is not what JSON has.
        """
        if self.as_json:
            return self.data(items)
        found = [(shown or plain)(item) for item in items]
        table = [[cell(one.get(name)) for name in columns.split()] for one in found]
        heads = [name.replace("_", " ").upper() for name in columns.split()]
        if not table:
            return self.line(none)
        return self._table(heads, table) if self.is_terminal else _plain_table(heads, table)

    def fields(self, value: Any, names: str, *, shown: Shown | None = None) -> None:
        """Print one record: all of it as JSON, or the fields that a person reads, without empty ones."""
        if self.as_json:
            return self.data(value)
        known = (shown or plain)(value)
        given = {name: found for name in names.split() if (found := known.get(name)) not in (None, "", [], {})}
        width = max((len(name) for name in given), default=0) + 2
        for name, found in given.items():
            head = f"{name.replace('_', ' ')}:".ljust(width)
            first, *more = _block(found)
            self.line("\n".join([f"{head}{first}", *(" " * width + line for line in more)]))
        return None

    def _table(self, heads: list[str], rows: list[list[str]]) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for n, head in enumerate(heads):
            last = n == len(heads) - 1
            table.add_column(
                head, no_wrap=True, overflow="ellipsis", min_width=None if last else max(len(row[n]) for row in rows)
            )
        for row in rows:
            table.add_row(*(Text(text, style=STYLES.get(text, "")) for text in row))
        Console().print(table)

    @contextmanager
    def progress(
        self, text: str, total: float | None, *, bytes_of: bool = False, counted: bool = True
    ) -> Iterator[Advance]:
        """Give a function ``advance(done, text="")`` that draws a bar on a terminal, on standard error.

        ``total``: None if no one knows. ``bytes_of``: what is done is counted in bytes. ``counted``: how many are done
        is shown besides.
        """
        if not self.is_watched:
            yield _no_advance
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        numbers = [DownloadColumn()] if bytes_of else [MofNCompleteColumn()] if counted else []
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), *numbers, TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(clean(text), total=total)
            yield lambda done, text="": bar.update(task, completed=done, description=clean(text) or None)


def _no_advance(done: float, text: str = "") -> None:
    """Draw nothing: no one watches."""


STYLES = {
    "completed": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "waiting": "yellow",
    "running": "cyan",
    "high": "bold red",
}
"""Colours of words that say how something is."""


def plain(value: Any) -> Any:
    """Return a record, or a list of them, as JSON."""
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def cell(value: Any) -> str:
    """Return a value as one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return clean(", ".join(map(str, value)))[:WIDEST]
    return clean("" if value is None else moment(value))[:WIDEST]


def moment(value: Any) -> str:
    """Return a value as text: a time of JSON as a person reads it, in the zone of this machine."""
    text = str(value)
    if isinstance(value, str) and len(text) > 18 and text[4:5] == "-" and text[10:11] == "T":
        try:
            return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        except ValueError:
            return text
    return text


def clean(text: str) -> str:
    """Return text without control characters, which could move the cursor or change colours. Line ends stay."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)


def _block(value: Any) -> list[str]:
    """Return a value as lines."""
    if isinstance(value, str):
        return clean(moment(value)).split("\n")
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return [clean(", ".join(value))]
    if isinstance(value, dict | list):
        return clean(json.dumps(value, indent=2, ensure_ascii=False)).split("\n")
    return [cell(value)]


def _plain_table(heads: list[str], rows: list[list[str]]) -> None:
    lines = [heads, *([text.replace("\n", " ") for text in row] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
