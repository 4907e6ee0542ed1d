"""Rows of the inbox as they are shown: words, marks, links. Drawn by the fifty, so that they are made of few parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.urls import reverse

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.pages.site.list_address import InboxAddress
from wfdash.pages.ui.event_text import past, step_label
from wfdash.queries.requests.inbox import RequestRow

SOON = timedelta(hours=4)
MOST_NAMES = 2


@dataclass(frozen=True, kw_only=True)
class RowsContext:
    """Rows, for whom they are drawn, and where."""

    viewer: Viewer
    place: InboxAddress
    rows: Iterable[RequestRow]
    alike: Mapping[tuple[str, str, str], int]
    now: datetime


@dataclass(kw_only=True)
class InboxRow:
    """A row. ``gone``: what became of it, if it is not open any more; ``head``: begins a group of alike ones."""

    row: RequestRow
    title: str
    step: str
    href: str
    whom: str
    due: str
    """``late``, ``soon``, ``later``, or empty."""
    gone: str = ""
    alike: int = 0
    batch: str = ""
    head: bool = False
    here: bool = False
    answered: bool = False
    """It stands among one's answers."""
    selectable: bool = False
    """It can be selected, to be acted upon with others."""
    states: list[str] = field(default_factory=list)

    @property
    def classes(self) -> str:
        """Return the row's state as classes."""
        return " ".join(["inbox-row", *self.states, *(["is-here"] if self.here else [])])


def inbox_rows(listed: RowsContext) -> list[InboxRow]:
    """Return the rows as they are shown."""
    return list(_rows(listed, catalog.titles()))


def _rows(listed: RowsContext, titles: Mapping[str, str]) -> Iterator[InboxRow]:
    last, grouped = None, set()
    for row in listed.rows:
        number = listed.alike.get(row.gate, 0)
        first = row.gate not in grouped
        grouped.add(row.gate)
        batch = reverse("wfdash:alike", args=[row.id]) + f"?{listed.place.query}" if number and first else ""
        due = _due(row, listed.now)
        yield InboxRow(
            row=row,
            title=titles.get(row.workflow, row.workflow),
            step=step_label(row.step, row.workflow),
            href=listed.place.url(request=row.id),
            whom=_whom(row, listed.viewer),
            due=due,
            gone=_outcome(row, listed),
            alike=number,
            batch=batch,
            answered=listed.place.tab == "answered",
            selectable=listed.place.tab != "answered",
            head=listed.place.sort == "alike" and row.gate != last,
            states=_states(row, listed, due),
        )
        last = row.gate


def _due(row: RequestRow, now: datetime) -> str:
    if row.due is None or not row.open:
        return ""
    return "late" if row.due <= now else "soon" if row.due <= now + SOON else "later"


def _whom(row: RequestRow, viewer: Viewer) -> str:
    """Say whose it is: the one who has it, else those it is for."""
    if row.assignee:
        return "you" if row.assignee == viewer.name else row.assignee
    names = ["you" if name == viewer.name else "the requester" if name == "requester" else name for name in row.by]
    more = f" +{len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _outcome(row: RequestRow, listed: RowsContext) -> str:
    """Say what became of a request that is not open any more."""
    if row.open or listed.place.tab == "answered":
        return ""
    if row.answered is not None:
        who = "You" if row.answered_by == listed.viewer.name else row.answered_by or "A deadline"
        return f"{who} {past(row.verdict)} it"
    if row.settles is not None:
        return "Just decided"
    return {"withdrawn": "No longer needed", "cancelled": "The run was cancelled"}.get(row.closed_as, "Asked again")


def _states(row: RequestRow, listed: RowsContext, due: str) -> list[str]:
    answered = listed.place.tab == "answered"
    found = {
        "is-unread": row.unread and row.open and not answered,
        "is-gone": not row.open and not answered,
        "is-overdue": due == "late",
    }
    return [name for name, holds in found.items() if holds]
