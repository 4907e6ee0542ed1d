"""Verbs of being away: name somebody who decides meanwhile, and come back."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Absence
from checkpoints.orm import write
from wfdash.access import Viewer
from wfdash.desk import audit
from wfdash.errors import Invalid, NotFound

LONGEST = timedelta(days=366)


def set_absence(viewer: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Be away from ``since`` to ``until``: meanwhile ``delegate`` (a user name) may answer what is addressed to you.

    They still need the right to answer requests of the workflow. ``Invalid`` at ``delegate``, ``since`` or ``until``.
    """
    with write():
        person = User.objects.filter(username=delegate, is_active=True).first()
        problems = [*_no_delegate(viewer, person), *_no_time(since, until)]
        if problems or person is None:
            raise Invalid(problems)
        overlap = Absence.objects.filter(user=viewer.user, since__lt=until, until__gt=since)
        if overlap.exists():
            raise Invalid([{"loc": ["since"], "msg": "You are away then already: end that first"}])
        absence = Absence.objects.create(user=viewer.user, delegate=person, since=since, until=until)
        told = {"delegate": delegate, "since": since.isoformat(), "until": until.isoformat()}
        audit.record(viewer, "away", facts=told)
    return absence


def end_absence(viewer: Viewer, absence_id: int) -> None:
    """Be back: an absence that has begun ends now, one to come is dropped. ``NotFound`` if it is over, or not yours."""
    with write():
        now = timezone.now()
        absence = Absence.objects.filter(user=viewer.user, pk=absence_id, until__gt=now).first()
        if absence is None:
            raise NotFound("You have no such absence that could be ended")
        if absence.since >= now:
            absence.delete()
        else:
            Absence.objects.filter(pk=absence.pk).update(until=now)
        audit.record(viewer, "back", facts={"delegate": absence.delegate.get_username()})


def _no_delegate(viewer: Viewer, person: User | None) -> list[dict[str, object]]:
    if person is None:
        return [{"loc": ["delegate"], "msg": "There is nobody of that name"}]
    if person == viewer.user:
        return [{"loc": ["delegate"], "msg": "Name somebody else"}]
    return []


def _no_time(since: datetime, until: datetime) -> list[dict[str, object]]:
    if until <= since:
        return [{"loc": ["until"], "msg": "The end must be after the beginning"}]
    if until <= timezone.now():
        return [{"loc": ["until"], "msg": "This is over already"}]
    if until - since > LONGEST:
        return [{"loc": ["until"], "msg": "A year is the longest"}]
    return []
