"""Second looks: a share of decisions is asked of a second person too, who is not shown the first; nothing depends on
their answer but what is known of the question.
"""

from __future__ import annotations

import json

from django.utils import timezone

from checkpoints.database.storage import write
from checkpoints.models import Answer, HumanRequest, Presence, SecondLook
from checkpoints.models.user_model import USERNAME
from checkpoints.records import Json
from wfdash.access.directory import people_who
from wfdash.access.viewer import Right, Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.common import drawn, find_request, lock_request
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.domain.labels import visible
from wfdash.notifications.write import notify_workflow
from wfdash.values.schemas.validate import answer_problems

SALT = "wfdash.second"
SETTLED = {"first": "The first was right", "second": "The second was right", "both": "Both are right"}
OVER = "You took part in the decision, or have seen it: a second look is for someone who has not"


def is_drawn(request: HumanRequest) -> bool:
    """Return whether it is of the share of decisions that its policy names: no program can know before."""
    return drawn(SALT, request.pk) < float(request.policy["blind"])


def ask_second_look(request: HumanRequest, answer: Answer) -> bool:
    """Ask one more person about a decision, inside the caller's transaction. False: no one is left who can be asked."""
    but = who_knows(answer)
    people = people_who("answer", request.workflow, programs=False)
    able = [one for one in people if one.name not in but and one.right_to(request) is not None]
    if not able:
        return False
    chosen = min(able, key=lambda one: drawn(SALT, f"{one.name} at {request.pk}"))
    SecondLook.objects.create(request=request, of=chosen.user, asked=timezone.now())
    facts = {"subject": str(request.card.get("subject") or ""), "look": request.pk}
    notify_workflow("second", request.workflow, [chosen.user], facts=facts, once=f"second look at {request.pk}")
    return True


def who_knows(answer: Answer) -> set[str]:
    """Return the names of everyone who took part in a decision, in whose name, and who has had it open since."""
    seen = Presence.objects.filter(request=answer.request_id, seen__gt=answer.at).values_list(f"user__{USERNAME}")
    known = {audit.name_of(answer.by), *filter(None, [answer.acting_for]), *json.loads(answer.others or "[]")}
    return known.union(*seen)


def right_to_look(viewer: Viewer, request: HumanRequest) -> Right:
    """Return the right by which this person gives a second look at a decided request.

    ``NotFound`` where none is asked for, ``NotAllowed`` for programs, for who may not answer it, and for who took part
    in the decision or has opened the request since.
    """
    answer = Answer.objects.select_related("by").filter(request=request, request__second_look__isnull=False).first()
    if answer is None:
        raise NotFound("No second look is asked for")
    if viewer.token:
        raise NotAllowed("A person gives a second look, on its page")
    right = viewer.right_to(request) if viewer.may("answer", request.workflow) else None
    if right is None:
        raise NotAllowed("Only people who could have answered the request give a second look")
    if {viewer.name, right.acting_for} & who_knows(answer):
        raise NotAllowed(OVER)
    return right


def give_second_look(viewer: Viewer, request_id: str, value: Json, *, reason: str = "") -> None:
    """Store what a second person would have decided. The run and the decision stay as they are.

    ``Invalid`` for what is no answer, ``WrongState`` if someone gave it already; else as ``right_to_look``.
    """
    found = find_request(viewer, request_id)
    right_to_look(viewer, found)
    if problems := answer_problems(found.card, found.answer_schema, value):
        raise Invalid(problems)
    with write():
        request = lock_request(found)
        right = right_to_look(viewer, request)
        pacing.charge(viewer, "second look")
        look = SecondLook.objects.get(request=request)
        if look.at is not None:
            raise WrongState("Someone gave this second look already")
        given = value if isinstance(value, dict) else {}
        look.verdict = str(given.get("action") or "answered")[:40]
        look.by, look.at, look.value = viewer.user, timezone.now(), value
        look.reason = visible(reason or str(given.get("reason") or ""))
        look.save()
        facts = {"second": look.verdict, "value": value, "reason": look.reason}
        audit.record_request(viewer, "second look", request, facts, right=right.words)


def settle_second_look(viewer: Viewer, request_id: str, words: str) -> HumanRequest:
    """Record which of two decisions that differ may stand, as an operator of the workflow.

    ``Invalid`` for other words than those of ``SETTLED``; nothing of the run changes.
    """
    found = find_request(viewer, request_id)
    if not viewer.may("operate", found.workflow):
        raise NotAllowed("Operators of the workflow settle what two people decided differently")
    if words not in SETTLED:
        raise Invalid.at("settled", f"Say {', '.join(SETTLED)}")
    with write():
        request = lock_request(found)
        given = SecondLook.objects.filter(request=request, at__isnull=False)
        if not given.update(settled=words, settled_by=viewer.user):
            raise NotFound("No second look was given")
        audit.record_request(viewer, "settle second look", request, {"settled": words})
    return request
