"""The API of absences: who answers for you while you are away."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash import actions, queries
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.api.params import Number
from wfdash.records import AbsencePage, Created, SetAbsence

router = Router()


@router.get("/absences", response=AbsencePage)
def list_absences(request: HttpRequest) -> Any:
    """Return your absences, and those in which you are the delegate."""
    mine, others = queries.absences(viewer_of(request))
    return {"items": [*mine, *others]}


@router.post("/absences", response={201: Created})
def create_absence(request: HttpRequest, given: SetAbsence) -> Any:
    """Name a delegate for a time. 422 at ``delegate``, ``since`` or ``until``."""
    viewer = viewer_of(request)

    def act() -> dict[str, Any]:
        return {"id": str(actions.set_absence(viewer, given.delegate, given.since, given.until).pk)}

    return Status(201, once(request, "away", given.model_dump(mode="json"), act))


@router.post("/absences/{absence_id}/end", response={204: None})
def end_absence(request: HttpRequest, absence_id: Number) -> Any:
    """End an absence now; one that has not started is deleted. 404 once it is over."""
    once(request, "back", [absence_id], lambda: actions.end_absence(viewer_of(request), absence_id))
    return Status(204, None)
