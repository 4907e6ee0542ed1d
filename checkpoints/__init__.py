"""The storage layer of wfdash: everything about a run that survives a restart.

What a program needs can be imported from here: storages, manager, ids, records, errors. Nothing is loaded before.

The pure half (``ids``, ``errors``, ``records``, ``storage``, ``content``, ``manager``, ``memory``, ``file``) works
without Django; the other half is a Django app that gives the same guarantees in a database. ``Record.trusted`` of
``records`` makes a record of what is known to be right, without a check. ``orm`` is the public name of
``DatabaseStorage``, and ``agent_framework`` the framework's own ``CheckpointStorage`` over any of our storages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkpoints.config import CheckpointConfig
    from checkpoints.errors import (
        AlreadyAnswered,
        CheckpointsError,
        ClaimLost,
        Conflict,
        Damaged,
        Incompatible,
        InvalidConfig,
        InvalidValue,
        NotFound,
        StorageFailed,
        Unsupported,
    )
    from checkpoints.file import FileStorage
    from checkpoints.ids import CheckpointId, RequestKey, RunId, WorkflowId, new_run_id
    from checkpoints.manager import CheckpointManager
    from checkpoints.memory import MemoryStorage
    from checkpoints.records import Answer, Checkpoint, CheckpointFilter, CheckpointInfo, Phase, Request, RunInfo
    from checkpoints.storage import CheckpointStorage

__all__ = [
    "AlreadyAnswered",
    "Answer",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointFilter",
    "CheckpointId",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointStorage",
    "CheckpointsError",
    "ClaimLost",
    "Conflict",
    "Damaged",
    "FileStorage",
    "Incompatible",
    "InvalidConfig",
    "InvalidValue",
    "MemoryStorage",
    "NotFound",
    "Phase",
    "Request",
    "RequestKey",
    "RunId",
    "RunInfo",
    "StorageFailed",
    "Unsupported",
    "WorkflowId",
    "new_run_id",
]


def __getattr__(name: str) -> object:
    """Return a name of ``__all__`` from the module that defines it."""
    if name in __all__:
        for home in ("ids", "errors", "records", "storage", "config", "manager", "memory", "file"):
            if found := vars(import_module(f"{__name__}.{home}")).get(name):
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
