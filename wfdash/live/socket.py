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
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from wfdash.access.viewer import Viewer
from wfdash.live.authorization import bearer_of, read_viewer
from wfdash.live.feeds.messages import Style
from wfdash.live.guard import Guard
from wfdash.live.hub import Hub
from wfdash.live.origin import origin_allowed

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
