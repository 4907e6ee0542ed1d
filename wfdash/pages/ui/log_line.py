"""A line of a log as HTML, with the hits of a search marked. In Python: no space may come between parts of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from wfdash.domain.invisible import visible
from wfdash.pages.ui.event_text import step_label
from wfdash.pages.ui.time_html import draw_moment
from wfdash.queries.runs.events import LEVELS
from wfdash.records.runs import LogLineRecord

MOST_MARKS = 100
"""Hits that are marked in one record."""
LINE = (
    '<li class="log-line {tone}" id="l{seq}"><a class="log-at" href="{events}?seq={seq}#e{seq}">{at}</a> '
    '<span class="log-level">{level}</span> <span class="log-step truncate" title="{where}">{step}</span> {text}</li>'
)


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A record, and what is marked in its text. ``start``: of its run; ``events``: the address of the run's events.
    ``workflow``: for the titles of its steps."""

    record: LogLineRecord
    wanted: str
    start: datetime
    events: str
    workflow: str = ""

    @property
    def html(self) -> SafeString:
        """Return the line as HTML."""
        one = self.record
        return format_html(
            LINE,
            tone=f"level-{one.level.lower()}" if one.level in LEVELS else "",
            seq=one.seq,
            events=self.events,
            at=draw_moment(one.at, self.start),
            level=one.level or "–",
            where=f"{one.step} · {visible(one.logger)}",
            step=step_label(one.step, self.workflow),
            text=self._text,
        )

    @property
    def _text(self) -> SafeString:
        if self.record.text is None:
            return SafeString('<span class="log-text is-hidden">Text not shown</span>')
        parts = marked(self.record.text, self.wanted)
        return format_html('<span class="log-text">{}</span>', format_html_join("", "{}", _drawn(parts)))


def marked(text: str, wanted: str) -> tuple[tuple[str, bool], ...]:
    """Return a text in parts, the hits of a search apart, whatever their case; at most ``MOST_MARKS`` of them."""
    shown = visible(text)
    if not wanted:
        return ((shown, False),)
    parts = re.split(f"({re.escape(visible(wanted))})", shown, maxsplit=MOST_MARKS, flags=re.IGNORECASE)
    return tuple((part, n % 2 == 1) for n, part in enumerate(parts) if part)


def _drawn(parts: tuple[tuple[str, bool], ...]) -> Iterator[tuple[str]]:
    for text, hit in parts:
        yield (format_html("<mark>{}</mark>", text) if hit else text,)
