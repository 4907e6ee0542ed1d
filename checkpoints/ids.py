"""Opaque, time-ordered identifiers.

Callers compare ids and hand them back; nobody parses, concatenates or sorts by them. Order inside a run
comes from ``Checkpoint.n`` and ``Event.seq``, which the storage assigns or checks.
"""

from __future__ import annotations

from typing import NewType

from uuid_utils import uuid7

WorkflowId = NewType("WorkflowId", str)
RunId = NewType("RunId", str)
CheckpointId = NewType("CheckpointId", str)
RequestId = NewType("RequestId", str)
RequestKey = NewType("RequestKey", str)


def new_run_id() -> RunId:
    """Return a fresh run id (UUIDv7 text, 36 characters)."""
    return RunId(str(uuid7()))


def new_checkpoint_id() -> CheckpointId:
    """Return a fresh checkpoint id (UUIDv7 text, 36 characters)."""
    return CheckpointId(str(uuid7()))


def new_request_id() -> RequestId:
    """Return a fresh request id (UUIDv7 text, 36 characters)."""
    return RequestId(str(uuid7()))


def new_token() -> str:
    """Return a fresh claim token: unique, unguessable enough to tell two claims apart."""
    return str(uuid7())
