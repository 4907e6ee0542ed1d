"""Answer requests, one or several, and undo it. The first answer wins; a refused one leaves its request open.

Several are assigned, or decided alike, each in its own transaction and with its own audit entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Exists, OuterRef
from django.db.models.expressions import BaseExpression
from django.utils import timezone

from checkpoints import ids, records
from checkpoints.database.clock import SETTLING
from checkpoints.database.compiled import insert
from checkpoints.database.storage import write
from checkpoints.errors import Unreadable
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey
from checkpoints.models import Answer, Comment, Draft, HumanRequest, Reply, Rule, Run, Shown
from checkpoints.records import Json, Phase, frozen
from checkpoints.rules import card_subject, rule_name
from wfdash.access.directory import spoken_in, votes_in, votes_of
from wfdash.access.viewer import Marks, Right, Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.common import (
    CountedEvent,
    append_request_event,
    find_request,
    lock_as_found,
    lock_request,
    lock_rows,
    notify_inbox,
    refuse_beyond,
)
from wfdash.actions.pacing import idempotent
from wfdash.actions.requests.announce import update_decidability
from wfdash.actions.requests.collaboration import assign_request
from wfdash.actions.requests.finalize import (
    BEYOND,
    comments_on_lines,
    finalize_answer,
    lock_rule,
    mark_settling,
    right_of,
    suspend,
)
from wfdash.actions.requests.receipts import refuse_elsewhere, sign_reply
from wfdash.contract import ChecksAnswers
from wfdash.domain import json_patch
from wfdash.domain.errors import (
    AlreadyAnswered,
    Changed,
    Invalid,
    KeyReused,
    NoLongerOpen,
    NotAllowed,
    NotFound,
    TooOften,
    WrongState,
    wrong,
)
from wfdash.domain.hash_chain import fingerprint
from wfdash.domain.labels import visible
from wfdash.domain.votes import decides, outcome_of, vetoes
from wfdash.engines import catalog
from wfdash.notifications.letters import PAST
from wfdash.notifications.preferences import listener_marks
from wfdash.queries import timemachine
from wfdash.queries.timemachine import secrets_in
from wfdash.questions.choices import doubt_of
from wfdash.questions.policy import Policy, alone_because
from wfdash.values.schemas.secrets import masked
from wfdash.values.schemas.validate import Problem, answer_problems
from wfdash.values.schemas.work import bounded_work

PAGES = ("page", "link")
"""Ways to answer that show a form."""


@frozen
class AnswerContext:
    """How an answer was given: where, what was shown, and whether it can be undone."""

    via: str = "api"
    seen: str = ""
    """Fingerprint of what was shown; empty: not checked."""
    page: str = ""
    """The page that was shown, for the audit."""
    undo: bool = False
    override: bool = False
    on_behalf_of: str = ""
    reply: str = field(default_factory=ids.new_request_id)
    """The id of the reply."""
    unchecked: bool = False
    """Its schema alone was asked: no process with the author's checks replied."""
    counted: CountedEvent | None = None
    """The event of the answer, where the lock has counted it."""
    signature: tuple[str, str] = ("", "")
    """The host at which the person's passkey signed it, and what the browser gave."""


