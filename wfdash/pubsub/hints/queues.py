"""The names of queues: one for each workflow."""

from __future__ import annotations

from hashlib import md5

LONGEST_NAME = 36
"""Bytes of a workflow's name in its queue's: Procrastinate notifies by a channel named after that, of 63 at most."""


def queue_of(workflow: str) -> str:
    """Return the name of the queue with a workflow's runs."""
    name = workflow.encode()
    return "run:" + (workflow if len(name) <= LONGEST_NAME else md5(name, usedforsecurity=False).hexdigest())
