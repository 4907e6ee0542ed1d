"""The API of absences: who answers for you while you are away."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from wfdash.actions.account import out_of_office
from wfdash.actions.account.out_of_office import set_absence
from wfdash.api.auth import viewer_of
from wfdash.api.once import once
from wfdash.api.params import Number
from wfdash.queries.requests.collaboration import read_absences
from wfdash.records.account import AbsencePage, SetAbsence
from wfdash.records.base import Created

router = Router()


@router.get("/absences", response=AbsencePage)
def list_absences(request: HttpRequest) -> Any:
    """Return your absences, and those in which you are the delegate."""
    mine, others = read_absences(viewer_of(request))
    return {"items": [*mine, *others]}


@router.post("/absences", response={201: Created})
def create_absence(request: HttpRequest, given: SetAbsence) -> Any:
    """Name a delegate for a time. 422 at ``delegate``, ``since`` or ``until``."""
    viewer = viewer_of(request)

    def act() -> dict[str, Any]:
        return {"id": str(set_absence(viewer, given.delegate, given.since, given.until).pk)}

    return Status(201, once(request, "away", given.model_dump(mode="json"), act))


@router.post("/absences/{absence_id}/end", response={204: None})
def end_absence(request: HttpRequest, absence_id: Number) -> Any:
    """End an absence now; one that has not started is deleted. 404 once it is over."""
    once(request, "back", [absence_id], lambda: out_of_office.end_absence(viewer_of(request), absence_id))
    return Status(204, None)
