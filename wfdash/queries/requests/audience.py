"""Audience filters of requests: the rules of ``Viewer.right_for`` in SQL."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from checkpoints.models import Reply, Run
from checkpoints.models.user_model import NO_PERSON, USERNAME, has_name
from wfdash.access.viewer import REQUESTER, Viewer
from wfdash.queries.search.json_names import NamesAny, NamesEmpty

NO_REQUEST = Q(pk__in=[])
ASSIGNEE = Coalesce("assignee_id", NO_PERSON)
"""Not the bare column: SQLite would use its index, and then read every row it finds, with its card."""


def may_answer(viewer: Viewer) -> Q:
    """Return the filter of requests a person may answer: by role, ``by``, ``not_by``, or as a delegate."""
    excluded = _excluded(viewer, viewer.name, viewer.groups)
    if viewer.made_by is not None:
        excluded |= _excluded(viewer, viewer.made_by.name, viewer.made_by.groups)
    return viewer.scope("answer") & (_addressed(viewer) | assigned_to(viewer)) & ~excluded


def through_groups(viewer: Viewer) -> Q:
    """Return the filter of requests addressed to a person's groups, or to groups of those they are a delegate of."""
    groups = viewer.groups.union(*(absent.groups for absent in viewer.acts_for))
    return Q(NamesAny("by", groups)) if groups else NO_REQUEST


def assigned_to(viewer: Viewer) -> Q:
    """Return the filter of requests assigned to them."""
    return Q(Exact(ASSIGNEE, viewer.user.pk)) if viewer.user.pk is not None else NO_REQUEST


def unassigned(viewer: Viewer) -> Q:
    """Return the filter of unassigned requests."""
    return Q(Exact(ASSIGNEE, NO_PERSON))


def not_assigned_elsewhere(viewer: Viewer) -> Q:
    """Return the filter of requests that are not assigned to a third person."""
    absent = [principal.name for principal in viewer.acts_for]
    free = unassigned(viewer) | assigned_to(viewer)
    return free | has_name(absent, "in", through="assignee") if absent else free


def not_voted_by(viewer: Viewer) -> Q:
    """Return the filter of requests this person has not voted on yet."""
    if viewer.user.pk is None:
        return Q(pk__isnull=False)
    mine = Q(by_id=viewer.user.pk) | Q(acting_for=viewer.name)
    return ~Q(Exists(Reply.objects.filter(mine, request=OuterRef("pk"), undone__isnull=True)))


def awaiting_reply_of(viewer: Viewer) -> Q:
    """Return the filter of requests that wait for their reply, as requester or as a delegate of one."""
    started = _started_by(viewer, viewer.name) & viewer.reach()
    for absent in viewer.acts_for:
        started |= viewer.scope("see") & _started_by(viewer, absent.name)
    return Q(asked__isnull=False) & started


def _addressed(viewer: Viewer) -> Q:
    wanted = Q(NamesEmpty("by")) | _addressed_by_name(viewer, viewer.name, viewer.groups)
    for absent in viewer.acts_for:
        free = ~_excluded(viewer, absent.name, absent.groups) & ~_voted(absent.name)
        wanted |= _addressed_by_name(viewer, absent.name, absent.groups) & free
    return wanted


def _voted(name: str) -> Q:
    """Return the filter of requests on which a person, or a delegate of theirs, has voted."""
    voted = Q(has_name(name, through="by"), acting_for="") | Q(acting_for=name)
    return Q(Exists(Reply.objects.filter(voted, request=OuterRef("pk"), undone__isnull=True)))


def _addressed_by_name(viewer: Viewer, name: str, groups: Iterable[str]) -> Q:
    names = {name, *groups} - {REQUESTER}
    return Q(NamesAny("by", names)) | (Q(NamesAny("by", [REQUESTER])) & _started_by(viewer, name))


def _excluded(viewer: Viewer, name: str, groups: Iterable[str]) -> Q:
    own = _started_by(viewer, name) | _requested_by(name)
    named = Q(NamesAny("not_by", [name, *groups])) | (Q(NamesAny("not_by", [REQUESTER])) & own)
    # Tested first, because most requests exclude no one.
    return ~Q(NamesEmpty("not_by")) & named


def _started_by(viewer: Viewer, name: str) -> Q:
    """Return the filter of requests whose run a person started. Not a join: it is evaluated for few rows."""
    if not name:
        return NO_REQUEST
    person = {"created_by_id": viewer.user.pk} if name == viewer.name else {f"created_by__{USERNAME}": name}
    return Q(Exists(Run.objects.filter(pk=OuterRef("run_id"), **person)))


def _requested_by(name: str) -> Q:
    """Return the filter of requests whose run counts a person as requester although they did not start it."""
    return Q(Exists(Run.objects.filter(NamesAny("requesters", [name]), pk=OuterRef("run_id")))) if name else NO_REQUEST
