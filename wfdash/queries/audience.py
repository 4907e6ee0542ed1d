"""Whose request it is, as filters: the resolver's rules (``Viewer.right_for``) said in SQL."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from checkpoints.models import Reply, Run
from wfdash.access import Viewer
from wfdash.queries.names import NamesAny, NamesNobody

NOBODY = Q(pk__in=[])
ASSIGNEE = Coalesce("assignee_id", 0)
"""Not the bare column: SQLite would go by its index, and then read every row it finds, card and all."""


def may_answer(viewer: Viewer) -> Q:
    """Return the filter of requests this person may answer: role, ``by``, ``not_by``, those they stand in for."""
    return viewer.scope("answer") & (_addressed(viewer) | assigned_to(viewer)) & ~_excluded(viewer, viewer.name)


def through_groups(viewer: Viewer) -> Q:
    """Return the filter of requests addressed to a group of theirs, or of those they stand in for."""
    groups = viewer.groups.union(*(absent.groups for absent in viewer.stands_for))
    return Q(NamesAny("by", groups)) if groups else NOBODY


def assigned_to(viewer: Viewer) -> Q:
    """Return the filter of requests assigned to them."""
    return Q(Exact(ASSIGNEE, viewer.user.pk)) if viewer.user.pk is not None else NOBODY


def unassigned(viewer: Viewer) -> Q:
    """Return the filter of requests that nobody has taken."""
    return Q(Exact(ASSIGNEE, 0))


def free_for(viewer: Viewer) -> Q:
    """Return the filter of requests that no third person has taken."""
    absent = [principal.name for principal in viewer.stands_for]
    free = unassigned(viewer) | assigned_to(viewer)
    return free | Q(assignee__username__in=absent) if absent else free


def unspoken_by(viewer: Viewer) -> Q:
    """Return the filter of requests of which they are not one of several who have said their word."""
    if viewer.user.pk is None:
        return Q(pk__isnull=False)
    return ~Q(Exists(Reply.objects.filter(request=OuterRef("pk"), by_id=viewer.user.pk, undone__isnull=True)))


def asked_back_of(viewer: Viewer) -> Q:
    """Return the filter of requests that wait for their word: their run, or that of those they stand in for."""
    started = _started_by(viewer, viewer.name)
    for absent in viewer.stands_for:
        started |= viewer.scope("see") & _started_by(viewer, absent.name)
    return Q(asked__isnull=False) & started


def _addressed(viewer: Viewer) -> Q:
    wanted = Q(NamesNobody("by")) | _named(viewer, viewer.name, viewer.groups)
    for absent in viewer.stands_for:
        wanted |= _named(viewer, absent.name, absent.groups) & ~_excluded(viewer, absent.name)
    return wanted


def _named(viewer: Viewer, name: str, groups: Iterable[str]) -> Q:
    return Q(NamesAny("by", [name, *groups])) | (Q(NamesAny("by", ["requester"])) & _started_by(viewer, name))


def _excluded(viewer: Viewer, name: str) -> Q:
    named = Q(NamesAny("not_by", [name])) | (Q(NamesAny("not_by", ["requester"])) & _started_by(viewer, name))
    # Said first, because most exclude nobody.
    return ~Q(NamesNobody("not_by")) & named


def _started_by(viewer: Viewer, name: str) -> Q:
    """Return the filter of requests whose run a person started. Not a join: few rows need to look."""
    if not name:
        return NOBODY
    person = {"created_by_id": viewer.user.pk} if name == viewer.name else {"created_by__username": name}
    return Q(Exists(Run.objects.filter(pk=OuterRef("run_id"), **person)))
