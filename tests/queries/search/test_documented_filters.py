"""The page of filters: one list of keys per list, which follows from its qualifiers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.queries.search.test_qualifiers import FILTERS
from wfdash.queries.search import ListFilter

PAGE = Path(__file__).parents[3] / "docs" / "filters.md"
TITLES = {
    "requests": "Inbox",
    "decisions": "Decisions",
    "runs": "Runs",
    "audit": "Audit log",
    "schedules": "Schedules",
    "workflows": "Catalogue",
}


def documented() -> str:
    """Return the keys of all lists."""
    return "\n".join(table(TITLES[name], known) for name, known in FILTERS.items())


def table(title: str, known: ListFilter[Any, Any]) -> str:
    """Return the section of one list."""
    rows = [(one.example, one.meaning, one.values + one.only) for one in known.qualifiers]
    rows.append(('"blue chair"', known.words, ()))
    lines = [f"- `{example}`: {plain(meaning)}{code(values)}" for example, meaning, values in rows]
    return "\n".join([f"## {title}\n", *lines, ""])


def plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def code(values: tuple[str, ...]) -> str:
    """Return the values that are suggested, in brackets."""
    return f" ({', '.join(f'`{value}`' for value in values)})" if values else ""


def test_the_page_of_filters_shows_every_key_of_every_list() -> None:
    prose, first, tables = PAGE.read_text().partition(f"## {TITLES['requests']}\n")
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(prose + documented())
        return
    assert first + tables == documented(), "WRITE_DOCS=1 and this test again write the page"
