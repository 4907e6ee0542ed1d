"""Event streams (SSE): the events of a run, or of all runs of a workflow, to programs over plain HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator, Mapping
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse

from checkpoints.errors import Unsupported
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import REFUSALS, NotAllowed, ProblemKind, TooOften, kind_of
from wfdash.queries.history import cursor_at
from wfdash.web.live.authorization import Guard, read_inspect, read_viewer
from wfdash.web.live.feeds import (
    EventBatch,
    EventForm,
    Feed,
    Style,
    TextPiece,
    TextQueue,
    WorkflowPlace,
    message_of,
    sse,
    text_message,
)
from wfdash.web.live.hub import Admissions, Hub, get_hub, process_admissions

# One event stream from its first message to its last, on the hub's loop: no thread waits for it.

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"
Scope = Mapping[str, Any]


class StreamOver(Exception):
    """The stream must end, for this reason."""

    def __init__(self, kind: ProblemKind) -> None:
        super().__init__(kind.code)
        self.kind = kind


class Stream:
    """The base of all event streams: the rights while it is open, and when it says something."""

    def __init__(self, hub: Hub, scope: Scope) -> None:
        self.hub, self.limits = hub, hub.limits
        self._scope = scope
        self._woken = asyncio.Event()
        self.refused: ProblemKind | None = None
        self.done = False

    def look(self, viewer: Viewer) -> Any:
        """Return what ``authorise`` decides by; runs in a database thread."""
        raise NotImplementedError

    def authorise(self, seen: Any) -> None:
        """Take what the viewer may see now. Raises ``StreamOver``."""
        raise NotImplementedError

    async def enter(self) -> None:
        """Start watching."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop watching; also called when ``enter`` was not reached."""
        raise NotImplementedError

    def messages(self) -> AsyncIterator[str]:
        """Give what there is to send now; sets ``done`` after the last message."""
        raise NotImplementedError

    def heartbeat(self) -> str:
        """Return what is sent when there is nothing to say: a comment."""
        return ":\n\n"

    def wake(self) -> None:
        """Note that there may be something to send."""
        self._woken.set()

    async def run(self) -> AsyncGenerator[str]:
        """Give the stream's text until it ends, or the client leaves."""
        yield f"retry: {int(self.limits.retry * 1000)}\n\n"
        guard = Guard(self.hub, self._read_rights)
        watching: asyncio.Task[None] | None = None
        try:
            with guard.listening(await self._read_rights()):
                watching = asyncio.create_task(self._watch(guard))
                await self.enter()
                async for text in self._speak():
                    yield text
        except StreamOver as over:
            yield problem(over.kind)
        except Exception as error:
            log.exception("an event stream broke: %s", self._scope["path"])
            yield problem(kind_of(error))
        finally:
            if watching is not None:
                watching.cancel()
            self.leave()

    async def _speak(self) -> AsyncIterator[str]:
        while not self.done:
            if self.refused is not None:
                raise StreamOver(self.refused)
            async for text in self.messages():
                yield text
            if not self.done and not await self._woken_in_time():
                yield self.heartbeat()

    async def _woken_in_time(self) -> bool:
        """Wait for something to send; False when it is time for a heartbeat instead."""
        try:
            async with asyncio.timeout(self.limits.heartbeat):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def _watch(self, guard: Guard) -> None:
        try:
            await guard.watch()
        except StreamOver as over:
            self.refused = over.kind
        except Exception as error:
            log.exception("the rights of an event stream could not be read")
            self.refused = kind_of(error)
        self.wake()

    async def _read_rights(self) -> Hashable:
        person, seen = await self.hub.reader.call(self._rights)
        self.authorise(seen)
        return person

    def _rights(self) -> tuple[Hashable, Any]:
        viewer = read_viewer(self._scope)
        if viewer is None:
            raise StreamOver(REFUSALS[401])
        return viewer.user.pk, self.look(viewer)


NO_LONGER = kind_of(NotAllowed())


