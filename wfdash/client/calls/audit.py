"""Calls about the audit log."""

from __future__ import annotations

from wfdash.client.calls.paging import pages
from wfdash.client.errors import Unreachable
from wfdash.client.script import Emit, Exchange, NoResponse, Open, ReadPiece, Script
from wfdash.client.sending import ROOT, get, part, replied
from wfdash.records.audit import AuditDetail, AuditHeadRecord, AuditPage, AuditRecord

EXPORT_SILENCE = 300.0
"""Seconds that the server may need before an export begins, or between two pieces of it."""


def audit(filter: str = "", *, limit: int = 50, after: str = "") -> Script[AuditPage]:  # noqa: A002
    """Return a page of the audit log, newest first. ``filter``: as on the page, ``actor:ana verb:restore``."""
    return AuditPage.model_validate((yield from get("/audit", q=filter, limit=limit, after=after)))


def all_audit(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the audit entries that a filter finds, newest first, page by page."""
    yield from pages("/audit", AuditRecord.model_validate, {"q": filter}, most=most)


def audit_entry(n: int) -> Script[AuditDetail]:
    """Return an audit entry with the card that the person was shown."""
    return AuditDetail.model_validate((yield from get(f"/audit/{n}")))


def audit_of_run(run_id: str) -> Script[list[AuditRecord]]:
    """Return every audit entry about a run, oldest first. They stay when the run is deleted."""
    return list(AuditPage.model_validate((yield from get(f"/runs/{part(run_id)}/audit"))).items)


def audit_head() -> Script[AuditHeadRecord]:
    """Return number and hash of the newest audit entry, to be kept elsewhere. For admins of every workflow."""
    return AuditHeadRecord.model_validate((yield from get("/audit/head")))


def export_audit(filter: str = "") -> Script[None]:  # noqa: A002
    """Emit the bytes of an export: one JSON document with what a filter finds, which ``wfdash verify`` checks.

    The export is an entry of the audit log, too. ``Unreachable`` if the connection breaks: what has come is then only
    a part.
    """
    exchange = Exchange(method="GET", path=f"{ROOT}/audit/export", query={"q": filter}, timeout=EXPORT_SILENCE)
    yield from replied(Open(exchange), None)
    while piece := (yield ReadPiece()):
        if isinstance(piece, NoResponse):
            raise Unreachable(piece.why)
        yield Emit(piece)
