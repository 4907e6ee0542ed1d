"""Transitions of a step's activations. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StepTransition:
    """A state that an activation entered: running, done, failed, retrying, waiting, sleeping or stopped.

    ``run``, ``seq``: its event. ``until``: when a retry is due. ``skipped``: done without running, because its
    condition did not hold. ``stopped``: the run was idle.
    """

    step: str
    activation: str
    state: str
    at: datetime
    run: str = ""
    seq: int = 0
    until: datetime | None = None
    skipped: bool = False
    was: str = ""
    """The state before it stopped."""
    question: str = ""
    """The key of the question that it is about; then it is no state of a step, but a marker."""
