"""How a reply becomes the answer: at once, or when the time to undo it has passed."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from checkpoints.database.alias import on_commit
from checkpoints.database.clock import SETTLING, database_now
from checkpoints.database.compiled import Placeholder, Update, compiled_update, insert
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import OPEN, Answer, Comment, HumanRequest, Reply, Rule
from checkpoints.models.user_model import USERNAME, User
from checkpoints.records import SIGNAL, Json, JsonObject, Phase
from checkpoints.rules import DEADLINE, RISKS, rule_name
from wfdash.access.directory import names_of_voters, people_who, unknown_in, unknown_words, votes_of
from wfdash.access.viewer import REQUESTER, Right, Viewer, origin_of
from wfdash.actions import audit
from wfdash.actions.common import ID, CountedEvent, append_request_event, lock_request, notify_inbox, notify_workers
from wfdash.actions.pacing import SweepBackoff
from wfdash.actions.requests.receipts import refuse_unsigned
from wfdash.actions.requests.second import ask_second_look, is_drawn
from wfdash.domain import json_patch
from wfdash.domain.errors import Invalid, NoLongerOpen, NotAllowed
from wfdash.domain.labels import visible
from wfdash.notifications.write import notify, notify_workflow
from wfdash.questions.policy import Policy
from wfdash.telemetry import tracing

WORDS = "operator, on behalf of"
BEYOND = "This token may not answer requests of this workflow"
MAX_NAMED = 5
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
    if viewer.through_agents:
        _refuse_to_agents(viewer, request, beyond=override or bool(on_behalf_of))
    if on_behalf_of:
        return _right_for_another(viewer, request, on_behalf_of)
    if override:
        _refuse_unless_overridable(viewer, request, "Only operators can override")
        own = viewer.right_for(request.by, request.not_by, origin_of(request.run))
        return Right(
            words=own.words if own else "operator override",
            acting_for=own.acting_for if own else "",
            beyond=True,
        )
    if not viewer.may("answer", request.workflow):
        raise NotAllowed("You cannot answer requests of this workflow. Ask an admin")
    right = viewer.right_to(request, spoken=spoken) or viewer.right_to(request)
    if right is None:
        raise NotAllowed(_refusal(viewer, request))
    if viewer.made_by is not None and _is_vote(request):
        return replace(right, acting_for=viewer.made_by.name)
    return right


def _refuse_to_agents(viewer: Viewer, request: HumanRequest, *, beyond: bool) -> None:
    """Refuse what a person decides on the page, whichever door a token for agents comes by."""
    if viewer.excluded((REQUESTER,), origin_of(request.run)):
        raise NotAllowed(f"It was asked on behalf of {viewer.name}, who therefore decides on the page")
    if request.risk >= RISKS["high"]:
        raise NotAllowed("Its risk is high: a person decides on the page")
    if beyond:
        raise NotAllowed("No agent overrides or answers for others: a person does on the page")


def _is_vote(request: HumanRequest) -> bool:
    return Policy.model_validate(request.policy).need > 1


def _refusal(viewer: Viewer, request: HumanRequest) -> str:
    if viewer.excluded(request.not_by, origin_of(request.run)):
        return SECOND
    if request.assignee_id == viewer.user.pk:
        return "Addressed to others, and assignment does not let operators answer. Use override and give a reason"
    named = ", ".join(request.by[:MAX_NAMED]) + ("" if len(request.by) <= MAX_NAMED else " and others")
    how = ". As an operator you can override and give a reason" if viewer.may("operate", request.workflow) else ""
    return f"Addressed to {named or 'others'}{how}"


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
        raise Invalid.at("on_behalf_of", msg)
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


_backoff = SweepBackoff("Reply %s could not take effect")


def finalize_answer(
    request: HumanRequest, reply: Reply, *, heard: bool = True, counted: CountedEvent | None = None
) -> Answer:
    """Make a reply the answer and the run due, inside the caller's transaction, the request locked. Returns the answer.

    ``NoLongerOpen`` if the request has an answer or was closed. ``reply.by`` None: a deadline, or a rule.
    ``IntegrityError`` if there is an answer anyway: the transaction must end. ``heard``: False if no one else voted or
    commented. ``counted``: its event, where the lock has counted it.
    """
    if request.policy.get("sign"):
        refuse_unsigned(reply)
    now = timezone.now()
    if _answered().execute(id=request.pk, at=now) != 1:
        raise NoLongerOpen("The request has already been answered or closed")
    outcome = {"value": _with_comments_of_others(request, reply), "verdict": reply.verdict}
    given = {"by": reply.by, "at": reply.at, "acting_for": reply.acting_for, "rule": reply.rule}
    makers = people_of(reply.rule) if reply.rule else filter(None, [reply.maker])
    others = sorted({*names_of_voters(request, but=reply), *makers})
    answer = Answer(request=request, others=json.dumps(others) if others else "", **outcome, **given)
    insert(answer.bound())
    if request.policy.get("blind") and reply.by_id and reply.stands != "overrode" and is_drawn(request):
        ask_second_look(request, answer)
    request.answered, request.settles = now, None
    if reply.settles is not None:
        Reply.objects.filter(pk=reply.pk).update(settles=None)
    run, decider = request.run, reply.decider
    append_request_event(
        request,
        EventKind.REQUEST_ANSWERED,
        wake=True,
        counted=counted,
        by=decider,
        verdict=reply.verdict,
        **comments_on_lines(reply.value),
    )
    facts = {"by": "" if decider == DEADLINE else decider, "verdict": reply.verdict}
    notify("decided", request, followers(request, but=reply.by_id, heard=heard), facts=facts)
    notify_workers(run.id)
    if settings.WFDASH_OTEL:
        on_commit(lambda: tracing.decided(request, reply.by_id, reply.verdict, now))
    return answer


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


def mark_settling(request: HumanRequest, until: datetime) -> bool:
    """Mark a request as answered by a reply that can be undone until then. Returns False if it is no longer open."""
    if _settling().execute(id=request.pk, until=until) != 1:
        return False
    request.settles = until
    return True


@compiled_update
def _answered() -> Update:
    waiting = HumanRequest.objects.filter(pk=ID, answered__isnull=True, closed__isnull=True)
    return waiting, {"answered": Placeholder("at", HumanRequest._meta.get_field("answered")), "settles": None}


@compiled_update
def _settling() -> Update:
    until = Placeholder("until", HumanRequest._meta.get_field("settles"))
    return HumanRequest.objects.filter(OPEN, pk=ID), {"settles": until}


def comments_on_lines(value: Json) -> JsonObject:
    """Return what an event says of an answer's line comments: nothing where there is none."""
    found = json_patch.listed(value)
    return {json_patch.FIELD: found} if found else {}


