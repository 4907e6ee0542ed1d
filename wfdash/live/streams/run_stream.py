"""The event stream of one run: everything after a cursor, then what follows, until the run has ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from django.http import HttpRequest, StreamingHttpResponse

from wfdash.access.viewer import Viewer
from wfdash.live.authorization import read_inspect
from wfdash.live.feeds.feed import Feed
from wfdash.live.feeds.messages import EventBatch, EventForm, Style, TextPiece, message_of, text_message
from wfdash.live.feeds.text_queue import TextQueue
from wfdash.live.hub import Hub
from wfdash.live.streams.stream import NO_LONGER, Scope, Stream, StreamOver, respond


class RunEventStream(Stream):
    """One program that follows one run."""

    _feed: Feed

    def __init__(self, hub: Hub, scope: Scope, run: str, after: int) -> None:
        super().__init__(hub, scope)
        self._run, self._cursor = run, after
        self._form = EventForm(Style.SSE, False)
        self._texts = TextQueue()

    def look(self, viewer: Viewer) -> bool | None:
        """Return whether the viewer may see the run and its values."""
        return read_inspect(viewer, self._run)

    def authorise(self, seen: bool | None) -> None:
        """End the stream of someone who may not see the run any more."""
        if seen is None:
            raise StreamOver(NO_LONGER)
        self._form = EventForm(Style.SSE, seen)

    async def enter(self) -> None:
        """Join the feed."""
        self._feed, _ = await self.hub.watch_run(self._run, self, after=self._cursor)
        self.hub.begin_text(self._run, self)

    def leave(self) -> None:
        """Leave the feed."""
        self.hub.leave_run(self._run, self)

    def show_text(self, piece: TextPiece) -> None:
        """Keep text for a program that may see values and takes what it is sent."""
        if self._form.inspect:
            self._texts.add(piece, fits=self._texts.chars + len(piece.text) <= self.limits.unheard_text)
            self.wake()

    async def messages(self) -> AsyncIterator[str]:
        """Give texts and events, and the end."""
        for text in self._take_texts():
            yield text
        while self._feed.known > self._cursor and not self.refused:
            batch = await self._feed.packet(self._cursor, self._form)
            # A step's text before the events that end it.
            self._feed.flush_text()
            for text in self._take_texts():
                yield text
            if batch is not None:
                yield self._take(batch)
        end = self._feed.ended
        if end is not None and end[0] == self._cursor and not self.refused:
            self.done = True
            yield message_of(Style.SSE, "end", seq=end[0], status=end[1])

    def _take_texts(self) -> Iterator[str]:
        while piece := self._texts.take():
            yield text_message(Style.SSE, piece)

    def _take(self, batch: EventBatch) -> str:
        """Return what is sent of a batch, and move the cursor there."""
        gap = "" if batch.first == self._cursor + 1 else message_of(Style.SSE, "snapshot", seq=batch.first - 1)
        count = len(batch.sizes)
        self._cursor = batch.last(count)
        return gap + batch.message(count)


def follow_run(request: HttpRequest, viewer: Viewer, run: str, *, after: int) -> StreamingHttpResponse:
    """Return the stream of a run's events. The caller has found the run through the viewer."""
    return respond(request, viewer, lambda hub, scope: RunEventStream(hub, scope, run, after))