def answer_request(
    viewer: Viewer,
    request_id: str,
    value: Json,
    *,
    verdict: str = "",
    reason: str = "",
    seen: str = "",
    undo: bool = False,
    via: str = "api",
    page: str = "",
    override: bool = False,
    on_behalf_of: str = "",
    as_text: bool = False,
    key: str | None = None,
    found: HumanRequest | None = None,
    signature: tuple[str, str] = ("", ""),
) -> Reply:
    """Store a person's reply durably and return it. Once enough people agree it is the answer, and the run is due.

    ``seen``: the fingerprint of what was shown; if the request has changed, ``Changed`` contains the difference.
    ``undo``: it takes effect only after the time in which it can be undone. ``override``: an operator decides instead
    of those it is addressed to; needs a reason, and is no way around ``not_by``. ``on_behalf_of``: an operator records
    what this person decided (a user name); it counts as theirs, and needs a reason too. ``as_text``: a text that reads
    like yes or no is meant as text. ``found``: the request as this viewer has just found it. ``signature``: see
    ``sign_reply``. ``Invalid`` (the request stays open), ``AlreadyAnswered``, ``NoLongerOpen``, ``Changed``.
    """
    context = AnswerContext(via=via, seen=seen, page=page, undo=undo, on_behalf_of=on_behalf_of, signature=signature)
    context = replace(context, override=override and not on_behalf_of)
    found = found or find_request(viewer, request_id, marks_for(undo=undo))
    # Before the author's own checks, which run here: only people who may answer trigger them.
    right_of(viewer, found, override=override, on_behalf_of=on_behalf_of)
    refuse_elsewhere(found, via)
    problems = validate_answer(found, value)
    context, judged = replace(context, unchecked=problems is None), problems or []
    if not as_text and (doubt := doubt_of(found.answer_schema, value)):
        means = "select that you mean the text itself" if via in PAGES else "say as_text if you mean the text itself"
        judged = [*judged, wrong("", f"{doubt}, or {means}")]
    try:
        command = [request_id, value, verdict, reason, seen, undo, override, on_behalf_of, *(["as text"] * as_text)]
        with write(), idempotent(viewer, key, "answer", command, reply=context.reply) as call:
            if call.previous_result is not None:
                return _given_before(call.previous_result["reply"])
            at_once = _settles(Policy.model_validate(found.policy), timezone.now(), context) is None
            request, counted = lock_for_answer(viewer, found, at_once=at_once)
            context = replace(context, counted=counted)
            return _take_answer(viewer, request, value, judged or _contradiction(value, verdict), reason, context)
    except IntegrityError:
        raise _already_answered(find_request(viewer, request_id)) from None


def _take_answer(
    viewer: Viewer, request: HumanRequest, value: Json, problems: list[Problem], reason: str, context: AnswerContext
) -> Reply:
    """Store and return an answer to a locked request, if this person may give it and there are no problems with it."""
    votes = votes_of(request) if has(request, "voted") else []
    spoken = spoken_in(votes)
    right = right_of(viewer, request, override=context.override, on_behalf_of=context.on_behalf_of, spoken=spoken)
    if request.answered is not None or request.settles is not None:
        raise _already_answered(request)
    if request.closed is not None:
        raise _closed(request)
    if request.run.phase in {Phase.CANCELLED, Phase.COMPLETED}:
        raise NoLongerOpen(f"The run is {request.run.phase}")
    _refuse_second_vote(viewer, right, votes)
    if viewer.through_agents and not context.seen:
        raise Invalid.at("seen", "Give the seen of the request that was shown to the person")
    context = replace(context, seen=_refuse_if_changed(request, context.seen))
    why = visible(reason or reason_in(value))
    if (context.override or context.on_behalf_of) and not why.strip():
        problems = [wrong("reason", "Give a reason for the override")]
    if problems:
        raise Invalid(problems)
    return _accept(viewer, request, value, why, right, context)


def _given_before(reply_id: Json) -> Reply:
    reply = Reply.objects.select_related("by").get(pk=reply_id)
    if reply.undone is not None:
        raise KeyReused("That answer was undone. Review the request and answer again")
    return reply


def _accept(
    viewer: Viewer, request: HumanRequest, value: Json, reason: str, right: Right, context: AnswerContext
) -> Reply:
    policy = Policy.model_validate(request.policy)
    # An override decides alone.
    need = 1 if context.override else policy.need
    reply = _new_reply(viewer, request, value, reason, right, context)
    if need == 1:
        reply.settles = _settles(policy, reply.at, context)
    insert(reply)
    receipt = sign_reply(viewer, request, reply, context.signature) if policy.sign else None
    _count_votes(request, reply, context, policy, need)
    _record(viewer, request, reply, context, receipt)
    if has(request, "drafted"):
        Draft.objects.filter(request=request, user=viewer.user).delete()
    notify_inbox(request.workflow)
    return reply


