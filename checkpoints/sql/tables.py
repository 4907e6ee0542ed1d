"""The rows that scripts and the ORM both write: one builder per table, its columns in the order they are inserted.

Values are Python's: each writer converts documents to text, encrypts content and formats times itself. Columns filled
by the database's clock (``created``, ``updated``, ``at``) are in no row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, TypedDict

from checkpoints.content.chunks import bind_to_row
from checkpoints.ids import RequestId, RunId
from checkpoints.records import CheckpointInfo, Effect, Json, JsonObject, Phase, Request
from checkpoints.rules import Priority, facts_text, risk_of, row_of


@dataclass(frozen=True, kw_only=True, slots=True)
class UserTable:
    """The table of the project's user model, its key, and the column with a person's name; each as SQL writes it."""

    table: str = "auth_user"
    key: str = "id"
    name: str = "username"

    @property
    def join(self) -> str:
        """The join from an answer ``a`` to its author ``u``."""
        return f" LEFT JOIN {self.table} u ON u.{self.key}=a.by_id"

    @property
    def named(self) -> str:
        """The key of the person with a name."""
        return f"(SELECT {self.key} FROM {self.table} WHERE {self.name}=?)"  # noqa: S608, the names are the model's


INFO = tuple(CheckpointInfo.model_fields)
"""A checkpoint's metadata, by the record's names."""
CHECKPOINT = (*("run_id" if name == "run" else name for name in INFO), "body")
"""A checkpoint's columns: its metadata, then its content."""
CHECKPOINT_VALUES = itemgetter(*INFO, "body")
"""Takes their values from what ``checkpoint_row`` returns."""


def checkpoint_row(info: CheckpointInfo, payload: bytes, **counted: int) -> dict[str, Any]:
    """Return a checkpoint's row, by the record's names and maybe with more than its columns.

    ``counted`` is what the storage says of it: ``size``, ``seq``, ``waiting``.
    """
    row = vars(info) | counted
    row["reason"] = info.reason._value_
    row["facts"] = facts_text(info.facts)
    row["body"] = bind_to_row(payload, row_of(info))
    return row


def copied(origin: CheckpointInfo, **changes: Any) -> CheckpointInfo:
    """Return the metadata of a new checkpoint with another one's content, except for ``changes``."""
    return origin.model_copy(update={"parent": origin.id, "label": None, "clean": True, "flaw": "", **changes})


class RunRow(TypedDict):
    """A run before its first commit."""

    id: RunId
    workflow: str
    version: str
    engine: str
    title: str
    phase: str
    seq: int
    n: int
    epoch: int
    attempts: int
    family: str
    forked_from: str | None
    acted_by: str
    for_workers: bool
    priority: int


def run_row(
    run: RunId,
    *,
    workflow: str = "",
    version: str = "",
    engine: str = "native",
    title: str = "",
    n: int = 0,
    family: str | None = None,
    forked_from: str | None = None,
    for_workers: bool = True,
    priority: Priority = Priority.STARTED,
) -> RunRow:
    """Return a new run's row: ready since it was created, unclaimed, of a family of its own unless it is forked."""
    return {
        "id": run,
        "workflow": workflow,
        "version": version,
        "engine": engine,
        "title": title,
        "phase": Phase.READY.value,
        "seq": 0,
        "n": n,
        "epoch": 0,
        "attempts": 0,
        "family": family or run,
        "forked_from": forked_from,
        "acted_by": "",
        "for_workers": for_workers,
        "priority": priority.value,
    }


class RequestRow(TypedDict):
    """An open question."""

    id: RequestId
    run_id: str
    key: str
    workflow: str
    step: str
    kind: str
    card: JsonObject
    answer_schema: JsonObject
    by: list[str]
    not_by: list[str]
    due: datetime | None
    policy: JsonObject
    alarm: datetime | None
    risk: int


def request_row(id_: RequestId, run: str, workflow: str, request: Request) -> RequestRow:
    """Return the row of a request that opens."""
    return {
        "id": id_,
        "run_id": run,
        "key": request.key,
        "workflow": workflow,
        "step": request.step,
        "kind": request.kind,
        "card": request.card,
        "answer_schema": request.answer_schema,
        "by": list(request.by),
        "not_by": list(request.not_by),
        "due": request.due,
        "policy": request.policy,
        "alarm": request.alarm,
        "risk": risk_of(request.card),
    }


EVENT = ("run_id", "seq", "kind", "step", "data")
"""An event's columns."""


def event_row(run: str, seq: int, kind: str, step: str | None, data: Any) -> tuple[Any, ...]:
    """Return an event's row in the order of its columns; ``data`` as a document, or as its text."""
    return run, seq, kind, step, data


class EffectRow(TypedDict):
    """A recorded call."""

    run_id: str
    key: str
    step: str
    name: str
    once: bool
    state: str
    result: Json
    n: int


def effect_row(run: str, effect: Effect, n: int) -> EffectRow:
    """Return the row of a call that was recorded at checkpoint ``n``."""
    return {
        "run_id": run,
        "key": effect.key,
        "step": effect.step,
        "name": effect.name,
        "once": effect.once,
        "state": effect.state,
        "result": effect.result,
        "n": n,
    }


RUN, REQUEST, EFFECT = (tuple(row.__annotations__) for row in (RunRow, RequestRow, EffectRow))
"""Columns of the other tables."""
