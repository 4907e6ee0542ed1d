"""The API of statistics, and of what needs attention."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router
from pydantic import Field

from wfdash.domain.errors import NotAllowed
from wfdash.queries.statistics.figures import read_statistics
from wfdash.queries.statistics.operations import read_operations
from wfdash.records.statistics import OperationsRecord, StatisticsRecord
from wfdash.web.api.params import viewer_of

router = Router()
Days = Annotated[int, Field(ge=1, le=30)]


@router.get("/statistics", response=StatisticsRecord)
def get_statistics(request: HttpRequest, days: Days = 7, workflow: str = "") -> Any:
    """Return counts, durations and decisions of the last days (1: of the last 24 hours), in UTC, and current counts."""
    return read_statistics(viewer_of(request), days, workflow)


@router.get("/operations", response=OperationsRecord)
def get_operations(request: HttpRequest, days: Days = 1) -> Any:
    """Return what needs attention in the workflows you operate: failures of the last days, held and silent runs,
    overdue requests, workers.
    """
    viewer = viewer_of(request)
    if not viewer.may_anywhere("operate"):
        raise NotAllowed("You operate no workflow. Ask an admin of the workflow")
    return read_operations(viewer, timedelta(days=days))
