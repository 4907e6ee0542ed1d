"""One socket from handshake to close: plain ASGI, because Channels' dispatch takes a hop through one thread per
message, and a channel layer drops messages silently.

The socket changes nothing: all a client may send is ``{"ack": seq}``, a little at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from django.urls import URLPattern, path, re_path

from wfdash.access.viewer import EVERY, Viewer
from wfdash.web.live.authorization import Guard, bearer_of, origin_allowed, read_inspect, read_viewer
from wfdash.web.live.database import Limits
from wfdash.web.live.feeds import EventBatch, EventForm, Feed, Style, TextPiece, TextQueue, message_of, text_message
from wfdash.web.live.hub import NOTICES, Change, Hub, get_hub

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

DONE = 1000
BAD_FRAME, SIGNED_OUT, RIGHT_LOST, NO_SUCH_RUN = 4400, 4401, 4403, 4404
NO_ACK, FRAME_TOO_LARGE, TOO_MANY, BROKEN = 4408, 4413, 4429, 1011


class SocketClosed(Exception):
    """The socket must be closed with this code; None when the client has left already."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class Socket:
    """The base of all sockets. Subclasses say what to watch and what to send."""

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        self.hub, self.limits, self.scope = hub, hub.limits, scope
        self._receive, self._send = receive, send
        self._guard = Guard(hub, self._person)
        self._frames: deque[float] = deque(maxlen=self.limits.frames_per_second)

    def look(self, viewer: Viewer) -> Any:
        """Return what ``authorise`` decides by; runs in a database thread."""

    def authorise(self, viewer: Viewer, seen: Any) -> None:
        """Check the person's rights by what ``look`` returned, on connect and from time to time. Raises
        ``SocketClosed``.
        """
        raise NotImplementedError

    async def enter(self) -> None:
        """Start watching."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop watching; also called when ``enter`` was not reached."""
        raise NotImplementedError

    async def pump(self) -> None:
        """Send messages until the socket closes."""
        raise NotImplementedError

    def acknowledge(self, seq: int) -> None:
        """Handle that the client has everything up to ``seq``."""

    def check(self) -> None:
        """Check own timers; called every ``tick`` seconds. May raise ``SocketClosed``."""

    async def run(self) -> None:
        """Serve the socket until either side closes it."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        if bearer_of(self.scope) is None and not origin_allowed(self.scope):
            await self._send({"type": "websocket.close", "code": RIGHT_LOST})
            return
        await self._send({"type": "websocket.accept"})
        code = await self._serve()
        if code is not None:
            await self._send({"type": "websocket.close", "code": code})

    async def _serve(self) -> int | None:
        try:
            return await self._watch(await self._person())
        except SocketClosed as closed:
            return closed.code
        except Exception:
            log.exception("a live socket broke: %s", self.scope["path"])
            return BROKEN

    async def _watch(self, person: Hashable) -> int | None:
        if not self.hub.admit(person):
            return TOO_MANY
        try:
            with self._guard.listening(person):
                await self.enter()
                return await self._work()
        finally:
            self.leave()
            self.hub.dismiss(person)

    async def _work(self) -> int | None:
        code: int | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._listen(), self.pump(), self._guard.watch(self.check)):
                    group.create_task(work)
        except* SocketClosed as ends:
            code = _first(ends).code
        return code

    async def send(self, text: str) -> None:
        """Send one message. Servers raise different errors for a client that just left: all mean ``SocketClosed``."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except Exception as error:
            raise SocketClosed(None) from error

    async def _person(self) -> Hashable:
        """Return the key of the person. Raises ``SocketClosed`` if they may not watch this."""
        viewer, seen = await self.hub.reader.call(self._read_rights)
        if viewer is None:
            raise SocketClosed(SIGNED_OUT)
        self.authorise(viewer, seen)
        person: Hashable = viewer.user.pk
        return person

    def _read_rights(self) -> tuple[Viewer | None, Any]:
        # One call in the threads, however much is read there: hundreds of new clients queue for each.
        viewer = read_viewer(self.scope)
        return viewer, None if viewer is None else self.look(viewer)

    async def _listen(self) -> None:
        while (message := await self._receive())["type"] == "websocket.receive":
            self._limit_rate()
            self.acknowledge(self._seq_of(message.get("text")))
        raise SocketClosed(None)

    def _limit_rate(self) -> None:
        now = time.monotonic()
        if len(self._frames) == self._frames.maxlen and now - self._frames[0] < 1:
            raise SocketClosed(TOO_MANY)
        self._frames.append(now)

    def _seq_of(self, text: str | None) -> int:
        if text is not None and len(text) > self.limits.frame_chars:
            raise SocketClosed(FRAME_TOO_LARGE)
        try:
            frame = json.loads(text or "")
        except (ValueError, RecursionError):
            raise SocketClosed(BAD_FRAME) from None
        if not isinstance(frame, dict) or frame.keys() != {"ack"} or type(frame["ack"]) is not int:
            raise SocketClosed(BAD_FRAME)
        return frame["ack"]


