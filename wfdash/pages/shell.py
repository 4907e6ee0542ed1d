"""What surrounds every page: navigation, the count of open requests, the person, the theme.

Nothing here costs a query unless the template asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from wfdash import queries
from wfdash.queries.notices import count_unread

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "wfdash_theme"
UNDO_COOKIE = "wfdash_undo"
PLACES = (
    ("inbox", "Inbox", "inbox", ("inbox", "request")),
    (
        "runs",
        "Runs",
        "queue-list",
        (
            *("runs", "run", "run-events", "run-state", "run-history", "runs-bulk", "runs-told"),
            *("run-act", "run-cancel", "run-signal", "run-migrate", "run-override"),
            *("checkpoint", "restore", "fork", "edit", "compare", "replay"),
        ),
    ),
    (
        "workflows",
        "Workflows",
        "rectangle-group",
        ("workflows", "workflow", "schedules", "schedule", "schedule-new", "schedule-edit"),
    ),
    ("numbers", "Numbers", "chart-bar", ("numbers",)),
    ("audit", "Audit", "shield-check", ("audit", "audit-entry", "audit-shown", "run-record")),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A link of the main navigation. ``counts``: it shows the number of open requests."""

    href: str
    label: str
    icon: str
    here: bool
    counts: bool

    @property
    def key(self) -> str:
        """The two keys that lead there: g and its first letter."""
        return f"g {self.label[:1].lower()}"


class Shell:
    """Read by ``base.html``; each attribute is computed when it is first read."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._viewer: Any = getattr(request, "viewer", None)

    @cached_property
    def theme(self) -> str:
        """``auto``, ``light`` or ``dark``: the person's choice, from a cookie so that the first paint is right."""
        chosen = self._request.COOKIES.get(THEME_COOKIE, "auto")
        return chosen if chosen in THEMES else "auto"

    @cached_property
    def nav(self) -> tuple[Place, ...]:
        """The places this installation has; the one the request belongs to is marked."""
        match = self._request.resolver_match
        return tuple(place for spec in PLACES if (place := _place(*spec, here=match.url_name if match else None)))

    @cached_property
    def open_count(self) -> int:
        """How many open requests wait for this person; 0 for strangers. A page may have counted them already."""
        counted: int | None = getattr(self._request, "open_count", None)
        if counted is not None:
            return counted
        return queries.count_open(self._viewer) if self._viewer is not None and self.name else 0

    @cached_property
    def unread_count(self) -> int:
        """How many notices this person has not read."""
        return count_unread(self._viewer) if self._viewer is not None and self.name else 0

    @cached_property
    def undoable(self) -> tuple[queries.Undoable, ...]:
        """Own answers that may still be taken back; looked for only where a cookie says that there may be some."""
        return queries.undoable(self._viewer) if UNDO_COOKIE in self._request.COOKIES and self.name else ()

    @property
    def name(self) -> str:
        """The person's user name, empty when nobody is signed in."""
        return str(getattr(self._viewer, "name", ""))

    @property
    def initial(self) -> str:
        """The letter on the person's badge."""
        return self.name[:1].upper() or "?"

    @property
    def email(self) -> str:
        """The person's mail address, empty without one."""
        return str(getattr(getattr(self._viewer, "user", None), "email", ""))

    @property
    def is_staff(self) -> bool:
        """Whether the link to Django's admin is of use to this person."""
        return bool(getattr(getattr(self._viewer, "user", None), "is_staff", False))


def _place(name: str, label: str, icon: str, within: tuple[str, ...], *, here: str | None) -> Place | None:
    try:
        href = reverse(name)
    except NoReverseMatch:
        return None
    return Place(href=href, label=label, icon=icon, here=here in within, counts=name == "inbox")


def context(request: HttpRequest) -> dict[str, Shell]:
    """Context processor: ``shell``."""
    return {"shell": Shell(request)}
