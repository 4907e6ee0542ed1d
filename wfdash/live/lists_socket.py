"""``/live/lists/``: says that lists of workflows this person may see changed, or their notifications. No data."""

from __future__ import annotations

import asyncio

from wfdash.access.viewer import EVERY, Viewer
from wfdash.live.feeds.messages import Style, message_of
from wfdash.live.hub import Hub
from wfdash.live.lists import NOTICES, Change
from wfdash.live.socket import RIGHT_LOST, Receive, Scope, Send, Socket, SocketClosed, style_of

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