def _with_comments_of_others(request: HumanRequest, reply: Reply) -> Json:
    """Return the reply's value; where several people voted, the step gets what all of them said of single lines."""
    if not json_patch.shows_lines(request.card) or Policy.model_validate(request.policy or {}).need == 1:
        return reply.value
    return json_patch.with_those_of(reply.value, [vote.value for vote in votes_of(request) if vote.pk != reply.pk])


def finalize_due(limit: int = 100) -> int:
    """Finalize every reply whose time to undo has passed, one transaction each, from any process. Returns how many."""
    due = SETTLING.filter(settles__lte=database_now()).exclude(pk__in=_backoff.backed_off())
    return _backoff.run_each(list(due.values_list("id", flat=True)[:limit]), _finalize_one)


def next_finalization(after: datetime | None = None) -> datetime | None:
    """Return when the next reply takes effect (after that time), None if there is none."""
    waiting = SETTLING if after is None else SETTLING.filter(settles__gt=after)
    return waiting.values_list("settles", flat=True).first()


def _finalize_one(reply_id: str) -> bool:
    with write():
        reply = Reply.objects.select_related("request", "request__run", "by").get(pk=reply_id)
        request = lock_request(reply.request)
        reply.refresh_from_db(fields=["settles", "undone"])
        if reply.settles is None or reply.undone is not None:
            return False
        if request.closed is not None or request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
            # Withdrawn, superseded or cancelled within those seconds: there is nothing left to answer.
            Reply.objects.filter(pk=reply.pk).update(settles=None)
            return False
        finalize_answer(request, reply)
        notify_inbox(request.workflow)
        return True


# How a rule ends: what it answered and can still be undone goes back to people, in the same transaction.

ACTIVE = ("shadow", "on")


def people_of(rule: int) -> list[str]:
    """Return who made a rule and who switched it on: theirs is its answer, where a later request wants someone else."""
    row = Rule.objects.select_related("owner").filter(pk=rule).first()
    return [] if row is None else [name for name in (row.owner.get_username(), row.switched_by) if name]


def lock_rule(rule: int) -> Rule:
    """Return a rule as stored now, its row locked until the transaction ends: before the run of any request."""
    return Rule.objects.select_for_update(of=("self",)).select_related("owner").get(pk=rule)


def suspend(rule: Rule, problem: str, by: Viewer | None = None) -> None:
    """Suspend a locked rule, tell its owner, and give back what it answered and can still be undone."""
    if rule.state not in ACTIVE:
        return
    rule.state, rule.since, rule.problem = "suspended", timezone.now(), visible(problem)[:500]
    rule.save(update_fields=["state", "since", "problem"])
    for reply in SETTLING.filter(rule=rule.pk).select_related("request", "request__run").order_by("request__run_id"):
        request = lock_request(reply.request)
        if Reply.objects.filter(pk=reply.pk, settles__isnull=False).update(undone=timezone.now(), settles=None) != 1:
            continue  # It has taken effect since.
        HumanRequest.objects.filter(pk=request.pk).update(settles=None)
        append_request_event(
            request, EventKind.REQUEST_UNDONE, by=by.name if by else reply.decider, verdict=reply.verdict
        )
        undone = {"verdict": reply.verdict, "reply": reply.pk}
        audit.record_request(by, "undo", request, undone, right=reply.right, actor=reply.decider)
    facts: JsonObject = {
        "subject": f"{rule_name(rule.pk)} of {rule.workflow}",
        "text": rule.problem,
        "rule": rule.pk,
        "by": by.name if by else "",
    }
    notify_workflow("rule", rule.workflow, [] if by and by.user.pk == rule.owner_id else [rule.owner], facts=facts)
    record_rule(by, "suspend rule", rule, {"problem": rule.problem})
    notify_inbox(rule.workflow)


def record_rule(by: Viewer | None, verb: str, rule: Rule, facts: JsonObject, right: str = "") -> None:
    """Append what became of a rule to the audit: what someone did, or the rule by itself."""
    known = {"rule": rule_name(rule.pk), "step": rule.step, **facts}
    actor = rule_name(rule.pk)
    audit.record(by, verb, workflow=rule.workflow, right=right, facts=known, actor=actor)
