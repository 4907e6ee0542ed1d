"""Pieces of pages that are rendered on their own: event rows for the live feed, panels for ``?fragment=``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import get_template
from django.urls import reverse

from wfdash.pages.words import describe, icon_of, tone_of
from wfdash.queries.history import plain, traceless


class Happened(Protocol):
    """An event: the row or the record."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def step(self) -> str | None: ...
    @property
    def data(self) -> dict[str, Any]: ...
    @property
    def at(self) -> datetime: ...


@dataclass(frozen=True, kw_only=True)
class EventLine:
    """An event as a row shows it. ``detail`` is empty for those who may not inspect. ``level``: of a log record."""

    run: str
    seq: int
    kind: str
    step: str
    at: datetime
    words: str
    icon: str
    tone: str
    detail: dict[str, Any]
    level: str = ""

    @property
    def address(self) -> str:
        """Where it can be found for ever."""
        return f"{reverse('run-events', args=[self.run])}?seq={self.seq}#e{self.seq}"

    @property
    def replay(self) -> str:
        """Where the run is shown as it was then."""
        return f"{reverse('run', args=[self.run])}at/{self.seq}/"


def event_line(event: Happened, *, inspect: bool = False) -> EventLine:
    """Return what a row shows. Without ``inspect`` it holds no value of the workflow."""
    data = traceless(event.data) if inspect else plain(event.data)
    shown = {name: value for name, value in data.items() if name != "activation"}
    return EventLine(
        run=str(getattr(event, "run_id", "") or getattr(event, "run", "")),
        seq=event.seq,
        kind=event.kind,
        step=event.step or "",
        at=event.at,
        words=describe(event.kind, event.step or "", data),
        icon=icon_of(event.kind),
        tone=tone_of(event.kind),
        detail=shown if inspect else {},
        level=str(data.get("level") or ""),
    )


def event_row(event: Happened, *, inspect: bool = False) -> str:
    """Return the HTML of one event row, the same on first paint and in the live feed."""
    return get_template("run/event.html").render({"event": event_line(event, inspect=inspect)})


def respond(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    fragments: Mapping[str, str],
    *,
    status: int = 200,
) -> HttpResponse:
    """Return the page, or with ``?fragment=name`` only that part of it, from the same template and context."""
    wanted = request.GET.get("fragment", "")
    if not wanted:
        return render(request, template, dict(context), status=status)
    if wanted not in fragments:
        raise Http404("This page has no such part")
    return render(request, fragments[wanted], dict(context), status=status)
