"""The people a request concerns: those who may answer it, and those who are notified of the decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q

from checkpoints.models import Comment, HumanRequest, Reply
from checkpoints.models.user_model import USERNAME, User
from wfdash.access.directory import people_who
from wfdash.access.viewer import Viewer, origin_of

MOST = 2_000
"""How many people with the right to answer are examined."""
MAX_NOTIFIED = 200
"""How many of them are notified at most."""


def may_answer(
    request: HumanRequest, *, by: Sequence[str] | None = None, reviewers: Iterable[Viewer] | None = None
) -> list[User]:
    """Return the people who may answer now, including delegates and the assignee. ``request.run`` is loaded.

    ``by``: only those of them that are named here, by user or group. ``reviewers``: everyone who may answer requests of
    its workflow, if they are known already.
    """
    origin = origin_of(request.run)
    known = people_who("answer", request.workflow, limit=MOST) if reviewers is None else reviewers
    named = request.by if by is None else by
    found = [
        viewer.user
        for viewer in known
        if viewer.addressed(list(named), request.not_by, origin)
        or (by is None and viewer.user.pk == request.assignee_id and viewer.addressed((), request.not_by, origin))
    ]
    return found[:MAX_NOTIFIED]


def followers(request: HumanRequest, *, but: int | None = None, heard: bool = True) -> list[User]:
    """Return the people to notify of the decision: the starter of the run, the assignee, voters and commenters, if
    permitted.

    ``but``: the person who decided. ``heard``: False if no one else voted or commented, so that no one is looked up.
    """
    starter = request.run.created_by if request.run.created_by_id != but else None
    known = [pk for pk in (request.run.created_by_id, but) if pk is not None]
    assigned = [] if request.assignee_id is None else [request.assignee_id]
    if not heard and set(assigned) <= set(known):
        return [starter] if starter is not None else []
    voted = Reply.objects.filter(request=request, undone__isnull=True).values("by_id")
    spoke = Comment.objects.filter(request=request).values("by_id")
    others = User.objects.filter(Q(pk__in=assigned) | Q(pk__in=voted) | Q(pk__in=spoke)).exclude(pk__in=known)
    names = list(others.values_list(USERNAME, flat=True))
    permitted = [viewer.user for viewer in people_who("see", request.workflow, names=names)] if names else []
    return [starter, *permitted] if starter is not None else permitted
