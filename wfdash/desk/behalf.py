"""Answering in somebody's name: an operator writes down what somebody else decided, and the record says both."""

from __future__ import annotations

from django.db.models import Q

from checkpoints.models import HumanRequest, Reply
from wfdash.access import Right, Viewer
from wfdash.directory import people_who
from wfdash.errors import Invalid, NotAllowed

WORDS = "operator, in the name of"


def right_for_another(viewer: Viewer, request: HumanRequest, name: str, requester: str | None) -> Right:
    """Return the right to answer in this person's name.

    ``NotAllowed`` for whoever is no operator or must not answer it themselves; ``Invalid`` at ``on_behalf_of`` for
    somebody who may not answer it either.
    """
    if not viewer.may("operate", request.workflow):
        raise NotAllowed("Only an operator may answer in somebody's name")
    if viewer.right_for((), request.not_by, requester) is None:
        raise NotAllowed("This needs a second person: you may not answer it, in nobody's name")
    found = people_who("answer", request.workflow, names=[name])
    assigned = bool(found) and request.assignee_id == found[0].user.pk
    theirs = found[0].right_for(() if assigned else request.by, request.not_by, requester) if found else None
    if theirs is None or name == viewer.name:
        msg = f"{name} may not answer this request: name somebody else who may"
        raise Invalid([{"loc": ["on_behalf_of"], "msg": msg}])
    return Right(words=f"{WORDS} {name}: {'assigned' if assigned else theirs.words}", acting_for=name)


def said_for(request: HumanRequest, name: str, *, by_others: bool = False) -> Reply | None:
    """Return what this person said already, or an operator did in their name; ``by_others``: the latter alone."""
    written = Q(acting_for=name, right__startswith=WORDS)
    mine = written if by_others else written | Q(by__username=name)
    return Reply.objects.select_related("by").filter(mine, request=request, undone__isnull=True).first()
