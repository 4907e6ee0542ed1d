"""The statement that lists a run's checkpoints, by a filter."""

from __future__ import annotations

from typing import Any

from checkpoints.records import CheckpointFilter
from checkpoints.sql.statements import METADATA, Dialect, Statement

CONDITIONS = {
    "step": "step=?",
    "reason": "reason=?",
    "clean": "clean=?",
    "has_request": ("waiting=0", "waiting>0"),
    "labelled": ("label IS NULL", "label IS NOT NULL"),
    "label": "label=?",
    "since": "created>=?",
    "until": "created<?",
}
"""The SQL of each field of a ``CheckpointFilter``; a pair is that of false and true, without a parameter."""


def list_checkpoints(dialect: Dialect, run: str, before: int, limit: int, where: CheckpointFilter) -> Statement:
    """Return the statement that lists a run's metadata, newest first."""
    conditions = ["run_id=?", "n < ?"]
    parameters: list[Any] = [run, before]
    for name, condition in CONDITIONS.items():
        value = getattr(where, name)
        if value is not None:
            conditions.append(condition if isinstance(condition, str) else condition[value])
        if value is not None and isinstance(condition, str):
            parameters.append(dialect.parameter(value))
    wanted = " AND ".join(conditions)
    sql = dialect.sql(f"SELECT {METADATA} FROM checkpoints_checkpoint WHERE {wanted} ORDER BY n DESC LIMIT ?")
    return sql, (*parameters, limit)
