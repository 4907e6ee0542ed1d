"""Writes events in the forms that viewers get, in the database threads."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from checkpoints.models import Event
from wfdash.live.feeds.messages import EventForm, Style, html_event, json_text, sse
from wfdash.queries.history.events import cursor_at, event_of

log = logging.getLogger(__name__)


class Render(Protocol):
    """Turns an event into its row. Without ``inspect`` the row must not show values."""

    def __call__(self, event: Event, *, inspect: bool) -> str: ...


def render_nothing(event: Event, *, inspect: bool) -> str:
    """The renderer of a process that has no pages."""
    return ""


class EventWriter:
    """Writes an event in a form. One that cannot be read goes without its row or its data, not missing."""

    def __init__(self, render: Render = render_nothing) -> None:
        self.render = render

    def __call__(self, event: Event, form: EventForm) -> str:
        """Return the event's text."""
        if form.style is Style.HTML:
            return html_event(event.seq, event.kind, event.step, event.at, self._row(event, form.inspect))
        text = json_text(self._record(event, form.inspect))
        return sse(text, event=event.kind, id=event.seq) if form.style is Style.SSE else text

    def of_workflow(self, event: Event, workflow: str, *, inspect: bool) -> str:
        """Return the event as a message of its workflow's stream."""
        cursor = cursor_at(workflow, event.pk)
        record = {**self._record(event, inspect), "run": event.run_id, "cursor": cursor}
        return sse(json_text(record), event=event.kind, id=cursor)

    def _row(self, event: Event, inspect: bool) -> str:
        try:
            return self.render(event, inspect=inspect)
        except Exception:
            log.exception("event %s %s could not be rendered", event.run_id, event.seq)
            return ""

    def _record(self, event: Event, inspect: bool) -> dict[str, Any]:
        return {
            "seq": event.seq,
            "kind": event.kind,
            "step": event.step,
            "data": self._data(event, inspect),
            "at": event.at,
        }

    def _data(self, event: Event, inspect: bool) -> dict[str, Any]:
        try:
            return dict(event_of(event, inspect=inspect).data)
        except Exception:
            log.exception("event %s %s could not be read", event.run_id, event.seq)
            return {}