def style_of(scope: Scope) -> Style:
    """Return how this socket writes: for programs with ``format=json``, else for the pages."""
    wanted = parse_qs(scope["query_string"].decode("latin1"), keep_blank_values=True).get("format", ["html"])
    if wanted not in (["html"], ["json"]):
        raise SocketClosed(BAD_FRAME)
    return Style(wanted[0])


def _first(group: BaseExceptionGroup[SocketClosed]) -> SocketClosed:
    """Return one of the reasons to close; a client that has left comes first."""
    ends = [_first(error) if isinstance(error, BaseExceptionGroup) else error for error in group.exceptions]
    return next((end for end in ends if end.code is None), ends[0])


# ``/live/lists/``: says that lists of workflows this person may see changed, or their notifications. No data.

MOST_REQUESTS = 50
"""How many requests one message names."""


class ListsSocket(Socket):
    """One viewer of list pages."""

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(hub, scope, receive, send)
        self._viewer_now: Viewer | None = None
        self._style = Style.HTML
        self._changed: set[str] = set()
        self._woken = asyncio.Event()

    def authorise(self, viewer: Viewer, seen: None) -> None:
        """Allow everyone who may see some workflow."""
        if not viewer.may_anywhere("see"):
            raise SocketClosed(RIGHT_LOST)
        self._style = style_of(self.scope)
        self._viewer_now = viewer

    async def enter(self) -> None:
        """Watch the lists, and say once that all may have changed: what changed since the page was rendered is
        unknown.
        """
        await self.hub.watch_lists(self)
        self.notify({("runs", EVERY), ("inbox", EVERY)})

    def leave(self) -> None:
        """Stop watching."""
        self.hub.leave_lists(self)

    def notify(self, changes: set[Change]) -> None:
        """Collect the changes that concern this person."""
        viewer = self._viewer_now
        if viewer is not None:
            seen = {what for what, whom in changes if concerns(viewer, what, whom)}
            if seen:
                self._changed |= seen
                self._woken.set()

    async def pump(self) -> None:
        """Send changes as they come; the lists limit how often."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            changed, self._changed = _bounded(self._changed), set()
            await self.send(message_of(self._style, "changed", what=changed))


def concerns(viewer: Viewer, what: str, whom: str) -> bool:
    """Return whether this viewer hears of a change: of workflows they may see, and of their own notifications."""
    if what == NOTICES:
        return viewer.whole and whom == str(viewer.user.pk)
    return whom == EVERY or viewer.may("see", whom)


def _bounded(changed: set[str]) -> list[str]:
    """Return what changed; many requests at once (a batch) are ``request:*``."""
    single = {what for what in changed if ":" in what}
    if len(single) <= MOST_REQUESTS:
        return sorted(changed)
    return sorted((changed - single) | {"request:*"})


# ``/live/runs/<id>/?after=<seq>``: everything after a cursor, then what follows, once each and in order.


class RunSocket(Socket):
    """One viewer of one run: a cursor, its credit, and a wake-up call."""

    _feed: Feed

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(hub, scope, receive, send)
        self._run: str = scope["url_route"]["kwargs"]["run_id"]
        self._cursor = 0
        self._admitted = False
        self._style = Style.HTML
        self._form = EventForm(Style.HTML, False)
        self._behind = True
        self._credit = Credit(self.limits, now=time.monotonic())
        self._texts = TextQueue()
        self._woken = asyncio.Event()

    def look(self, viewer: Viewer) -> bool | None:
        """Return whether the viewer may see the run and its values."""
        return read_inspect(viewer, self._run)

    def authorise(self, viewer: Viewer, seen: bool | None) -> None:
        """Close with 4404 on connect if they may not see the run, with 4403 once they no longer may."""
        if seen is None:
            raise SocketClosed(RIGHT_LOST if self._admitted else NO_SUCH_RUN)
        self._style = style_of(self.scope)
        self._form, self._admitted = EventForm(self._style, seen), True

    async def enter(self) -> None:
        """Join the feed; a page beyond a maximum gap gets one snapshot."""
        self._cursor = _after(self.scope["query_string"])
        self._feed, reached = await self.hub.watch_run(self._run, self, after=self._cursor)
        too_far = self._style is Style.HTML and self._cursor < reached - self.limits.snapshot_gap
        if too_far or self._cursor > reached:
            await self._snapshot(reached)
        self.hub.begin_text(self._run, self)
        self.wake()

    def leave(self) -> None:
        """Leave the feed."""
        self.hub.leave_run(self._run, self)

    def wake(self) -> None:
        """Note that there may be something to send."""
        self._woken.set()

    def show_text(self, piece: TextPiece) -> None:
        """Send text if the viewer keeps up and may see values; drop it otherwise, and say so with the next."""
        if self._form.inspect:
            self._texts.add(piece, fits=self._credit.take_text(len(piece.text)))
            self.wake()

    def acknowledge(self, seq: int) -> None:
        """Free credit."""
        if seq > self._cursor:
            raise SocketClosed(BAD_FRAME)
        self._credit.ack(seq, now=time.monotonic())
        if self._behind:
            self.wake()

    def check(self) -> None:
        """Close a viewer whose acknowledgement is overdue."""
        if self._credit.overdue(now=time.monotonic()):
            raise SocketClosed(NO_ACK)

    async def pump(self) -> None:
        """Send texts and events as they come, as far as the credit allows."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._send_texts()
            await self._send_events()
            await self._send_end()

    async def _send_texts(self) -> None:
        while piece := self._texts.take():
            await self.send(text_message(self._style, piece))

    async def _send_events(self) -> None:
        while self._feed.known > self._cursor:
            if self._credit.full():
                self._behind = True
                return
            packet = await self._feed.packet(self._cursor, self._form)
            if packet and not await self._send_packet(packet):
                self._behind = True
                return
        if self._behind:
            self._behind = False
            await self.send(message_of(self._style, "caught_up", seq=self._cursor))

    async def _send_end(self) -> None:
        """Close a program's socket once the run has ended and it has all of it."""
        end = self._feed.ended
        if self._style is Style.JSON and end and end[0] == self._cursor >= self._feed.known:
            await self.send(message_of(self._style, "end", seq=end[0], status=end[1]))
            raise SocketClosed(DONE)

    async def _send_packet(self, packet: EventBatch) -> bool:
        """Send as many events as the credit allows; False if none was sent."""
        # A step's text before the events that end it.
        self._feed.flush_text()
        await self._send_texts()
        if packet.first != self._cursor + 1:
            await self._snapshot(packet.first - 1)  # older events are no longer cached
        count = self._credit.fit(packet.sizes)
        if not count:
            return False
        self._cursor = packet.last(count)
        self._credit.send(packet.first, packet.sizes[:count], now=time.monotonic())
        await self.send(packet.message(count))
        return True

    async def _snapshot(self, seq: int) -> None:
        self._cursor = seq
        await self.send(message_of(self._style, "snapshot", seq=seq))


