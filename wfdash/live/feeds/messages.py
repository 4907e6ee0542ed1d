"""What is sent of a run's events, in its three forms: rows for the pages, records for programs, and event streams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from django.core.serializers.json import DjangoJSONEncoder

from wfdash.records.messages import VERSION


class Style(StrEnum):
    """How events are written. ``HTML`` is for the pages' own script and may change at any time."""

    HTML = "html"
    JSON = "json"
    SSE = "sse"


class EventForm(NamedTuple):
    """What one viewer gets of events: the style, and whether with values."""

    style: Style
    inspect: bool


@dataclass(frozen=True, kw_only=True)
class TextPiece:
    """Text that a step streamed. ``begin``: the attempt's first, or all that is kept of it; else it follows the last
    piece. ``cut``: some text before it is missing.
    """

    step: str
    text: str
    begin: bool = False
    cut: bool = False


class EventBatch:
    """The encoded events that follow one cursor, oldest first, without a gap; never empty."""

    def __init__(self, first: int, texts: Sequence[str], style: Style = Style.HTML) -> None:
        self.first = first
        self.sizes = tuple(map(len, texts))
        """Characters of each event."""
        self._texts, self._style = texts, style
        self._whole = ""

    def last(self, count: int) -> int:
        """Return the seq of the last of the first ``count`` events."""
        return self.first + count - 1

    def message(self, count: int) -> str:
        """Return the message with the first ``count`` events."""
        if count < len(self._texts):
            return self._join(count)
        self._whole = self._whole or self._join(count)
        return self._whole

    def _join(self, count: int) -> str:
        if self._style is Style.SSE:
            return "".join(self._texts[:count])
        begin = '{"type":' if self._style is Style.HTML else f'{{"v":{VERSION},"type":'
        return f'{begin}"events","events":[{",".join(self._texts[:count])}],"last":{self.last(count)}}}'


def html_event(seq: int, kind: str, step: str | None, at: datetime, html: str) -> str:
    """Return an event as the pages get it."""
    return json.dumps({"seq": seq, "kind": kind, "step": step, "at": at.isoformat(), "html": html})


def json_text(record: Mapping[str, Any]) -> str:
    """Return an event as programs get it: the text of the API's record."""
    return json.dumps(record, cls=DjangoJSONEncoder)


def sse(data: str, *, event: str = "", id: object = None) -> str:  # noqa: A002 (the standard's name)
    """Return one message of an event stream. ``data`` is one line."""
    lines = [f"id: {id}"] if id is not None else []
    lines += [f"event: {event}"] if event else []
    return "\n".join([*lines, f"data: {data}", "", ""])


def message_of(style: Style, kind: str, **facts: Any) -> str:
    """Return a message that carries no event, such as ``stream`` or ``caught_up``."""
    if style is Style.SSE:
        return sse(json.dumps(facts), event=kind)
    version = {"v": VERSION} if style is Style.JSON else {}
    return json.dumps({**version, "type": kind, **facts})


def text_message(style: Style, piece: TextPiece) -> str:
    """Return the message with a piece of streamed text."""
    marks = {name: True for name in ("begin", "cut") if getattr(piece, name)}
    return message_of(style, "stream", step=piece.step, text=piece.text, **marks)


def joined(before: TextPiece | None, piece: TextPiece, *, most: int) -> TextPiece:
    """Return two pieces as one, at most so many characters: the end of it."""
    if before is None or piece.begin:
        whole, begin, cut = piece.text, piece.begin, piece.cut
    else:
        whole, begin, cut = before.text + piece.text, before.begin, before.cut or piece.cut
    return TextPiece(step=piece.step, text=whole[-most:], begin=begin, cut=cut or len(whole) > most)
