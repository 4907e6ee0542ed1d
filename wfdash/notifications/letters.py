"""A notice as the channels carry it, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

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
    "decided": "{verdict}: {subject}",
    "test": "Webhook test",
}
PAST = {"approve": "Approved", "reject": "Rejected", "edit": "Approved with changes", "answered": "Answered"}
ANSWERABLE = frozenset({"opened", "assigned", "reminder", "escalated"})
"""Kinds that ask the person for an answer; they are moot once there is one."""


class Undeliverable(Exception):
    """It makes no sense to try again."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """``id`` is the same at every attempt, so that a receiver can drop doubles. ``url``: where to look or to answer."""

    id: str
    kind: str
    at: datetime
    url: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """What happened, in a line."""
        return headline(self.kind, self.payload)

    @property
    def text(self) -> str:
        """What somebody wrote, if that is what it is about."""
        return str(self.payload.get("text") or "")

    @property
    def due(self) -> datetime | None:
        """The request's deadline when it was written."""
        due = self.payload.get("due")
        return datetime.fromisoformat(due) if due else None

    @property
    def asks(self) -> bool:
        """Whether it asks for an answer."""
        return self.kind in ANSWERABLE


class Channel(Protocol):
    """Carries letters to one receiver. Raises what went wrong; ``Undeliverable`` if trying again is of no use."""

    def __call__(self, receiver: Any, letters: list[Letter]) -> None: ...


def headline(kind: str, payload: Mapping[str, Any]) -> str:
    """Say what happened in one line of at most 200 characters."""
    verdict = str(payload.get("verdict") or "")
    said = {
        "subject": payload.get("subject") or "a request",
        "by": payload.get("by") or "Someone",
        "verdict": PAST.get(verdict, verdict.replace("_", " ").capitalize() or "Decided"),
    }
    words = HEADLINES.get(kind, "{subject}").format_map(said)
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return line if len(line) <= 200 else line[:199] + "…"