def undo_answer(viewer: Viewer, request_id: str, *, key: str | None = None) -> None:
    """Undo one's own answer before it has taken effect; the request is open again.

    Of a rule's answer: who may answer the request, or operate. That suspends the rule. ``WrongState`` if there is none,
    or it is too late.
    """
    with write(), idempotent(viewer, key, "undo", [request_id]) as call:
        found = find_request(viewer, request_id)
        if call.previous_result is None and found.settles is not None and _undo_of_rule(viewer, found):
            return
        request = lock_request(found)
        if call.previous_result is not None:
            return
        if not viewer.reaches("answer", request.workflow):
            raise NotAllowed(BEYOND)
        pacing.charge(viewer, "undo")
        now = timezone.now()
        mine = Reply.objects.select_related("by").filter(request=request, by=viewer.user, undone__isnull=True).first()
        if mine is None or request.answered is not None or request.closed is not None:
            raise WrongState("Nothing to undo")
        if request.settles is not None and (mine.settles is None or mine.settles <= now):
            raise WrongState("Too late to undo: the request is decided")
        Reply.objects.filter(pk=mine.pk, undone__isnull=True).update(undone=now, settles=None)
        if mine.settles is not None:
            HumanRequest.objects.filter(pk=request.pk).update(settles=None)
        _append_event(request, EventKind.REQUEST_UNDONE, mine)
        if request.stuck:
            update_decidability(request)
        facts = {"verdict": mine.verdict, "reply": mine.id}
        audit.record_request(viewer, "undo", request, facts, right=mine.right)
        notify_inbox(request.workflow)


def _undo_of_rule(viewer: Viewer, request: HumanRequest) -> bool:
    """Suspend the rule whose answer to this request has not taken effect, which undoes it. False if none gave it."""
    rows = SETTLING.filter(request=request, rule__isnull=False)
    number = rows.values_list("rule", flat=True).first()
    if number is None or not viewer.reaches("answer", request.workflow) or viewer.through_agents:
        return False
    theirs = viewer.may("answer", request.workflow) and viewer.right_to(request)
    if not (theirs or viewer.may("operate", request.workflow)):
        return False
    rule = lock_rule(number)
    if rule.state == "on":
        suspend(rule, f"{viewer.name} undid its answer to {card_subject(request.card, request.step)}", viewer)
    return not rows.exists()


def answer_by_rule(rule: Rule, request: HumanRequest, value: Json) -> Reply:
    """Give a locked, open request the answer of a rule that is locked and on. As any other it can be undone.

    The caller has asked the rule's condition and the request's policy, both as they are now.
    """
    now, context = timezone.now(), AnswerContext(via="rule", undo=True)
    refuse_elsewhere(request, context.via)
    right = f"by {rule_name(rule.pk)}, made by {rule.owner.get_username()}, on since {rule.since:%Y-%m-%d}"
    verdict = verdict_of(value)
    reply = Reply(
        id=context.reply,
        request=request,
        rule=rule.pk,
        via=context.via,
        right=right[:300],
        value=value,
        verdict=verdict,
        stands=outcome_of(verdict, request.card, override=False),
        reason=reason_in(value),
        seen=fingerprint(request.card, request.answer_schema),
        at=now,
        settles=_settles(Policy.model_validate(request.policy), now, context),
    )
    insert(reply)
    if reply.settles is None:
        finalize_answer(request, reply)
    elif mark_settling(request, reply.settles):
        _append_event(request, EventKind.REQUEST_ANSWERING, reply, until=reply.settles.isoformat())
    else:
        raise _already_answered(request)
    _record(None, request, reply, context, None)
    notify_inbox(request.workflow)
    return reply


def verdict_of(value: Json) -> str:
    """Return the action an answer chose, ``answered`` where the request has no actions."""
    action = value.get("action") if isinstance(value, dict) else None
    return str(action)[:40] if action else "answered"


def reason_in(value: Json) -> str:
    """Return the reason an answer gives."""
    reason = value.get("reason") if isinstance(value, dict) else None
    return reason if isinstance(reason, str) else ""


def _contradiction(value: Json, verdict: str) -> list[Problem]:
    """Return the problem of a verdict that contradicts the answer: the audit must not show an approval that was
    none.
    """
    chosen = verdict_of(value)
    return [wrong("verdict", f"The answer says {chosen}")] if verdict[:40] not in {"", chosen} else []


def _refuse_second_vote(viewer: Viewer, right: Right, votes: list[Reply]) -> None:
    """Refuse a second vote: one person has one vote, including votes given on their behalf."""
    mine = next((vote for vote in votes if vote.by_id == viewer.user.pk), None)
    if mine is not None:
        raise _refusal_of(mine, f"You already answered {mine.verdict}. Undo it to change your answer")
    spoken = spoken_in(votes)
    for name in (right.acting_for, viewer.name):
        if name and name in spoken:
            first = spoken[name]
            raise _refusal_of(first, f"{first.decider} already answered {first.verdict}, as or on behalf of {name}")


