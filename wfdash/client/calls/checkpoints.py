"""Calls about checkpoints: look at them, compare, restore, fork."""

from __future__ import annotations

from typing import Any, Literal

from wfdash.client.script import Script
from wfdash.client.sending import delete, get, part, post
from wfdash.records.base import Created
from wfdash.records.checkpoints import CheckpointComparison, CheckpointDetail, CheckpointPage
from wfdash.records.time_machine import CheckpointPreview, EditableParts, ReplayRecord

Edits = dict[str, Any]
"""``state``, ``messages``, ``answers`` and ``reason``, as docs/time-machine.md describes them."""


def checkpoints(run_id: str, *, limit: int = 50, after: str = "") -> Script[CheckpointPage]:
    """Return a page of a run's checkpoints, newest first, without their content."""
    found = yield from get(f"/runs/{part(run_id)}/checkpoints", limit=limit, after=after)
    return CheckpointPage.model_validate(found)


def checkpoint(run_id: str, checkpoint_id: str) -> Script[CheckpointDetail]:
    """Return a checkpoint with its content."""
    return CheckpointDetail.model_validate((yield from get(_at(run_id, checkpoint_id))))


def compare(run_id: str, a: str, b: str) -> Script[CheckpointComparison]:
    """Return the differences from checkpoint ``a`` to ``b``: each a number in this run, or any checkpoint's id."""
    return CheckpointComparison.model_validate((yield from get(f"/runs/{part(run_id)}/compare", a=a, b=b)))


def preview(
    run_id: str, checkpoint_id: str, *, verb: Literal["restore", "fork"] = "restore", edits: Edits | None = None
) -> Script[CheckpointPreview]:
    """Return what restoring or forking would do. Changes nothing. ``mark`` in it is what ``seen`` takes."""
    body = {"verb": verb, "edits": edits}
    return CheckpointPreview.model_validate((yield from post(f"{_at(run_id, checkpoint_id)}/preview", body)))


def editable(run_id: str, checkpoint_id: str) -> Script[EditableParts]:
    """Return what ``edits`` may change of a checkpoint: state, messages in progress, requests; or why nothing may."""
    return EditableParts.model_validate((yield from get(f"{_at(run_id, checkpoint_id)}/edits")))


def replay(run_id: str, seq: int) -> Script[ReplayRecord]:
    """Return a run as it was after event ``seq``. Nothing runs."""
    return ReplayRecord.model_validate((yield from get(f"/runs/{part(run_id)}/at/{part(seq)}")))


def restore(run_id: str, checkpoint_id: str, *, edits: Edits | None = None, seen: str = "") -> Script[Created]:
    """Make a checkpoint the run's head again, and continue the run from there. Returns the new head.

    No one has to resume it: where a question was open, it is open again and the run waits for its answer.
    """
    body = {"edits": edits, "seen": seen}
    return Created.model_validate((yield from post(f"{_at(run_id, checkpoint_id)}/restore", body)))


def fork(run_id: str, checkpoint_id: str, *, edits: Edits | None = None, seen: str = "") -> Script[Created]:
    """Start a new run from a checkpoint and return its id."""
    body = {"edits": edits, "seen": seen}
    return Created.model_validate((yield from post(f"{_at(run_id, checkpoint_id)}/fork", body)))


def label(run_id: str, checkpoint_id: str, text: str) -> Script[Created]:
    """Set a checkpoint's label, or remove it with an empty one."""
    return Created.model_validate((yield from post(f"{_at(run_id, checkpoint_id)}/label", {"label": text})))


def delete_checkpoint(run_id: str, checkpoint_id: str) -> Script[None]:
    """Delete a checkpoint that is not needed."""
    yield from delete(_at(run_id, checkpoint_id))


def _at(run_id: str, checkpoint_id: str) -> str:
    return f"/runs/{part(run_id)}/checkpoints/{part(checkpoint_id)}"
