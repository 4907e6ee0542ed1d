"""The audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wfdash.records.base import UNREADABLE, ApiRecord, DescribedRecord, ScannedPage


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

    @property
    def subject(self) -> str:
        """The run, request or workflow it is about."""
        return str(self.facts.get("subject") or self.facts.get(UNREADABLE) or "")

    @property
    def token(self) -> str:
        """The name of the token that a program acted with; empty where a person did."""
        return str(self.facts.get("token") or "")


class AuditPage(ScannedPage[AuditRecord]):
    """A page of the log, newest first; ``next`` is the cursor of the next page, empty at the end.

    ``reached``: no index covers the filter, and only entries newer than this were scanned yet.
    """


class AuditDetail(AuditRecord):
    """An entry with the card that the person was shown; null where nothing was."""

    card: dict[str, Any] | None = None


class AuditHeadRecord(ApiRecord):
    """The newest entry's number and hash. Keep them elsewhere: a log that was cut short no longer ends there."""

    n: int
    hash: str


class SignedHeadRecord(AuditHeadRecord):
    """The newest entry with its signature by the key of the audit."""

    signature: str


class AuditExport(DescribedRecord):
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
    entries: tuple[AuditRecord, ...]
    shown: dict[str, str]
    """What people were shown, as JSON texts by the hash that entries name it by."""
    signature: str
