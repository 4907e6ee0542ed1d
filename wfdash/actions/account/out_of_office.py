"""Out of office: name a delegate for a period, and end it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Absence
from wfdash.access.directory import colleagues
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.errors import Invalid, NotFound

LONGEST = timedelta(days=366)


def set_absence(viewer: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Create an absence from ``since`` to ``until``, during which ``delegate`` (a user name) may answer on this
    person's behalf.

    The delegate still needs the right to answer requests of the workflow. ``Invalid`` at ``delegate``, ``since`` or
    ``until``.
    """
    with write():
        own = delegate == viewer.name
        person = viewer.user if own else colleagues(viewer).filter(username=delegate).first()
        problems = [*_no_delegate(viewer, person), *_no_time(since, until)]
        if problems or person is None:
            raise Invalid(problems)
        overlap = Absence.objects.filter(user=viewer.user, since__lt=until, until__gt=since)
        if overlap.exists():
            raise Invalid([{"loc": ["since"], "msg": "You are already out of office then. End that first"}])
        absence = Absence.objects.create(user=viewer.user, delegate=person, since=since, until=until)
        facts = {"delegate": delegate, "since": since.isoformat(), "until": until.isoformat()}
        entries.record(viewer, "away", facts=facts)
    return absence


def end_absence(viewer: Viewer, absence_id: int) -> None:
    """End an absence: one that has started ends now, a future one is deleted. ``NotFound`` if it is over or someone
    else's.
    """
    with write():
        now = timezone.now()
        absence = Absence.objects.filter(user=viewer.user, pk=absence_id, until__gt=now).first()
        if absence is None:
            raise NotFound("No such out-of-office period to end")
        if absence.since >= now:
            absence.delete()
        else:
            Absence.objects.filter(pk=absence.pk).update(until=now)
        entries.record(viewer, "back", facts={"delegate": absence.delegate.get_username()})


def _no_delegate(viewer: Viewer, person: User | None) -> list[dict[str, object]]:
    if person is None:
        return [{"loc": ["delegate"], "msg": "No such user"}]
    if person == viewer.user:
        return [{"loc": ["delegate"], "msg": "Choose someone else"}]
    return []


def _no_time(since: datetime, until: datetime) -> list[dict[str, object]]:
    if until <= since:
        return [{"loc": ["until"], "msg": "The last day must not be before the first"}]
    if until <= timezone.now():
        return [{"loc": ["until"], "msg": "This period has already ended"}]
    if until - since > LONGEST:
        return [{"loc": ["until"], "msg": "At most one year"}]
    return []