def _refuse_if_changed(request: HumanRequest, seen: str) -> str:
    """Return the current fingerprint of the request. ``Changed`` if it is not the one that was shown, where one was
    named.
    """
    now = fingerprint(request.card, request.answer_schema)
    if seen in {"", now}:
        return now
    kept = Shown.objects.filter(pk=f"{request.pk}:card:{seen[:64]}").first()
    before = json.loads(kept.body)["card"] if kept else None
    raise Changed(before=before, after=request.card, now=now)


def _new_reply(
    viewer: Viewer, request: HumanRequest, value: Json, reason: str, right: Right, context: AnswerContext
) -> Reply:
    verdict = verdict_of(value)
    return Reply(
        id=context.reply,
        request=request,
        by=viewer.user,
        via=context.via,
        right=right.words[:300],
        acting_for=right.acting_for,
        maker=viewer.made_by.name if viewer.made_by else "",
        value=value,
        verdict=verdict,
        stands=outcome_of(verdict, request.card, override=right.beyond),
        reason=reason,
        seen=context.seen,
        at=timezone.now(),
    )


def _settles(policy: Policy, now: datetime, context: AnswerContext) -> datetime | None:
    """Return when a deciding answer takes effect; None: at once."""
    undo = policy.undo if policy.undo is not None else timedelta(seconds=settings.WFDASH_UNDO)
    return now + undo if context.undo and undo else None


def _count_votes(request: HumanRequest, reply: Reply, context: AnswerContext, policy: Policy, need: int) -> None:
    """Count the votes; with enough of them the latest becomes the answer, at once or after the time to undo it."""
    if need > 1:
        if not _decides(request, reply, need, policy.veto):
            _append_event(request, EventKind.REQUEST_VOTED, reply, need=need, **comments_on_lines(reply.value))
            update_decidability(request)
            return
        reply.settles = _settles(policy, reply.at, context)
        if reply.settles is not None:
            Reply.objects.filter(pk=reply.pk).update(settles=reply.settles)
    if reply.settles is None:
        heard = has(request, "voted") or has(request, "discussed")
        finalize_answer(request, reply, heard=heard, counted=context.counted)
        return
    if not mark_settling(request, reply.settles):
        raise _already_answered(HumanRequest.objects.get(pk=request.pk))
    until = reply.settles.isoformat()
    _append_event(request, EventKind.REQUEST_ANSWERING, reply, until=until, counted=context.counted)


def _decides(request: HumanRequest, reply: Reply, need: int, veto: bool) -> bool:
    votes, card = votes_in(votes_of(request)), request.card
    return decides(
        list(votes.values()),
        votes[reply.pk],
        need=need,
        vetoes=vetoes(card, veto=veto),
        proposal=card.get("proposal"),
    )


def _append_event(request: HumanRequest, kind: EventKind, reply: Reply, **more: Any) -> None:
    append_request_event(request, kind, by=reply.decider, verdict=reply.verdict, **more)


def _record(viewer: Viewer | None, request: HumanRequest, reply: Reply, context: AnswerContext, receipt: Json) -> None:
    """Record in the audit who decided, by which right, what they were shown, and what they changed."""
    shown = {"card": request.card, "answer_schema": request.answer_schema, "policy": request.policy}
    page = sha256(context.page.encode()).hexdigest() if context.page else ""
    pages = [("page", page, context.page)] if page else []
    audit.keep_shown(request.id, ("card", reply.seen, json.dumps(shown)), *pages)
    given = reply.value if isinstance(reply.value, dict) else {}
    changed = given.get("edited", given.get("arguments"))
    facts = {
        "reply": reply.id,
        "verdict": reply.verdict,
        "stands": reply.stands,
        "value": reply.value,
        "reason": reply.reason,
        "via": reply.via,
        "acting_for": reply.acting_for,
        "seen": reply.seen,
        "page": page,
        "proposal": request.card.get("proposal"),
        "edited": changed,
        "settles": reply.settles.isoformat() if reply.settles else None,
        **({"checked": "by its schema alone"} if context.unchecked else {}),
        **({"receipt": receipt} if receipt else {}),
    }
    verb = "override" if reply.stands == "overrode" else "answer"
    actor = viewer.name if viewer else reply.decider
    audit.record_request(viewer, verb, request, facts, right=reply.right, actor=actor)


def _closed(request: HumanRequest) -> Exception:
    later = timemachine.replaced_by(request)
    return NoLongerOpen(
        f"This request is closed: {request.closed_as}",
        closed_as=request.closed_as,
        replaced_by=later.pk if later is not None else None,
    )


