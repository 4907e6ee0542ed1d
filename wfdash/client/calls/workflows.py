"""Calls about workflows, and about who is asking."""

from __future__ import annotations

from typing import Any

from wfdash.client.script import Script
from wfdash.client.sending import get, part, post
from wfdash.records import CheckedMessage, Me, WorkflowDetail, WorkflowPage, WorkflowSummary


def workflows(filter: str = "") -> Script[list[WorkflowSummary]]:  # noqa: A002
    """Return the workflows that are loaded, and those of which only runs are left."""
    return WorkflowPage.model_validate((yield from get("/workflows", q=filter))).items


def workflow(name: str) -> Script[WorkflowDetail]:
    """Return a workflow with its steps and edges, and the schemas of what it takes and gives."""
    return WorkflowDetail.model_validate((yield from get(f"/workflows/{part(name)}")))


def check(workflow: str, message: Any = None) -> Script[Any]:
    """Check a message as a start would, and start nothing. Returns it as a run would receive it."""
    found = yield from post("/runs/check", {"workflow": workflow, "message": message})
    return CheckedMessage.model_validate(found).message


def me() -> Script[Me]:
    """Return who is asking, and what they may do."""
    return Me.model_validate((yield from get("/me")))
