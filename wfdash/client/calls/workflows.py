"""Calls about workflows, and about who is asking."""

from __future__ import annotations

from typing import Any

from wfdash.client.calls.paging import pages
from wfdash.client.script import Script
from wfdash.client.sending import ROOT, get, part, post
from wfdash.client.streams import Source, follow
from wfdash.records.account import Me
from wfdash.records.runs import WorkflowEvent
from wfdash.records.workflows import (
    CheckedMessage,
    SourceFilePage,
    SourceFileRecord,
    WorkflowDetail,
    WorkflowPage,
    WorkflowSummary,
)


def workflows(filter: str = "") -> Script[list[WorkflowSummary]]:  # noqa: A002
    """Return the workflows that are loaded, and those of which only runs are left."""
    return list(WorkflowPage.model_validate((yield from get("/workflows", q=filter))).items)


def workflow(name: str) -> Script[WorkflowDetail]:
    """Return a workflow with its steps and edges, and the schemas of what it takes and gives."""
    return WorkflowDetail.model_validate((yield from get(f"/workflows/{part(name)}")))


def workflow_events(name: str, *, after: str = "", most: int | None = None) -> Script[None]:
    """Emit the events of all runs of a workflow that have happened, in one order; ``after``: behind this cursor."""
    path = f"/workflows/{part(name)}/events"
    yield from pages(path, WorkflowEvent.model_validate, {"after": after}, most=most, limit=500)


def watch_workflow(name: str, *, after: str = "", patience: float | None = None) -> Script[None]:
    """Emit the events of all runs of a workflow as they happen, each once and in one order. It does not end.

    Begins with the first that is stored, with ``after`` behind the ``cursor`` of an event, or with what follows
    (``now``). Survives restarts of the server.
    """
    source = Source(path=f"{ROOT}/workflows/{part(name)}/events", read=WorkflowEvent.model_validate)
    yield from follow(source, after, patience=patience)


def code(name: str) -> Script[list[SourceFileRecord]]:
    """Return the Python files with a workflow's steps, as they were loaded."""
    return list(SourceFilePage.model_validate((yield from get(f"/workflows/{part(name)}/code"))).items)


def check(workflow: str, message: Any = None) -> Script[Any]:
    """Check a message as a start would, and start nothing. Returns it as a run would receive it."""
    found = yield from post("/runs/check", {"workflow": workflow, "message": message})
    return CheckedMessage.model_validate(found).message


def me() -> Script[Me]:
    """Return who is asking, and what they may do."""
    return Me.model_validate((yield from get("/me")))
