"""The graph of one run: what steps are doing, their durations and retries; sub-workflows and similar steps folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from wfdash.contract import Description
from wfdash.pages.runs.intervals import Intervals, length, total_busy, union
from wfdash.pages.ui.graph import Drawing, RunOverlay, closing, fold, layout, opening, travelled
from wfdash.pages.ui.times import duration
from wfdash.queries.history.step_states import OPEN, StepTransition
from wfdash.queries.runs.listing import RunView
from wfdash.records.checkpoints import StateCounts

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
