"""The state inspector: state, input and output as a lazily opened tree; the graph of a run, and how a run once was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from checkpoints.events import EventKind
from wfdash.contract import Description, unpack_transcript
from wfdash.domain.errors import NotFound
from wfdash.notifications.rendering import render
from wfdash.queries.checkpoints.checkpoint import read_checkpoint
from wfdash.queries.runs.listing import RunView, read_run
from wfdash.queries.runs.values import ReplayView, RunValues, read_replay, read_run_values
from wfdash.queries.step_states import OPEN, StepTransition
from wfdash.queries.workflows import description_of
from wfdash.questions.tools import write_markdown
from wfdash.records.checkpoints import StateCounts
from wfdash.web.pages.runs.events import download_of, search_in
from wfdash.web.pages.runs.header import address, head
from wfdash.web.pages.runs.timeline import Intervals, length, total_busy, union
from wfdash.web.pages.site.decorators import get_page, number_in, viewer_of
from wfdash.web.pages.ui import json_value
from wfdash.web.pages.ui.drawing import Drawing
from wfdash.web.pages.ui.fragments import event_row_of, respond
from wfdash.web.pages.ui.graph import RunOverlay, closing, fold, layout, opened_in, opening, travelled
from wfdash.web.pages.ui.times import duration
from wfdash.web.pages.ui.transcript import draw_talk, find_turns

# A run as it looked after one of its events. Nothing is executed.

STATUS: Mapping[str, str] = {
    EventKind.RUN_WAITING: "waiting",
    EventKind.RUN_SLEEPING: "sleeping",
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_PAUSED: "paused",
    EventKind.RUN_HELD: "held",
    EventKind.RUN_QUEUED: "queued",
}
"""The status of a run by its last event about the run as a whole; after any other kind it was running."""


@get_page
def replay(request: HttpRequest, run_id: str, seq: int) -> HttpResponse:
    """Show the run after event ``seq``; ``seq`` in the query goes to another one."""
    wanted = request.GET.get("seq", "")
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 19:
        return redirect(_address(run_id, int(wanted), request.GET.get("unfold", "")))
    viewer, opened = viewer_of(request), opened_in(request.GET.get("unfold", ""))
    run = read_run(viewer, run_id)
    found = read_replay(viewer, run_id, seq)
    described = description_of(run.workflow, found.checkpoint.version if found.checkpoint else run.version)
    state = read_checkpoint(viewer, run_id, found.checkpoint.id) if found.checkpoint and run.inspect else None
    context = {
        "run": run,
        "found": found,
        "status": STATUS.get(found.status, "running"),
        "drawing": _draw(run_id, seq, described, found, opened) if described else None,
        "opened": opened,
        "unfold": ",".join(opened),
        "lines": [
            event_row_of(event, inspect=run.inspect, start=run.created, workflow=run.workflow)
            for event in reversed(found.events)
        ],
        "line": event_row_of(found.event, inspect=run.inspect, start=run.created, workflow=run.workflow),
        "state": state,
    }
    return render(request, "checkpoints/replay.html", context)


def _draw(run_id: str, seq: int, described: Description, found: ReplayView, opened: tuple[str, ...]) -> Drawing:
    """Return the graph as it was; a step leads to its panel on the run's page, a folded part opens here."""

    def link(step: str = "", unfold: str | None = None) -> str:
        if unfold is not None:
            return _address(run_id, seq, unfold) + "#replay-graph"
        return f"{reverse('wfdash:run', args=[run_id])}?{urlencode({'step': step})}#run-step"

    return draw(described, found.moves, found.board, {}, link=link, opened=opened, live=False)


def _address(run_id: str, seq: int, unfold: str) -> str:
    query = f"?{urlencode({'unfold': unfold})}" if unfold else ""
    return reverse("wfdash:replay", args=[run_id, seq]) + query


# The graph of one run: what steps are doing, their durations and retries; sub-workflows and similar steps folded.

ATTENTION = frozenset({"failed", "waiting", "retrying"})
"""States in which a step is drawn beside those it is like."""
Link = Callable[..., str]
"""Returns an address of the current page with these parts changed."""


def stopped_as(run: RunView) -> str:
    """Return what a step is called that was stopped with its run: as the run, where that may be resumed."""
    return run.status.value if run.status.value in {"paused", "held"} else "stopped"


def draw(
    described: Description,
    moved: Sequence[StepTransition],
    counts: Mapping[str, StateCounts],
    found: Mapping[str, Intervals],
    *,
    link: Link,
    opened: Collection[str] = (),
    chosen: str = "",
    live: bool = True,
    compared: bool = False,
    stopped: str = "stopped",
) -> Drawing:
    """Return the drawing. ``counts``, ``found``: states of each step; ``opened``: what is open of what can be folded.

    ``live``: the run has not ended, so durations still grow. ``compared``: colours show how long steps ran.
    ``stopped``: what a stopped step is called.
    """
    apart = {name for name, states in counts.items() if states.state in ATTENTION}
    folded = fold(described, opened, apart | {chosen})
    names = folded.names
    again = Counter(names.get(move.step, move.step) for move in moved if move.state == "retrying")
    times = _times(found, names)
    lengths = {name: total_busy(times[name]).total_seconds() for name in times}
    notes = {name: _note(lengths[name], again[name]) for name in times}
    last = {(move.step, move.activation): move for move in moved}.values()
    going = {names.get(move.step, move.step) for move in last if move.state in OPEN} if live else set()
    taken = {(names.get(a, a), names.get(b, b)) for a, b in travelled(described.edges, moved)}
    extras = RunOverlay(
        notes=notes,
        growing={name: lengths[name] for name in going},
        links=lambda name: link(unfold=opening(opened, name), step="") if name in folded.folded else link(step=name),
        closing=lambda name: link(unfold=closing(opened, name, folded)),
        folded=folded.folded,
        similar={name: len(steps) for name, steps in folded.similar.items()},
        lengths=_running(times) if compared else {},
        chosen=names.get(chosen, chosen),
        stopped=stopped,
    )
    return layout(folded.description, _merged(counts, names), taken, extras)