def _after(query: bytes) -> int:
    """Return the cursor of the address; 0 without one."""
    values = parse_qs(query.decode("latin1")).get("after", ["0"])
    if len(values) != 1 or not (values[0].isascii() and values[0].isdigit()) or len(values[0]) > 15:
        raise SocketClosed(BAD_FRAME)
    return int(values[0])


# Flow control: how much may be in flight to one socket. Pure: no clock, no loop.


class Credit:
    """The unacknowledged messages of one viewer, each ``(its first seq, sizes)``, and the time of the last
    acknowledgement.
    """

    def __init__(self, limits: Limits, *, now: float) -> None:
        self._limits = limits
        # By message, its sizes shared with the others who got it: a tuple per event and viewer would burden the garbage
        # collector, and thereby every thread.
        self._owed: deque[tuple[int, Sequence[int]]] = deque()
        self._events = 0
        self._bytes = 0
        self._text = 0
        self._since = now

    def fit(self, sizes: Sequence[int]) -> int:
        """Return how many of the next events may go in one message now; at least one while nothing is
        unacknowledged.
        """
        room = min(len(sizes), self._limits.batch_events, self._limits.unacked_events - self._events)
        space = min(self._limits.batch_bytes, self._limits.unacked_bytes - self._bytes)
        count = 0
        while count < room and (space := space - sizes[count]) >= 0:
            count += 1
        return count or (0 if self._owed else min(1, len(sizes)))

    def full(self) -> bool:
        """Return whether nothing more may be sent before an acknowledgement."""
        return self._events >= self._limits.unacked_events or self._bytes >= self._limits.unacked_bytes

    def send(self, first: int, sizes: Sequence[int], *, now: float) -> None:
        """Count the events of a message as sent: its first seq, and the size of each."""
        if not self._owed:
            self._since = now
        if sizes:
            self._owed.append((first, sizes))
            self._events += len(sizes)
            self._bytes += sum(sizes)

    def ack(self, seq: int, *, now: float) -> None:
        """Count everything up to ``seq`` as received. Old and repeated acknowledgements have no effect."""
        self._text = 0
        while self._owed and self._owed[0][0] <= seq:
            first, sizes = self._owed.popleft()
            paid = sizes[: seq - first + 1]
            if len(paid) < len(sizes):
                self._owed.appendleft((seq + 1, sizes[len(paid) :]))
            self._events -= len(paid)
            self._bytes -= sum(paid)
            self._since = now

    def overdue(self, *, now: float) -> bool:
        """Return whether an acknowledgement has been due for too long."""
        return bool(self._owed) and now - self._since > self._limits.ack_timeout

    def take_text(self, size: int) -> bool:
        """Return whether this much streamed text may be sent too, and count it if so. Text is dropped, never queued."""
        if self._text + size > self._limits.unheard_text or self.full():
            return False
        self._text += size
        return True


# The URLs of the sockets. They authorise themselves: no session or origin middleware is needed around them.

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def socket_app(kind: type[Socket], hub: Callable[[], Hub]) -> App:
    """Return the ASGI application that serves each connection with a socket of that kind."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await kind(hub(), scope, receive, send).run()

    return serve


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject a handshake for a path that does not exist."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


def urlpatterns(hub: Callable[[], Hub] = get_hub) -> list[URLPattern]:
    """Return the URLs of the sockets, served by that hub. Tests pass their own."""
    runs: Any = socket_app(RunSocket, hub)
    lists: Any = socket_app(ListsSocket, hub)
    other: Any = refuse
    return [path("live/runs/<str:run_id>/", runs), path("live/lists/", lists), re_path(r"", other)]


websocket_urlpatterns = urlpatterns()
