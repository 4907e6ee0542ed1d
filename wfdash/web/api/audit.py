"""The API of the audit log: list, read and export it, and its newest hash."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Router

from wfdash.actions.runs.bulk import record_export
from wfdash.queries.audit import audit_head, check_export, entries_of_run, pack, read_entries, read_entry, read_evidence
from wfdash.records.audit import AuditDetail, AuditExport, AuditPage, SignedHeadRecord
from wfdash.web.api.params import Cursor, Limit, viewer_of

router = Router()


@router.get("/audit", response=AuditPage)
def list_audit(request: HttpRequest, q: str = "", after: str = "", limit: Limit = 50) -> Any:
    """Return audit entries, newest first; ``q`` is the filter language of the page."""
    return read_entries(viewer_of(request), q, cursor=after, limit=limit)


@router.get("/audit/head", response=SignedHeadRecord)
def get_audit_head(request: HttpRequest) -> Any:
    """Return number and hash of the newest entry, for admins of every workflow. ``wfdash verify`` checks the chain."""
    return audit_head(viewer_of(request))


@router.get("/audit/export", response=AuditExport)
def export_audit(request: HttpRequest, q: str = "") -> Any:
    """Return the entries a filter finds with what was shown, as one document that ``wfdash verify`` checks. It is
    audited.
    """
    viewer, now = viewer_of(request), timezone.now()
    check_export(viewer, q)
    record_export(viewer, "audit", text=q, kind="json")
    return StreamingHttpResponse(pack(viewer, q, exported=now), content_type="application/json")


@router.get("/audit/{int:n}", response=AuditDetail)
def get_audit_entry(request: HttpRequest, n: int) -> Any:
    """Return one entry, with the card that the person was shown."""
    row = read_entry(viewer_of(request), n)
    shown = read_evidence(row)
    return {**vars(row), "card": shown.card if shown else None}


@router.get("/runs/{run_id}/audit", response=AuditPage)
def list_run_audit(request: HttpRequest, run_id: str, after: Cursor = "", limit: Limit = 50) -> Any:
    """Return the entries about a run, oldest first."""
    rows = entries_of_run(viewer_of(request), run_id, end=limit + 1, after=int(after or 0))
    return {"items": rows[:limit], "next": str(rows[limit - 1].n) if len(rows) > limit else ""}
