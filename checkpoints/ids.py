"""Opaque, time-ordered identifiers.

Callers compare ids and pass them back; they never parse, concatenate or sort them. Order inside a run comes from
``Checkpoint.n`` and ``Event.seq``, which the storage assigns or checks.
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
    """Return a new run id (UUIDv7 text, 36 characters)."""
    return RunId(str(uuid7()))


def new_checkpoint_id() -> CheckpointId:
    """Return a new checkpoint id (UUIDv7 text, 36 characters)."""
    return CheckpointId(str(uuid7()))


def new_request_id() -> RequestId:
    """Return a new request id (UUIDv7 text, 36 characters)."""
    return RequestId(str(uuid7()))


def new_token() -> str:
    """Return a new claim token: unique, and unguessable enough to distinguish two claims."""
    return str(uuid7())
