"""The audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wfdash.records.base import ApiRecord


class AuditRecord(ApiRecord):
    """An entry: who did what by which right. ``hash`` chains it to the entry before, whose hash is ``prev``."""

    n: int
    at: datetime
    actor: str
    right: str
    verb: str
    workflow: str
    run: str
    request: str
    facts: dict[str, Any]
    prev: str
    hash: str
    signature: str


class AuditPage(ApiRecord):
    """A page of the log, newest first; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only entries newer than this were scanned yet.
    """

    items: list[AuditRecord]
    next: str = ""
    reached: datetime | None = None


class AuditDetail(AuditRecord):
    """An entry with the card that the person was shown; null where nothing was."""

    card: dict[str, Any] | None = None


class AuditHeadRecord(ApiRecord):
    """The newest entry's number and hash. Keep them elsewhere: a log that was cut short no longer ends there."""

    n: int
    hash: str


class AuditExport(ApiRecord):
    """A signed document of the entries that a filter finds, oldest first. ``wfdash verify`` checks it."""

    format: str
    exported: datetime
    by: str
    filter: str
    scope: str
    """``all``, or whose part of the log it is."""
    whole: bool
    """It has every entry of the log."""
    head: AuditHeadRecord | None
    """The newest entry when it was exported."""
    entries: list[AuditRecord]
    shown: dict[str, str]
    """What people were shown, as JSON texts by the hash that entries name it by."""
    signature: str
