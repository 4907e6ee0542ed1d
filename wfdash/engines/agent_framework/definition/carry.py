"""Checkpoints of an older graph under the current one. The framework has no migrations: an operator decides."""

from __future__ import annotations

from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.records import Checkpoint
from wfdash.contract import Carried, Description
from wfdash.domain.graph_diff import compare
from wfdash.engines.agent_framework.definition.definitions import executors_of
from wfdash.engines.agent_framework.library import is_function
from wfdash.engines.agent_framework.stored.framework_checkpoint import steps_in
from wfdash.engines.agent_framework.stored.position import position_in


def carry(
    workflow: Any, now: Description, checkpoint: Checkpoint, old: Description | None, *, override: bool
) -> Carried:
    """Return the checkpoint's content under the current graph, unchanged. ``Incompatible`` without ``override``.

    With it, too, if a step is gone that the checkpoint holds something of: the framework would not read it.
    """
    position_in(checkpoint)
    if not override:
        words = compare(old, now).summary if old is not None else ""
        raise Incompatible(
            "The workflow changed since this run started"
            + (f": {words}" if words else "")
            + ". Agent Framework has no migrations: bring its old code back, or continue it on the current version"
        )
    have = executors_of(workflow)
    gone = [] if is_function(workflow) else sorted({name for name in steps_in(checkpoint.body) if name not in have})
    if gone:
        raise Incompatible(f"The checkpoint holds the state of {', '.join(gone)}, which the workflow no longer has")
    return Carried(how="override", body=checkpoint.body, requests=checkpoint.requests)
