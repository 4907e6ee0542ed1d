"""Out of office: name a delegate for a period, and end it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.limits import findable
from checkpoints.models import Absence
from checkpoints.models.user_model import User, has_name
from wfdash.access.administration import refuse_narrow
from wfdash.access.directory import colleagues, is_service
from wfdash.access.viewer import Viewer
from wfdash.actions.audit import entries
from wfdash.errors import Invalid, NotFound, WrongState

LONGEST = timedelta(days=366)


def set_absence(viewer: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Create an absence from ``since`` to ``until``, during which ``delegate`` (a user name) may answer on this
    person's behalf.

    The delegate still needs the right to answer requests of the workflow. ``Invalid`` at ``delegate``, ``since`` or
    ``until``.
    """
    refuse_narrow(viewer)
    with write():
        absence = insert_absence(viewer, delegate, since, until)
        entries.record(viewer, "away", facts=facts_of(absence))
    return absence


def end_absence(viewer: Viewer, absence_id: int) -> None:
    """End an absence: one that has started ends now, a future one is deleted. ``NotFound`` if it is over or someone
    else's.
    """
    refuse_narrow(viewer)
    with write():
        absence = remove_absence(viewer.user, absence_id)
        entries.record(viewer, "back", facts={"delegate": absence.delegate.get_username()})


def insert_absence(person: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Insert an absence of this person in the caller's transaction, which has to audit it. ``Invalid``; ``WrongState``
    for a service account: no one decides in the name of a program.
    """
    if is_service(person.user):
        raise WrongState(f"{person.name} is a service account. Only people can be out of office")
    own = delegate == person.name
    found = person.user if own else colleagues(person).filter(has_name(findable(delegate))).first()
    problems = [*_no_delegate(person, found), *_no_time(since, until)]
    if problems or found is None:
        raise Invalid(problems)
    if Absence.objects.filter(user=person.user, since__lt=until, until__gt=since).exists():
        raise Invalid([{"loc": ["since"], "msg": "Already out of office then. End that first"}])
    return Absence.objects.create(user=person.user, delegate=found, since=since, until=until)


def remove_absence(user: User, absence_id: int) -> Absence:
    """End or delete an absence of this person in the caller's transaction, which has to audit it. ``NotFound``."""
    now = timezone.now()
    absence = Absence.objects.filter(user=user, pk=absence_id, until__gt=now).first()
    if absence is None:
        raise NotFound("No such out-of-office period to end")
    if absence.since >= now:
        absence.delete()
    else:
        Absence.objects.filter(pk=absence.pk).update(until=now)
    return absence


def facts_of(absence: Absence) -> dict[str, str]:
    """Return what the audit keeps of an absence."""
    period = {"since": absence.since.isoformat(), "until": absence.until.isoformat()}
    return {"delegate": absence.delegate.get_username(), **period}


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
