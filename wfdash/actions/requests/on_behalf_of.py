"""The right by which a person answers a request: their own, another person's, an operator's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from checkpoints.models import HumanRequest
from checkpoints.records import SIGNAL
from wfdash.access.directory import people_who
from wfdash.access.viewer import Right, Viewer, origin_of
from wfdash.access.voters import unknown_in, unknown_words
from wfdash.errors import Invalid, NotAllowed
from wfdash.questions.policy import Policy

WORDS = "operator, on behalf of"
BEYOND = "This token may not answer requests of this workflow"
NAMED = 5
"""Addressees that a refusal names."""
ONE_VOTE = "Several people decide this: the vote of a service account is that of the person who made its token"
SECOND = "A second person is required: you cannot answer this yourself"


def right_of(
    viewer: Viewer, request: HumanRequest, *, override: bool, on_behalf_of: str, spoken: Collection[str] = ()
) -> Right:
    """Return the right by which this person answers. ``NotAllowed`` if there is none.

    ``override``: as an operator, instead of those it is addressed to. ``on_behalf_of``: as an operator, for this
    person. ``spoken``: people whose vote was given already. Where several people decide, a service account votes for
    the person who made its token.
    """
    if request.kind == SIGNAL:
        raise NotAllowed("This waits for a signal, not a person. Send the signal to the run")
    if unknown := unknown_in(request.not_by):
        raise NotAllowed(unknown_words(unknown))
    if on_behalf_of:
        return _right_for_another(viewer, request, on_behalf_of)
    if override:
        return _right_to_override(viewer, request)
    if not viewer.may("answer", request.workflow):
        raise NotAllowed("You cannot answer requests of this workflow. Ask an admin")
    right = viewer.right_to(request, spoken=spoken) or viewer.right_to(request)
    if right is None:
        raise NotAllowed(_refusal(viewer, request))
    if viewer.made_by is not None and _is_vote(request):
        return replace(right, acting_for=viewer.made_by.name)
    return right


def _is_vote(request: HumanRequest) -> bool:
    return Policy.model_validate(request.policy).need > 1


def _refusal(viewer: Viewer, request: HumanRequest) -> str:
    if viewer.excluded(request.not_by, origin_of(request.run)):
        return SECOND
    if request.assignee_id == viewer.user.pk:
        return "Addressed to others, and assignment does not let operators answer. Use override and give a reason"
    named = ", ".join(request.by[:NAMED]) + ("" if len(request.by) <= NAMED else " and others")
    how = ". As an operator you can override and give a reason" if viewer.may("operate", request.workflow) else ""
    return f"Addressed to {named or 'others'}{how}"


def _right_to_override(viewer: Viewer, request: HumanRequest) -> Right:
    """Return an operator's right to decide instead of those it is addressed to; their own, where they have one."""
    _refuse_unless_overridable(viewer, request, "Only operators can override")
    own = viewer.right_for(request.by, request.not_by, origin_of(request.run))
    return Right(
        words=own.words if own else "operator override",
        acting_for=own.acting_for if own else "",
        beyond=True,
    )


def _right_for_another(viewer: Viewer, request: HumanRequest, name: str) -> Right:
    """Return the right to answer on behalf of this person.

    ``NotAllowed`` for people who are not operators or must not answer it themselves; ``Invalid`` at ``on_behalf_of``
    for a person who may not answer it either.
    """
    _refuse_unless_overridable(viewer, request, "Only operators can answer on behalf of someone")
    if viewer.made_by is not None and _is_vote(request):
        raise NotAllowed(ONE_VOTE)
    origin = origin_of(request.run)
    found = people_who("answer", request.workflow, names=[name], programs=False)
    assigned = bool(found) and request.assignee_id == found[0].user.pk
    named = found[0].right_for(request.by, request.not_by, origin) if found else None
    theirs = named or (found[0].right_for((), request.not_by, origin) if assigned else None)
    if theirs is None or name == viewer.name:
        msg = f"{name} cannot answer this request. Choose someone who can"
        raise Invalid([{"loc": ["on_behalf_of"], "msg": msg}])
    words = f"{WORDS} {name}: {named.words if named else 'assigned'}"
    # A person named only by an operator answers by the operator's right, not by the policy.
    return Right(words=words, acting_for=name, beyond=named is None)


def _refuse_unless_overridable(viewer: Viewer, request: HumanRequest, words: str) -> None:
    if not viewer.may("operate", request.workflow):
        raise NotAllowed(words)
    if not viewer.reaches("answer", request.workflow):
        raise NotAllowed(BEYOND)
    if viewer.excluded(request.not_by, origin_of(request.run)):
        raise NotAllowed(SECOND)
    if not Policy.model_validate(request.policy).override:
        raise NotAllowed("The workflow does not allow override")