def _already_answered(request: HumanRequest) -> Exception:
    first: Answer | Reply | None = Answer.objects.select_related("by").filter(request=request).first()
    if first is None:
        first = Reply.objects.select_related("by").filter(request=request, settles__isnull=False).first()
    if first is None:
        return _closed(request) if request.closed else NoLongerOpen("Someone else is answering this now")
    verdict = PAST.get(first.verdict, first.verdict).lower()
    return _refusal_of(first, f"Already answered by {first.decider} ({verdict}, {first.at:%Y-%m-%d %H:%M} UTC)")


def _refusal_of(first: Answer | Reply, words: str) -> AlreadyAnswered:
    facts = {"by": first.decider, "at": first.at.isoformat(), "verdict": first.verdict}
    facts["value"] = masked(first.value, secrets_in(first.request))
    return AlreadyAnswered(words, **facts)


def validate_answer(request: HumanRequest, value: Json) -> list[Problem] | None:
    """Return what is wrong with an answer, by field; empty if the step will accept it as far as is known here, None if
    its schema alone accepts it: no process with the author's checks could be asked.

    The engine is asked where its workflow is loaded and it knows more than the schema. That may run the author's own
    checks of the answer, so this must not be called inside a transaction.
    """
    found = answer_problems(request.card, request.answer_schema, value)
    if found or (entry := catalog.find(request.workflow)) is None:
        return found or None
    if not isinstance(entry.engine, ChecksAnswers):
        return []
    asked = records.Request(
        key=RequestKey(request.key), step=request.step, kind=request.kind, answer_schema=request.answer_schema
    )
    return entry.engine.check_answer(entry.definition, asked, value)


# How an answer locks its request: in most cases nothing has happened since it was found, and one statement does.


def lock_for_answer(viewer: Viewer, found: HumanRequest, *, at_once: bool) -> tuple[HumanRequest, CountedEvent | None]:
    """Return a request that this viewer found, with its marks, as stored now: its run is locked first.

    ``at_once``: the answer makes the run due, else it can be undone. With it the event that the
    caller appends next, if the lock has counted it.
    """
    ended = found.answered or found.settles or found.closed
    open_ = are_known(found) and not ended and not has(found, "voted")
    if open_ and Policy.model_validate(found.policy).need == 1:
        refuse_beyond(viewer, found)
        if counted := lock_as_found(found.run, wake=at_once):
            return found, counted
    lock_rows(Run.objects.filter(pk=found.run_id))
    return find_request(viewer, found.pk, marks_of), None


# What an answer has to know of a request beside its row: read with it, because most requests have none of it.


def marks_for(*, undo: bool) -> Marks:
    """Return what to read with a request to answer: beside its marks who hears of the answer, unless it can be undone.
    One that can be undone notifies no one until that time has passed.
    """
    return marks_of if undo and settings.WFDASH_UNDO else marks_and_listeners


def marks_of(viewer: Viewer) -> dict[str, Exists]:
    """Return whether a request has votes that count (``voted``), comments (``discussed``) and a draft of this person
    (``drafted``), as annotations of its look-up.
    """
    votes = Reply.objects.filter(request=OuterRef("pk"), undone__isnull=True)
    comments = Comment.objects.filter(request=OuterRef("pk"))
    drafts = Draft.objects.filter(request=OuterRef("pk"), user=viewer.user)
    return {"voted": Exists(votes), "discussed": Exists(comments), "drafted": Exists(drafts)}


def marks_and_listeners(viewer: Viewer) -> dict[str, BaseExpression]:
    """Return these marks, and who hears of the answer."""
    return {**marks_of(viewer), **listener_marks()}


def are_known(request: HumanRequest) -> bool:
    """Return whether a request was looked up with ``marks_of``."""
    return hasattr(request, "voted")


def has(request: HumanRequest, mark: str) -> bool:
    """Return whether a request that was looked up with ``marks_of`` has this."""
    return bool(getattr(request, mark))


MOST_ASSIGNED = 200


@frozen
class Assigned:
    """What became of one request. ``problem``: why its assignee is unchanged, empty if it was assigned."""

    request: str
    subject: str
    problem: str = ""


