"""The API of workflows: the catalogue, and one workflow with its graph and schemas."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router

from wfdash import queries
from wfdash.api.auth import viewer_of
from wfdash.records import WorkflowDetail, WorkflowPage

router = Router()


@router.get("/workflows", response=WorkflowPage)
def list_workflows(request: HttpRequest, q: str = "") -> Any:
    """Return the catalogue by title, all of it; ``q`` is the filter language of its page."""
    return {"items": queries.matching(queries.workflows(viewer_of(request)), q)}


@router.get("/workflows/{path:name}", response=WorkflowDetail)
def get_workflow(request: HttpRequest, name: str) -> Any:
    """Return a workflow with its graph, its versions, and the schemas of what it takes and gives."""
    viewer = viewer_of(request)
    row = queries.workflow(viewer, name)
    versions = [{**vars(one), "changes": one.words} for one in queries.versions(viewer, row.name)]
    described = {**vars(row.description), **vars(row), "active": row.active, "failed": row.failed, "title": row.title}
    return {**described, "versions": versions}