def problem(kind: ProblemKind) -> str:
    """Return the message that says why the stream ends early."""
    facts = {"status": kind.status, "code": kind.code, "title": kind.title}
    return sse(json.dumps(facts), event="problem")


class EventSource:
    """The content of a streaming response: a stream, made where it is read, and its place among the person's."""

    def __init__(self, make: Callable[[Hub], Stream], person: Hashable, admissions: Admissions) -> None:
        self._make, self._person, self._admissions = make, person, admissions
        self._open = True

    async def __aiter__(self) -> AsyncIterator[str]:
        """Give the stream's text; it begins with the first, on the loop that reads it."""
        async with contextlib.aclosing(self._make(get_hub()).run()) as texts:
            async for text in texts:
                yield text

    def close(self) -> None:
        """Give the place back, once; Django calls this when the response is over, whatever became of it."""
        if self._open:
            self._open = False
            self._admissions.dismiss(self._person)

    def __del__(self) -> None:
        """Give the place back where no response came of it: a client may leave before."""
        self.close()


def respond(request: HttpRequest, viewer: Viewer, make: Callable[[Hub, Scope], Stream]) -> StreamingHttpResponse:
    """Return the response with a stream. ``TooOften`` for a person who has too many, ``Unsupported`` without ASGI."""
    scope: Scope | None = getattr(request, "scope", None)
    if scope is None:
        raise Unsupported("Event streams need a server that speaks ASGI")
    admissions = process_admissions()
    if not admissions.admit(viewer.user.pk):
        raise TooOften("Too many open connections: close one, then try again", retry_after=5)
    source = EventSource(lambda hub: make(hub, scope), viewer.user.pk, admissions)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
    return StreamingHttpResponse(source, content_type=MEDIA_TYPE, headers=headers)


def wants_stream(request: HttpRequest) -> bool:
    """Return whether the client asks for an event stream rather than for a page of JSON."""
    return request.get_preferred_type(["application/json", MEDIA_TYPE]) == MEDIA_TYPE


# The event stream of a workflow: the events of all its runs behind a cursor, then what follows. It has no end.


class WorkflowEventStream(Stream):
    """One program that follows the runs of one workflow."""

    def __init__(self, hub: Hub, scope: Scope, workflow: str, after: int) -> None:
        super().__init__(hub, scope)
        self._workflow, self._after, self._inspect = workflow, after, False
        self._said = -1

    def look(self, viewer: Viewer) -> bool | None:
        """Return whether the viewer may see the workflow's runs, and their values; None if not even the runs."""
        return viewer.may("inspect", self._workflow) if viewer.may("see", self._workflow) else None

    def authorise(self, seen: bool | None) -> None:
        """End the stream of someone who may not see the workflow any more."""
        if seen is None:
            raise StreamOver(NO_LONGER)
        self._inspect = seen

    async def enter(self) -> None:
        """Follow the mark."""
        await self.hub.watch_workflows(self)

    def leave(self) -> None:
        """Leave the feed."""
        self.hub.leave_workflows(self)

    def heartbeat(self) -> str:
        """Return the cursor without an event: many events of other workflows may have passed since the last one."""
        return self._position()

    async def messages(self) -> AsyncIterator[str]:
        """Give the cursor at first, then events."""
        if self._said < 0:
            yield self._position()
        feed = self.hub.workflows
        while feed.mark > self._after and not self.refused:
            part = await feed.part(WorkflowPlace(self._workflow, self._after, self._inspect))
            self._after = part.reached
            if not self.refused and (part.text or feed.mark > self._after):
                yield part.text or self._position()  # a long way through what others did is no silence

    def _position(self) -> str:
        self._said = self._after
        return f":\nid: {cursor_at(self._workflow, self._after)}\n\n"


def follow_workflow(request: HttpRequest, viewer: Viewer, workflow: str, *, after: int) -> StreamingHttpResponse:
    """Return the stream of a workflow's events. The caller has found the workflow through the viewer."""
    return respond(request, viewer, lambda hub, scope: WorkflowEventStream(hub, scope, workflow, after))


# The event stream of one run: everything after a cursor, then what follows, until the run has ended.


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