def _merged(counts: Mapping[str, StateCounts], names: dict[str, str]) -> dict[str, Counter[str]]:
    merged: dict[str, Counter[str]] = {}
    for step, one in counts.items():
        merged.setdefault(names.get(step, step), Counter()).update(vars(one))
    return merged


def _times(found: Mapping[str, Intervals], names: dict[str, str]) -> dict[str, Intervals]:
    merged: dict[str, Intervals] = {}
    for step, spans in found.items():
        mine = merged.setdefault(names.get(step, step), {})
        for state, parts in spans.items():
            mine[state] = [*mine.get(state, ()), *parts]
    return merged


def _running(times: Mapping[str, Intervals]) -> dict[str, float]:
    """Return how long steps ran, without their waits: beside one of days, everything else would look the same."""
    spans = {name: union(found.get("running", ())) for name, found in times.items()}
    return {name: length(parts).total_seconds() for name, parts in spans.items() if parts}


def _note(seconds: float, again: int) -> str:
    tried = f" · {again} retr{'y' if again == 1 else 'ies'}" if again else ""
    return f"{duration(seconds)}{tried}"


LABELS = (
    ("state", "State"),
    ("input", "Input"),
    ("output", "Output"),
    ("inputs", "Step inputs"),
    ("transcript", "Conversation"),
)
MESSAGES_PER_PAGE = 100
"""Messages of a conversation on a page."""
MOST_TURNS = 50
"""Messages that a search shows."""
FRAGMENTS = {"head": "runs/header/header.html"}


@get_page
def state(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Show a part of a run's values. ``what``: state, input, output, inputs (of steps in progress) or transcript; by
    default its state, the inputs of its steps where it waits without one.

    ``path``: a JSON pointer into it; ``from``: which child comes first; ``find``: a text to search for; ``as=json``:
    the part itself, to be copied; ``fragment=node``: only the rows of a node. Of the conversation ``q``: a text that
    its messages are searched for; ``as=markdown``: a download.
    """
    viewer = viewer_of(request)
    run = read_run(viewer, run_id)
    asked = request.GET.get("what", "")
    part = asked if asked in dict(LABELS) else "state"
    if not run.inspect:
        context = head(viewer, run, "state") | {"refused": True}
        return respond(request, "runs/state/page.html", context, FRAGMENTS)
    found = read_run_values(viewer, run_id, part)
    if not asked and found.value == {} and run.status == "waiting":
        found = read_run_values(viewer, run_id, part := "inputs")
    pointer = _pointer(request)
    try:
        value = json_value.at(found.value, pointer)
    except json_value.NoSuchNode as error:
        raise NotFound(f"{error}: the run has changed since, or the address is wrong") from error
    begin = number_in(request.GET.get("from", ""))

    def place(at: str, first: int) -> str:
        return address(request, path=at, find="", **{"from": str(first) if first else ""})

    said = unpack_transcript(found.value) if part == "transcript" and found.value and not pointer else ()
    if said and request.GET.get("as") == "markdown":
        name = f"wfdash-conversation-{run_id[-8:]}.md"
        return download_of(write_markdown(said), str, name=name, content_type="text/markdown; charset=utf-8")
    if request.GET.get("as") == "json":
        return HttpResponse(json.dumps(value, indent=2, ensure_ascii=False), content_type="application/json")
    if request.GET.get("fragment") == "node":
        return HttpResponse(json_value.children(value, place, pointer, begin))
    context = head(viewer, run, "state") | _tree_context(request, found, value, pointer)
    context["tree"] = json_value.render_tree(value, place, pointer, begin)
    if said:
        until = number_in(request.GET.get("until", "")) or None
        context["talk"] = draw_talk(said, limit=MESSAGES_PER_PAGE, until=until)
        context["wanted"] = wanted = search_in(request)
        context["most_turns"], context["turns"] = (
            MOST_TURNS,
            list(islice(find_turns(said, wanted), MOST_TURNS)) if wanted else (),
        )
    return respond(request, "runs/state/page.html", context, FRAGMENTS)


def _tree_context(request: HttpRequest, found: RunValues, value: Any, pointer: str) -> dict[str, Any]:
    text = request.GET.get("find", "").strip()[:200]
    hits, more = json_value.find(value, text) if text else ((), False)
    top = {"path": "", "find": "", "from": ""}
    labels = [(address(request, **top, what=name), label, name == found.part) for name, label in LABELS]
    return {
        "found": found,
        "labels": labels,
        "pointer": pointer,
        "trail": [(name, address(request, **{**top, "path": at})) for name, at in json_value.trail(pointer)],
        "top": address(request, **top),
        "find": text,
        "hits": [(hit, address(request, **{**top, "path": pointer + hit.pointer})) for hit in hits],
        "more_hits": more,
        "raw": address(request, **{"as": "json", "find": "", "from": ""}),
    }


def _pointer(request: HttpRequest) -> str:
    pointer = request.GET.get("path", "")[:4000]
    return pointer if pointer.startswith("/") else ""
