"""Tabs of the list of runs: each replaces the status in the filter and leaves the rest; counts say what it would find.

Counts are bounded, and fetched after the page: a million runs take as long as a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass

from wfdash.access.viewer import Viewer
from wfdash.errors import Invalid
from wfdash.pages.site.list_address import RunsAddress
from wfdash.queries.runs.listing import count_found
from wfdash.queries.search.qualifiers import asked_for, replaced, split, toggled

TABS = (
    ("", "All"),
    ("open", "Open"),
    ("waiting", "Waiting"),
    ("failed", "Failed"),
    ("completed", "Completed"),
)
MINE = "is:mine"
MOST_COUNTED = 999


@dataclass(frozen=True, kw_only=True)
class RunsTab:
    """A tab. ``count``: how many runs it has, as text; empty until it is counted."""

    label: str
    href: str
    here: bool
    count: str = ""


def tabs_of(place: RunsAddress, viewer: Viewer | None = None) -> tuple[RunsTab, ...]:
    """Return the tabs, with counts for a viewer; statuses that have no tab are one of their own, which is open."""
    asked = asked_for(place.q, "status")
    names = [*TABS, *([] if _joined(asked) in dict(TABS) else [(_joined(asked), _joined(asked).capitalize())])]
    texts = [replaced(place.q, "status", f"status:{name}" if name else "") for name, _ in names]
    return tuple(
        RunsTab(
            label=label,
            href=place.at(q=text, view="").url(),
            here=name == _joined(asked),
            count=count_text(viewer, text) if viewer else "",
        )
        for (name, label), text in zip(names, texts, strict=True)
    )


def mine_of(place: RunsAddress) -> RunsTab:
    """Return the switch for one's own runs, which a second click removes."""
    here = MINE in (part.lower() for part, _ in split(place.q))
    return RunsTab(label="Mine", href=place.at(q=toggled(place.q, MINE), view="").url(), here=here)


def count_text(viewer: Viewer, text: str) -> str:
    """Return how many runs a filter finds, at most ``999+``; nothing for an invalid one."""
    try:
        number, more = count_found(viewer, text, MOST_COUNTED)
    except Invalid:
        return ""
    return f"{number}{'+' if more else ''}"


def _joined(values: tuple[str, ...]) -> str:
    return ",".join(values)
