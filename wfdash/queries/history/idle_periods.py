"""Idle periods of a run, in which no step runs whatever its last event was. Pure.

Steps record when they begin and end. Anything else that stops them (a pause, a cancellation, the failure of another
step, a restore, or a fork) is recorded as an event of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from checkpoints.events import EventKind
from wfdash.queries.history.step_outcomes import StepTransition

STOPPING = frozenset(
    {
        *(EventKind.RUN_PAUSED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED),
        *(EventKind.RUN_COMPLETED, EventKind.RUN_HELD),
    }
)
RESUMING = frozenset(
    {
        *(EventKind.RUN_RESUMED, EventKind.RUN_RETRIED, EventKind.RUN_RELEASED),
        *(EventKind.RUN_OVERRIDDEN, EventKind.RUN_MIGRATED),
    }
)
RUNNING = frozenset({"running", "retrying"})
OPEN = RUNNING | {"waiting", "sleeping"}
STOPPED = "stopped"


def stop_all(transitions: list[StepTransition], at: datetime, states: frozenset[str] = RUNNING) -> None:
    """Append a transition to stopped for every activation in one of these states."""
    transitions += [
        replace(item, state=STOPPED, was=item.state, at=max(at, item.at))
        for item in _last_in_states(transitions, states)
    ]


def resume_all(transitions: list[StepTransition], at: datetime) -> None:
    """Append, for every stopped activation, its return to the state before; one that awaited a retry runs."""
    stopped = _last_in_states(transitions, frozenset({STOPPED}))
    transitions += [
        replace(item, state="running" if item.was in RUNNING else item.was, was="", at=at) for item in stopped
    ]


def skip_gap(transitions: list[StepTransition], at: datetime) -> None:
    """Append that all were stopped between the last transition and this time: the run continued from there."""
    if transitions:
        stop_all(transitions, transitions[-1].at, OPEN)
        resume_all(transitions, at)


def undo_stop(transitions: list[StepTransition], step: str, activation: str) -> None:
    """Remove an activation's transition to stopped: it ended normally, which a pause allows."""
    for index in range(len(transitions) - 1, -1, -1):
        item = transitions[index]
        if (item.step, item.activation) == (step, activation):
            if item.state == STOPPED:
                del transitions[index]
            return


def _last_in_states(transitions: Iterable[StepTransition], states: frozenset[str]) -> list[StepTransition]:
    last = {(item.step, item.activation): item for item in transitions}
    return [item for item in last.values() if item.state in states]
