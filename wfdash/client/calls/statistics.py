"""Calls about statistics, and about what needs attention."""

from __future__ import annotations

from wfdash.client.script import Script
from wfdash.client.sending import get
from wfdash.records.statistics import OperationsRecord, StatisticsRecord


def statistics(*, days: int = 7, workflow: str = "") -> Script[StatisticsRecord]:
    """Return counts, durations and decisions of the last 1 to 30 days, and current counts."""
    return StatisticsRecord.model_validate((yield from get("/statistics", days=days, workflow=workflow)))


def operations(*, days: int = 1) -> Script[OperationsRecord]:
    """Return what needs attention in the workflows one operates: failures of the last 1 to 30 days, runs that are held
    or silent, overdue requests, workers.
    """
    return OperationsRecord.model_validate((yield from get("/operations", days=days)))
