"""Runs that follow a finished one: which of their checkpoints still waits for the follow-up message."""

from __future__ import annotations

from checkpoints.records import CheckpointInfo, Json

MESSAGE_DUE = "follow_up"
"""The fact of a checkpoint that ends one run and begins the next, until that has been given its message."""


def with_message_due(facts: dict[str, Json]) -> dict[str, Json]:
    """Return the facts of a finished run's checkpoint as those of the first one of the run that follows it."""
    return {**facts, MESSAGE_DUE: True}


def is_message_due(checkpoint: CheckpointInfo) -> bool:
    """Return whether a run continues from this checkpoint by its own message.

    Restoring, forking and editing keep facts, so a run that is taken back to there gets its message again.
    """
    return checkpoint.facts.get(MESSAGE_DUE) is True
