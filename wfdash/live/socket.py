"""One socket from handshake to close: plain ASGI, so that no message takes a detour through Channels' dispatch
(a hop through one thread per message) or a channel layer (drops silently).

The socket changes nothing: all a client may send is ``{"ack": seq}``, a little at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any

from wfdash.access import Viewer
from wfdash.live.hub import Hub
from wfdash.live.origin import origin_allowed
from wfdash.live.people import read_viewer

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BAD_FRAME, SIGNED_OUT, RIGHT_LOST, NO_SUCH_RUN = 4400, 4401, 4403, 4404
NO_ACK, FRAME_TOO_LARGE, TOO_MANY, BROKEN = 4408, 4413, 4429, 1011


class Closed(Exception):
    """The socket must be closed with this code; None when the client has left already."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class Socket:
    """The part that every socket shares. Subclasses say what to watch and what to send."""

    def __init__(self, hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
        self.hub, self.limits, self.scope = hub, hub.limits, scope
        self._receive, self._send = receive, send
        self._frames: deque[float] = deque(maxlen=self.limits.frames_per_second)

    def look(self, viewer: Viewer) -> Any:
        """Read what ``authorise`` decides by; runs in a database thread."""

    def authorise(self, viewer: Viewer, seen: Any) -> None:
        """Check the person's rights by what ``look`` saw, on connect and from time to time. Raises ``Closed``."""
        raise NotImplementedError

    async def enter(self) -> None:
        """Begin to watch."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stop watching; also called when ``enter`` was not reached."""
        raise NotImplementedError

    async def pump(self) -> None:
        """Send what there is to send, for ever."""
        raise NotImplementedError

    def acknowledge(self, seq: int) -> None:
        """The client has everything up to ``seq``."""

    def check(self) -> None:
        """Look at own timers; called every ``tick`` seconds. May raise ``Closed``."""

    async def run(self) -> None:
        """Serve the socket until either side closes it."""
        if (await self._receive())["type"] != "websocket.connect":
            return
        if not origin_allowed(self.scope):
            await self._send({"type": "websocket.close", "code": RIGHT_LOST})
            return
        await self._send({"type": "websocket.accept"})
        code = await self._serve()
        if code is not None:
            await self._send({"type": "websocket.close", "code": code})

    async def _serve(self) -> int | None:
        try:
            return await self._watch(await self._person())
        except Closed as closed:
            return closed.code
        except Exception:
            log.exception("a live socket broke: %s", self.scope["path"])
            return BROKEN

    async def _watch(self, person: Hashable) -> int | None:
        if not self.hub.admit(person):
            return TOO_MANY
        try:
            await self.enter()
            return await self._work()
        finally:
            self.leave()
            self.hub.dismiss(person)

    async def _work(self) -> int | None:
        code: int | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._listen(), self.pump(), self._guard()):
                    group.create_task(work)
        except* Closed as ends:
            code = _first(ends).code
        return code

    async def send(self, text: str) -> None:
        """Send one message. Each server has its own error for a client that has just gone: all mean ``Closed``."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except Exception as error:
            raise Closed(None) from error

    async def _person(self) -> Hashable:
        """Return who it is that may watch this. Raises ``Closed``."""
        viewer, seen = await self.hub.reader.call(self._look)
        if viewer is None:
            raise Closed(SIGNED_OUT)
        self.authorise(viewer, seen)
        person: Hashable = viewer.user.pk
        return person

    def _look(self) -> tuple[Viewer | None, Any]:
        # One visit to the threads, however much is read there: hundreds who come at once queue for each.
        viewer = read_viewer(self.scope)
        return viewer, None if viewer is None else self.look(viewer)

    async def _listen(self) -> None:
        while (message := await self._receive())["type"] == "websocket.receive":
            self._limit_rate()
            self.acknowledge(self._seq_of(message.get("text")))
        raise Closed(None)

    def _limit_rate(self) -> None:
        now = time.monotonic()
        if len(self._frames) == self._frames.maxlen and now - self._frames[0] < 1:
            raise Closed(TOO_MANY)
        self._frames.append(now)

    def _seq_of(self, text: str | None) -> int:
        if text is not None and len(text) > self.limits.frame_chars:
            raise Closed(FRAME_TOO_LARGE)
        try:
            frame = json.loads(text or "")
        except (ValueError, RecursionError):
            raise Closed(BAD_FRAME) from None
        if not isinstance(frame, dict) or frame.keys() != {"ack"} or type(frame["ack"]) is not int:
            raise Closed(BAD_FRAME)
        return frame["ack"]

    async def _guard(self) -> None:
        due = self._next_look()
        while True:
            await asyncio.sleep(min(self.limits.tick, self.limits.recheck_every))
            self.check()
            if time.monotonic() >= due:
                await self._person()
                due = self._next_look()

    def _next_look(self) -> float:
        # At a moment of its own, or all who came at once would be looked up at once, minute by minute.
        return time.monotonic() + self.limits.recheck_every * random.uniform(0.5, 1)  # noqa: S311


def _first(group: BaseExceptionGroup[Closed]) -> Closed:
    """Return one of the reasons to close; a client that has left comes before the others."""
    ends = [_first(error) if isinstance(error, BaseExceptionGroup) else error for error in group.exceptions]
    return next((end for end in ends if end.code is None), ends[0])
