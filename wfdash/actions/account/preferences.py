"""What a person sets for themselves: saved views, absence, notifications, looks. Everyone changes only their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, time, timedelta

from django.db import IntegrityError
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic
from checkpoints.database.storage import write
from checkpoints.limits import findable
from checkpoints.models import Absence, Notice, Preference, SavedView
from checkpoints.models.user_model import User, has_name
from checkpoints.records import Json
from wfdash import pubsub
from wfdash.access.administration import refuse_narrow
from wfdash.access.directory import colleagues, is_service
from wfdash.access.viewer import Viewer
from wfdash.actions import audit, pacing
from wfdash.domain.cron import known_zones
from wfdash.domain.errors import Invalid, NotFound, WrongState
from wfdash.notifications.preferences import BROWSER, DIGESTS, KINDS, PERSONAL, Preferences, read_time
from wfdash.values.schemas.validate import Problem

# Saved views: save, change, delete. Only the owner changes one; sharing a view shares a filter, never a row.

MAX_SAVED_VIEWS = 100
"""Views one person may keep."""
LONGEST_NAME = 80
LONGEST_QUERY = 1000


def save_view(viewer: Viewer, name: str, query: str, *, page: str = "inbox", shared: bool = False) -> SavedView:
    """Save a filter (the query string of a list's address) under a name. ``Invalid`` for an invalid or a duplicate
    name.
    """
    refuse_narrow(viewer)
    name = _checked_name(name, query)
    with write():
        pacing.charge(viewer, "view")
        if SavedView.objects.filter(owner=viewer.user).count() >= MAX_SAVED_VIEWS:
            raise Invalid([{"loc": ["name"], "msg": f"You have {MAX_SAVED_VIEWS} views. Delete one first"}])
        try:
            with atomic():
                view = SavedView.objects.create(
                    id=ids.new_request_id(),
                    owner=viewer.user,
                    page=page,
                    name=name,
                    query=query,
                    shared=shared,
                    created=timezone.now(),
                )
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, None, view)
    return view


def change_view(viewer: Viewer, view_id: str, *, name: str, query: str | None = None, shared: bool = False) -> None:
    """Rename, share or unshare an own view, and with ``query`` change its filter. ``NotFound``, ``Invalid``."""
    refuse_narrow(viewer)
    name = _checked_name(name, query or "")
    changes: dict[str, str | bool] = {"name": name, "shared": shared}
    if query is not None:
        changes["query"] = query
    with write():
        pacing.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        try:
            with atomic():
                SavedView.objects.filter(pk=before.pk).update(**changes)
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, before, _own_view(viewer, view_id))


def delete_view(viewer: Viewer, view_id: str) -> None:
    """Delete an own view. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        SavedView.objects.filter(pk=before.pk).delete()
        _audit(viewer, before, None)


def _own_view(viewer: Viewer, view_id: str) -> SavedView:
    view = SavedView.objects.select_for_update().filter(pk=view_id, owner=viewer.user).first()
    if view is None:
        raise NotFound("View not found")
    return view


def _audit(viewer: Viewer, before: SavedView | None, after: SavedView | None) -> None:
    """Record in the audit what others can see from now on, or no longer."""
    shown = _facts(after) if after is not None and after.shared else None
    was = _facts(before) if before is not None and before.shared else None
    if shown is not None and shown != was:
        audit.record(viewer, "share view", facts=shown)
    elif was is not None and shown is None:
        audit.record(viewer, "unshare view", facts=was)


def _facts(view: SavedView) -> dict[str, str]:
    return {"view": view.pk, "page": view.page, "name": view.name, "query": view.query}


def _checked_name(name: str, query: str) -> str:
    name = " ".join(name.split()).replace("\0", "")
    if not name:
        raise Invalid([{"loc": ["name"], "msg": "Enter a name"}])
    if len(name) > LONGEST_NAME:
        raise Invalid([{"loc": ["name"], "msg": f"At most {LONGEST_NAME} characters"}])
    if len(query) > LONGEST_QUERY:
        raise Invalid([{"loc": ["query"], "msg": "This filter is too long to save"}])
    return name


def _duplicate_name(name: str) -> Invalid:
    return Invalid([{"loc": ["name"], "msg": f"You already have a view named {name}. Choose another name"}])


# Out of office: name a delegate for a period, and end it.

MAX_ABSENCE = timedelta(days=366)


def set_absence(viewer: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Create an absence from ``since`` to ``until``, during which ``delegate`` (a user name) may answer on this
    person's behalf.

    The delegate still needs the right to answer requests of the workflow. ``Invalid`` at ``delegate``, ``since`` or
    ``until``.
    """
    refuse_narrow(viewer)
    with write():
        absence = insert_absence(viewer, delegate, since, until)
        audit.record(viewer, "away", facts=facts_of(absence))
    return absence


def end_absence(viewer: Viewer, absence_id: int) -> None:
    """End an absence: one that has started ends now, a future one is deleted. ``NotFound`` if it is over or someone
    else's.
    """
    refuse_narrow(viewer)
    with write():
        absence = remove_absence(viewer.user, absence_id)
        audit.record(viewer, "back", facts={"delegate": absence.delegate.get_username()})


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
    if until - since > MAX_ABSENCE:
        return [{"loc": ["until"], "msg": "At most one year"}]
    return []


# How a person wants lists to look. These are personal settings, so they are not audited.


def set_columns(viewer: Viewer, page: str, columns: Sequence[str]) -> None:
    """Store which columns of a list this person sees."""
    _store(viewer, page, {"columns": list(columns)})


def set_density(viewer: Viewer, density: str) -> None:
    """Store how dense the rows of all lists are for this person."""
    _store(viewer, "density", density)


def dismiss_getting_started(viewer: Viewer) -> None:
    """Stop showing this person what an installation still lacks."""
    _store(viewer, "first_steps", "dismissed")


def _store(viewer: Viewer, name: str, value: Json) -> None:
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "look")
        Preference.objects.get_or_create(user=viewer.user)
        kept = Preference.objects.select_for_update().get(user=viewer.user)
        kept.looks = {**kept.looks, name: value}
        kept.save(update_fields=["looks"])


def set_preferences(
    viewer: Viewer,
    *,
    channels: Mapping[str, Collection[str]],
    zone: str,
    quiet: Sequence[str] = (),
    digest: str = "",
    digest_at: str = "08:00",
) -> Preferences:
    """Store a person's notification preferences. ``quiet``: from and to (``"22:00"``), or None.

    ``Invalid`` with errors per field.
    """
    refuse_narrow(viewer)
    problems: list[Problem] = []
    clocks = {name: _time(name, text, problems) for name, text in zip(("quiet_from", "quiet_to"), quiet, strict=False)}
    at = _time("digest_at", digest_at, problems)
    if zone not in known_zones():
        problems.append({"loc": ["zone"], "msg": "Unknown time zone. Use a name such as Europe/Berlin"})
    if digest not in DIGESTS:
        problems.append({"loc": ["digest"], "msg": "Select one of the list"})
    if problems:
        raise Invalid(problems)
    wishes = Preferences(
        channels={kind: frozenset(chosen) & frozenset(PERSONAL) for kind, chosen in channels.items() if kind in KINDS},
        zone=zone,
        quiet=(clocks["quiet_from"], clocks["quiet_to"]) if len(clocks) == 2 else None,
        digest=digest,
        digest_at=at,
    )
    with write():
        Preference.objects.update_or_create(user=viewer.user, defaults={"data": wishes.stored()})
    return wishes


def read_notices(viewer: Viewer, ids: Sequence[str] | None = None, *, request: str = "") -> int:
    """Mark a person's notifications as read: the given ones, those of a request, or all. Returns how many were
    unread.
    """
    refuse_narrow(viewer)
    mine = Notice.objects.filter(user=viewer.user, channel=BROWSER, read__isnull=True)
    if ids is not None:
        mine = mine.filter(pk__in=list(ids))
    if request:
        mine = mine.filter(request_id=request)
    if not mine.exists():
        return 0
    with write():
        count = mine.update(read=timezone.now())
    pubsub.notifications_changed.publish(viewer.user.pk)
    return count


def _time(name: str, text: str, problems: list[Problem]) -> time:
    try:
        return read_time(text)
    except ValueError:
        problems.append({"loc": [name], "msg": "Enter a time such as 22:00"})
        return time()