def assign_requests(viewer: Viewer, requests: Iterable[str], to: str | None, *, key: str | None) -> list[Assigned]:
    """Assign requests to a user name, or to no one, and return what became of each; one refusal stops no other.

    ``key``: sent twice, it counts once.
    """
    wanted = list(dict.fromkeys(requests))
    if len(wanted) > MOST_ASSIGNED:
        raise Invalid.at("request", f"Assign at most {MOST_ASSIGNED} at once")
    return [_assign_one(viewer, one, to, f"{key} {one}" if key else None) for one in wanted]


def _assign_one(viewer: Viewer, request_id: str, to: str | None, key: str | None) -> Assigned:
    found = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=request_id).first()
    if found is None:
        return Assigned(request=request_id, subject="", problem="It no longer exists")
    subject, problem = found.step, ""
    try:
        subject = card_subject(found.card, found.step)
        assign_request(viewer, request_id, to, key=key)
    except Unreadable:
        problem = "It cannot be read"
    except Invalid as error:
        problem = str(error.errors[0]["msg"])
    except (AlreadyAnswered, NoLongerOpen, NotAllowed, NotFound, TooOften) as error:
        problem = str(error)
    return Assigned(request=request_id, subject=subject, problem=problem)


MAX_DECIDED_AT_ONCE = 500


@frozen
class Outcome:
    """The result for one request. ``problem``: why it is unchanged, empty if the answer was accepted."""

    request: str
    subject: str
    reply: Reply | None = None
    problem: str = ""
    kind: str = ""
    """The error's class: Changed, AlreadyAnswered, NotAllowed ..."""


def answer_batch(
    viewer: Viewer,
    chosen: Iterable[tuple[str, str]],
    value: Json,
    *,
    verdict: str = "",
    page: str = "",
    key: str | None = None,
) -> list[Outcome]:
    """Give several requests the same answer and return the outcome of each. ``chosen``: request id and fingerprint
    shown.

    Each can be undone, and each is refused separately: requests answered or changed in the meantime stay as they are,
    and so do those of high risk or with a policy that forbids batches. ``key``: sent twice, the batch counts once and
    has the same outcome.
    """
    wanted = dict(chosen)
    if not wanted:
        raise Invalid.at("tick", "Select at least one request")
    if len(wanted) > MAX_DECIDED_AT_ONCE:
        raise Invalid.at("tick", f"Decide at most {MAX_DECIDED_AT_ONCE} at once")
    if json_patch.comments_in(value):
        raise Invalid.at(json_patch.FIELD, "Comment on lines of one request, not of several")
    with bounded_work():
        return [
            _answer_one(viewer, one, seen, value, verdict, page, f"{key} {one}" if key else None)
            for one, seen in wanted.items()
        ]


def undo_batch(viewer: Viewer, requests: Iterable[str], *, key: str | None = None) -> tuple[int, int]:
    """Undo one's answers to these requests. Returns how many were undone, and for how many it was too late.

    ``key``: sent twice, it counts once.
    """
    done = late = 0
    for request_id in requests:
        try:
            undo_answer(viewer, request_id, key=f"{key} {request_id}" if key else None)
            done += 1
        except (WrongState, NotFound):
            late += 1
    return done, late


def _answer_one(
    viewer: Viewer, request_id: str, seen: str, value: Json, verdict: str, page: str, key: str | None
) -> Outcome:
    found = HumanRequest.objects.filter(viewer.scope("see"), pk=request_id).first()
    if found is None:
        return Outcome(request=request_id, subject="", problem="It no longer exists", kind="NotFound")
    subject = card_subject(found.card, found.step)
    try:
        # Refuse requests that may not be decided in batches, and those whose own row was not shown.
        if because := alone_because(found.risk, found.policy, found.card):
            raise NotAllowed(because)
        if not seen:
            raise Invalid.at("tick", "Not in the table")
        reply = answer_request(
            viewer, request_id, value, verdict=verdict, seen=seen, undo=True, via="batch", page=page, key=key
        )
    except Changed:
        words = "It changed after you opened the table. Review it again"
        return Outcome(request=request_id, subject=subject, problem=words, kind="Changed")
    except Invalid as error:
        words = error.summary
        return Outcome(request=request_id, subject=subject, problem=words, kind="Invalid")
    except (AlreadyAnswered, NoLongerOpen, NotAllowed, NotFound) as error:
        return Outcome(request=request_id, subject=subject, problem=str(error), kind=type(error).__name__)
    return Outcome(request=request_id, subject=subject, reply=reply)
