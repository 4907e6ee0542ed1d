"""One step of a run: its activations, and the details of one of them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.contract import Description, StepInfo
from wfdash.queries.runs.listing import RunView
from wfdash.queries.runs.steps import ActivationDetail, ActivationPage, read_activation, read_activations
from wfdash.records.checkpoints import StateCounts
from wfdash.web.pages.runs.header import address
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.fragments import EventItem, event_row_of
from wfdash.web.pages.ui.source_lines import step_link

STATES = ("running", "waiting", "retrying", "sleeping", "stopped", "failed", "done")
MANY_ITEMS = 8
"""Items from which on they can be looked for."""


@frozen
class StepPanel:
    """The context of a step's panel. ``inside``: the open activation, None while one has to be chosen."""

    name: str
    title: str
    info: StepInfo | None
    counts: StateCounts
    found: ActivationPage
    inside: ActivationDetail | None
    logs: tuple[EventItem, ...]
    state: str
    find: str
    next: str
    close: str
    code: str = ""
    """The address of its code, for those who may see it."""

    @property
    def searchable(self) -> bool:
        """Return whether items are looked for: there are several, and they are called something."""
        return bool(self.find) or (
            self.found.total >= MANY_ITEMS and any(row.item is not None for row in self.found.rows)
        )

    @property
    def filters(self) -> tuple[tuple[str, int], ...]:
        """Return the states that occur, with how many activations are in each."""
        return tuple((state, number) for state in STATES if (number := getattr(self.counts, state)))


def step_panel(
    request: HttpRequest,
    viewer: Viewer,
    run: RunView,
    described: Description | None,
    counts: dict[str, StateCounts],
) -> StepPanel | None:
    """Return the panel of ``?step=``; None if none is requested or the run has no such step.

    ``activation``: the open one, by default the only one; ``of``: those in one state; ``item``: those of items with
    this index, or with this in their label; ``page``: the activation after which the list starts.
    """
    name = request.GET.get("step", "")
    known = {step.name: step for step in described.steps} if described else {}
    if not name or (name not in known and name not in counts):
        return None
    state = request.GET.get("of", "")
    state = state if state in STATES else ""
    page, driven = request.GET.get("page", ""), run.status == "running"
    find = request.GET.get("item", "").strip()[:100]
    found = read_activations(viewer, run.id, [name], state=state, find=find, after=page, driven=driven)
    wanted = request.GET.get("activation", "") or (found.rows[0].id if found.total == 1 and found.rows else "")
    inside = read_activation(viewer, run.id, wanted, driven=driven) if wanted else None
    info = known.get(name)
    return StepPanel(
        name=name,
        title=info.title if info and info.title else step_label(name),
        info=info,
        counts=counts.get(name, StateCounts()),
        found=found,
        inside=inside if inside and inside.activation.step == name else None,
        logs=_lines(run, inside),
        state=state,
        find=find,
        next=address(request, page=found.after, activation="") if found.after else "",
        code=step_link(viewer, run.workflow, name),
        close=address(request, step="", activation="", of="", item="", page=""),
    )


def _lines(run: RunView, inside: ActivationDetail | None) -> tuple[EventItem, ...]:
    events: tuple[Any, ...] = (*inside.logs, *inside.reports) if inside else ()
    return tuple(
        event_row_of(event, inspect=run.inspect, start=run.created, workflow=run.workflow)
        for event in sorted(events, key=lambda event: event.seq)
    )
