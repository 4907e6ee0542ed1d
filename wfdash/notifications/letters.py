"""A notification in the form the channels carry, and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlencode

from django.urls import reverse

HEADLINES = {
    "opened": "Review requested: {subject}",
    "assigned": "Assigned to you by {by}: {subject}",
    "reminder": "Due soon: {subject}",
    "escalated": "Escalated to you: {subject}",
    "mentioned": "{by} mentioned you: {subject}",
    "asked": "Question from {by}: {subject}",
    "replied": "{by} replied: {subject}",
    "taken": "{by} took over: {subject}",
    "unanswerable": "No one can answer: {subject}",
    "decided": "{verdict} by {decider}: {subject}",
    "failed": "Failed: {subject}",
    "held": "Held: {subject}",
    "late": "Schedule overdue: {subject}",
    "test": "Test notification",
}
PAST = {"approve": "Approved", "reject": "Rejected", "edit": "Approved with changes", "answered": "Answered"}
ANSWERABLE = frozenset({"opened", "assigned", "reminder", "escalated"})
"""Kinds that ask the person for an answer; they are obsolete once there is one."""


class Undeliverable(Exception):
    """Delivery failed permanently; it is not retried."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One notification. ``id`` is the same at every attempt, so receivers can drop duplicates. ``url``: the page to
    open.
    """

    id: str
    kind: str
    at: datetime
    url: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """Return what happened, in one line."""
        return headline(self.kind, self.payload)

    @property
    def text(self) -> str:
        """Return the text a person wrote, where the notification is about one."""
        return str(self.payload.get("text") or "")

    @property
    def due(self) -> datetime | None:
        """Return the deadline of a request that still waited at the time of writing."""
        due = self.payload.get("due") if self.kind != "decided" else None
        return datetime.fromisoformat(due) if due else None

    @property
    def risk(self) -> str:
        """Return the risk of a request that still waited at the time of writing."""
        return str(self.payload.get("risk") or "") if self.kind != "decided" else ""

    @property
    def asks(self) -> bool:
        """Return whether it asks for an answer."""
        return self.kind in ANSWERABLE


class Channel(Protocol):
    """Delivers letters to one receiver. Raises what went wrong; ``Undeliverable`` if a retry is of no use."""

    def __call__(self, receiver: Any, letters: list[Letter]) -> None: ...


def headline(kind: str, payload: Mapping[str, Any]) -> str:
    """Return what happened in one line of at most 200 characters."""
    verdict = str(payload.get("verdict") or "")
    facts = {
        "subject": payload.get("subject") or "a request",
        "by": payload.get("by") or "Someone",
        "decider": payload.get("by") or "its deadline",
        "verdict": PAST.get(verdict, verdict.replace("_", " ").capitalize() or "Decided"),
    }
    words = HEADLINES.get(kind, "{subject}").format_map(facts)
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return line if len(line) <= 200 else line[:199] + "…"


def page_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return the path of what a notification is about, if that is no request: a run, the schedules, or the list."""
    run, text = str(payload.get("run") or ""), str(payload.get("subject") or "")
    if kind == "late":
        return f"{reverse('wfdash:schedules')}?{urlencode({'q': text})}"
    return reverse("wfdash:run", args=[run]) if run else reverse("wfdash:notices")
