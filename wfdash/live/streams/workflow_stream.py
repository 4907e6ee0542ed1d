"""The event stream of a workflow: the events of all its runs behind a cursor, then what follows. It has no end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from django.http import HttpRequest, StreamingHttpResponse

from wfdash.access.viewer import Viewer
from wfdash.live.feeds.workflow_feed import WorkflowPlace
from wfdash.live.hub import Hub
from wfdash.live.streams.stream import NO_LONGER, Scope, Stream, StreamOver, respond
from wfdash.queries.history.events import cursor_at


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
