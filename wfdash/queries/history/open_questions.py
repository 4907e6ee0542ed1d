"""Which questions of a step's activations are open, by a run's events: a step whose last one is answered runs. Pure.

No engine records that a step continues after an answer: it started once, before it asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from checkpoints.events import EventKind
from wfdash.queries.history.idle_periods import RESUMING, STOPPED, STOPPING
from wfdash.queries.history.step_outcomes import StepTransition

OPENED = EventKind.REQUEST_OPENED
ANSWERED = frozenset({EventKind.REQUEST_ANSWERED, EventKind.SIGNAL_RECEIVED})
QUESTION_EVENTS = (OPENED, *sorted(ANSWERED), EventKind.REQUEST_WITHDRAWN)


class OpenQuestions:
    """The questions that the events so far leave open, by activation. Only engines name the activation that asks."""

    def __init__(self, transitions: Iterable[StepTransition]) -> None:
        self._askers: dict[str, str] = {}
        self._open: set[str] = set()
        for item in transitions:
            if item.question:
                self._note(item)

    def take(self, transitions: list[StepTransition], marker: StepTransition) -> None:
        """Append the marker of a question's event, and that its step runs again if that was its last answer.

        While the run is idle the step is stopped instead, and runs once the run is resumed.
        """
        transitions.append(marker)
        self._note(marker)
        asker = self._askers.get(marker.question)
        if marker.state not in ANSWERED or asker is None or self._is_asking(asker):
            return
        last = next((item for item in reversed(transitions) if item.step and item.activation == asker), None)
        if last is not None and last.state == "waiting":
            transitions.append(_continued(last, marker.at, idle=_is_idle(transitions)))

    def _note(self, marker: StepTransition) -> None:
        if marker.state == OPENED:
            self._open.add(marker.question)
            if marker.activation:
                self._askers[marker.question] = marker.activation
        else:
            self._open.discard(marker.question)

    def _is_asking(self, activation: str) -> bool:
        return any(self._askers.get(question) == activation for question in self._open)


def _continued(waiting: StepTransition, at: datetime, *, idle: bool) -> StepTransition:
    if idle:
        return replace(waiting, state=STOPPED, was="running", at=at)
    return replace(waiting, state="running", at=at)


def _is_idle(transitions: list[StepTransition]) -> bool:
    """Return whether the last event of the run that stops or resumes its steps stopped them."""
    moves = (item.state for item in reversed(transitions) if not item.step)
    return next((state in STOPPING for state in moves if state in STOPPING or state in RESUMING), False)
