"""Make rules, rehearse them, let them run beside people, switch them on; and what a worker does with those that are.

A rule answers when a request opens, or never. Its row is locked first, in the transaction of the answer: what has
suspended it by then counts. It looks at its samples in the same transaction, so that a person's answer costs nothing.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime, timedelta
from functools import reduce
from math import ceil
from operator import or_
from typing import Any

from django.db import IntegrityError
from django.db.models import Max, Q
from django.utils import timezone

from checkpoints.database.clock import SETTLING, database_now
from checkpoints.database.compiled import FirstValues, Literally, Placeholder, insert
from checkpoints.database.storage import write
from checkpoints.models import OPEN, Answer, HumanRequest, Rule, RuleUse, SecondLook
from checkpoints.models.fields import encrypted_for
from checkpoints.records import Json, JsonObject
from checkpoints.rules import rule_name
from wfdash.access.viewer import Viewer
from wfdash.actions import pacing
from wfdash.actions.common import REQUEST, drawn, lock_request
from wfdash.actions.pacing import SweepBackoff, idempotent, made_before
from wfdash.actions.requests.announce import UNANNOUNCED
from wfdash.actions.requests.answer import answer_by_rule, validate_answer
from wfdash.actions.requests.finalize import ACTIVE, lock_rule, record_rule, suspend
from wfdash.actions.requests.second import ask_second_look
from wfdash.domain.errors import Invalid, NotAllowed, WrongState
from wfdash.queries.requests.rules import (
    FEWEST,
    FILTER,
    Card,
    RuledQuestion,
    RuleTerms,
    asked_of,
    bounded,
    find_rule,
    may_make,
    may_stop,
    no_rule_because,
    parse_condition,
    read_history,
    recently_answered,
    rehearse,
    terms_of,
    value_at,
    verdict_of_people,
)
from wfdash.queries.unreadable import is_readable
from wfdash.records.requests import CreateRule
from wfdash.values.schemas.validate import answer_problems

MAKERS = "Rules are made by people who may answer requests of this workflow and read its values, not by programs"
STEPS = {"draft": "rehearsed", "rehearsed": "shadow", "shadow": "on", "suspended": "rehearsed"}
"""What a rule can become next; besides, it can be rehearsed again, and what is active suspended."""


def create_rule(viewer: Viewer, given: CreateRule, *, key: str | None = None) -> Rule:
    """Make a rule for the requests of a step, as a draft: it answers nothing.

    Its condition is ``bounded``. ``Invalid`` at ``condition``, ``step`` or ``action`` says what no rule may read or do
    there; ``NotAllowed``.
    """
    if not may_make(viewer, given.workflow):
        raise NotAllowed(MAKERS)
    terms, latest = parse_condition(given.condition), _latest(given.workflow, given.step)
    asked, value = asked_of(latest), value_of(given.action, latest.answer_schema)
    if because := no_rule_because(asked, terms):
        raise Invalid.at("condition", f"{because}: no rule may answer such requests")
    for term in terms:
        if FILTER[term.key].paths and value_at(latest.card, term) is None:
            raise Invalid.at("condition", f"The latest request has no single value {term.name}. {_names(latest.card)}")
    offered = [one["name"] for one in latest.card.get("actions", ())]
    if given.action not in offered or answer_problems(latest.card, latest.answer_schema, value):
        raise Invalid.at("action", f"Choose an action that needs nothing else, of: {', '.join(offered) or 'none here'}")
    made = given.model_dump(exclude={"lasts"}) | {"condition": bounded(given.condition, terms)}
    with write(), idempotent(viewer, key, "make rule", given.model_dump()) as call:
        if call.previous_result is not None:
            return made_before(Rule, call.previous_result["rule"])
        pacing.charge(viewer, "rule")
        now = timezone.now()
        times = {"created": now, "since": now, "pinned": now, "expires": now + timedelta(days=given.lasts)}
        known = {"kind": asked.kind, "form": asked.form, "version": latest.run.version}
        number = (Rule.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
        try:
            rule = Rule.objects.create(pk=number, owner=viewer.user, **made, **times, **known)
        except IntegrityError:
            raise WrongState("Someone made a rule at the same moment. Make it again") from None
        call.record(rule=rule.pk)
        record_rule(viewer, "make rule", rule, {**made, "expires": rule.expires.isoformat()}, "answer")
    return rule


def move_rule(viewer: Viewer, rule_id: int, to: str, reason: str = "", *, key: str | None = None) -> Rule:
    """Rehearse a rule, let it run beside people, switch it on or suspend it.

    To rehearse (up to 100,000 decisions) fits it to the workflow and the form as they are now. ``WrongState`` says what
    comes first; ``NotAllowed``, ``NotFound``.
    """
    found = find_rule(viewer, rule_id)
    _refuse(viewer, found, to)
    changes = _rehearsed(found) if to == "rehearsed" else {}
    with write(), idempotent(viewer, key, f"{to} rule", [rule_id, reason]) as call:
        if call.previous_result is not None:
            return found
        pacing.charge(viewer, "rule")
        rule = lock_rule(found.pk)
        if to == "suspended":
            if rule.state not in ACTIVE:
                raise WrongState(f"It is {rule.state}, and answers nothing")
            suspend(rule, reason or f"{viewer.name} suspended it", viewer)
            return rule
        if STEPS.get(rule.state) != to and not (to == rule.state == "rehearsed"):
            raise WrongState(f"It is {rule.state}: what comes next is {STEPS.get(rule.state, 'to suspend it')}")
        if rule.expires <= database_now():
            raise WrongState("It has expired. Make a new rule")
        if to == "on":
            _refuse_early(viewer, rule)
            changes = {"switched_by": viewer.name, "tally": {}}
        Rule.objects.filter(pk=rule.pk).update(state=to, since=timezone.now(), problem="", **changes)
        rule.refresh_from_db()
        facts = {key: value for key, value in (rule.rehearsal or {}).items() if key in ("looked", "fitting", "agreed")}
        record_rule(viewer, f"{to} rule" if to != "on" else "switch on rule", rule, facts, "answer")
    return rule


def _refuse(viewer: Viewer, rule: Rule, to: str) -> None:
    """Raise ``NotAllowed`` for who may not do this to a rule."""
    if to == "suspended":
        if not may_stop(viewer, rule):
            raise NotAllowed("Rules are suspended by who may operate the workflow, and by their owner")
    elif not may_make(viewer, rule.workflow):
        raise NotAllowed(MAKERS)
    elif to == "on" and not viewer.may("operate", rule.workflow):
        raise NotAllowed("Rules are switched on by people who may operate the workflow")


def _refuse_early(viewer: Viewer, rule: Rule) -> None:
    """Refuse to switch on a rule that was not long enough beside people, or that another person has to switch on."""
    uses = rule.uses.filter(kind="shadow", agrees__isnull=False, at__gte=rule.since)
    over = rule.since + timedelta(days=rule.days)
    if over > database_now():
        raise WrongState(f"It runs beside people until {over:%Y-%m-%d %H:%M} UTC")
    if not uses.exists():
        raise WrongState("People have decided nothing yet that fits it: let it run beside them")
    policy = _latest(rule.workflow, rule.step).policy or {}
    if policy.get("rules", 1) > 1 and viewer.name == rule.owner.get_username():
        raise NotAllowed("The workflow wants another person than its maker to switch it on")
    if uses.filter(agrees=False).exists() and viewer.name == rule.owner.get_username():
        raise NotAllowed(
            "People decided otherwise while it ran beside them: another person than its maker switches it on"
        )


def _rehearsed(rule: Rule) -> JsonObject:
    """Return what to store of a rehearsal. Not in a transaction: it reads for seconds."""
    latest = _latest(rule.workflow, rule.step)
    form = asked_of(latest).form
    found = rehearse(terms_of(rule, form), rule.action, read_history(rule.workflow, rule.step)).model_dump(mode="json")
    stored = encrypted_for(Rule, "rehearsal", found, str(rule.pk))
    return {"rehearsal": stored, "version": latest.run.version, "form": form, "pinned": timezone.now()}


def _latest(workflow: str, step: str) -> HumanRequest:
    """Return the newest readable request of a step. ``Invalid`` at ``step`` if there is none."""
    rows = HumanRequest.objects.filter(workflow=workflow, step=step).select_related("run")
    still = rows.filter(OPEN).order_by("-created", "-id").first()
    latest = still or rows.filter(recently_answered(FEWEST)).order_by("-answered", "-id").first()
    if latest is None or not is_readable(latest):
        raise Invalid.at("step", "This step has asked nothing yet that can be read")
    return latest


def _names(card: Card) -> str:
    names = [name for one in FILTER.qualifiers if one.paths for name, _ in one.paths(card)]
    return f"It has {', '.join(names[:10])}" if names else "It has no values"


def value_of(action: str, schema: JsonObject, rule: str = "a rule") -> Json:
    """Return the answer that takes an action, with a reason where one is asked for."""
    said = next((name for name in ("reason", "feedback") if name in schema.get("properties", {})), "")
    return {"action": action, **({said: f"By {rule}."} if said and action == "reject" else {})}


# What a worker does. A request is asked of rules before it is announced, so people hear only of what is theirs.

_backoff = SweepBackoff("Request %s could not be asked of rules")


def answer_opened(limit: int = 100) -> int:
    """Ask the active rules of requests that opened, the oldest first, one transaction each. Returns of how many."""
    gates = list(Rule.objects.filter(state__in=ACTIVE).values_list("workflow", "step").distinct())
    if not gates:
        return 0
    wanted = reduce(or_, (Q(workflow=workflow, step=step) for workflow, step in gates))
    rows = UNANNOUNCED.filter(OPEN, wanted).exclude(pk__in=_backoff.backed_off()).order_by("created")
    return _backoff.run_each(list(rows.values_list("pk", flat=True)[:limit]), _ask_rules)


def _ask_rules(request_id: str) -> int:
    """Return 1 if a rule answered, or keeps in mind what people decide."""
    request = REQUEST().first(id=request_id)
    if request is None or not is_readable(request):
        return 0
    asked, fitting = asked_of(request), list[Rule]()
    active = Rule.objects.filter(state__in=ACTIVE, since__lte=request.created)
    for rule in active.filter(workflow=request.workflow, step=request.step).select_related("owner").order_by("pk"):
        terms = terms_of(rule)
        if problem := _outdated(rule, request, terms, asked):
            with write():
                suspend(lock_rule(rule.pk), problem)
        elif request.run.version == rule.version and terms.fits(asked, request.card):
            fitting.append(rule)
    live = [rule for rule in fitting if rule.state == "on"]
    # Rules that would answer differently leave it to people.
    if live and len({rule.action for rule in live}) == 1:
        value = value_of(live[0].action, request.answer_schema, rule_name(live[0].pk))
        if problems := validate_answer(request, value):
            with write():
                suspend(lock_rule(live[0].pk), f"Its answer was refused: {problems[0]['msg']}")
        elif _answer(live[0].pk, request, value):
            return 1
    shadows = [rule.pk for rule in fitting if rule.state == "shadow"]
    return sum(_keep_in_mind(rule, request_id) for rule in shadows)


def _outdated(rule: Rule, request: HumanRequest, terms: RuleTerms, asked: RuledQuestion) -> str:
    """Return why a rule does not fit the workflow or its owner any more, by what is asked now."""
    if request.run.version != rule.version and request.run.created > rule.pinned:
        return "The workflow has another version now: rehearse it again"
    if not (terms.is_for(asked) and terms.holds(request.card)):
        return ""
    if asked.form != rule.form and request.run.created > rule.pinned:
        return "The form of the answer has changed: rehearse it again"
    return "" if terms.owner else "Its owner may no longer answer requests of this workflow"


def _keep_in_mind(rule_id: int, request_id: str) -> int:
    """Keep in mind that a rule beside people would have answered. Returns 0 if it is beside them no longer."""
    with write():
        rule = lock_rule(rule_id)
        if rule.state != "shadow":
            return 0
        if rule.expires <= database_now():
            suspend(rule, "It expired")
            return 0
        row = {"kind": "shadow", "at": timezone.now()}
        return int(RuleUse.objects.get_or_create(rule=rule, request_id=request_id, defaults=row)[1])


def _answer(rule_id: int, found: HumanRequest, value: Json) -> bool:
    """Let a rule answer, or leave the request to people as a sample; all is looked at again, locked. False: neither."""
    with write():
        rule = lock_rule(rule_id)
        # In one statement: a disagreement is a doubt until it takes effect, and news from then on.
        now, seen = _state.read(rule=rule.pk, asked=found.pk, action=rule.action)
        if rule.state != "on" or "used" in seen or "open" not in seen:
            return False
        terms, tally = terms_of(rule), today(rule, now)
        sample = is_sample(rule, found.pk, tally)
        if problem := _why_stop(rule, now, seen, used_up=not sample and tally["answers"] >= rule.quota):
            suspend(rule, problem)
            return False
        if "doubt" in seen:
            return False
        request = lock_request(found, outside=True)
        gone = request.answered or request.closed or request.settles or request.assignee_id
        if gone or not terms.fits(asked_of(request), request.card):
            return False
        tally["fits"], kind = tally["fits"] + 1, "sample" if sample else "answer"
        tally["samples" if sample else "answers"] += 1
        tally["unseen"] = [] if tally["samples"] else [*tally["unseen"], found.pk]
        tally["owed"] &= not sample
        Rule.objects.filter(pk=rule.pk).update(tally=tally)
        insert(RuleUse(rule=rule, request=request, kind=kind, at=timezone.now()))
        if not sample:
            answer_by_rule(rule, request, value)
        return True


UNCOMPARED = RuleUse.objects.filter(
    Q(request__answer__by__isnull=False) | Q(request__second_look__at__isnull=False),
    Literally("kind", "IN ('shadow', 'sample')"),
    agrees__isnull=True,
)
"""What people have decided, or would have at a second look, and was not compared yet."""
RULE, ASKED, ACTION = map(Placeholder, ("rule", "asked", "action"))
_samples = RuleUse.objects.filter(rule_id=RULE, kind="sample", agrees__isnull=True)
_state = FirstValues(
    open=HumanRequest.objects.filter(OPEN, pk=ASKED).values_list("pk"),
    used=RuleUse.objects.filter(Q(rule_id=RULE) | Q(kind="answer"), request_id=ASKED).values_list("pk"),
    news=UNCOMPARED.filter(rule_id=RULE).values_list("pk"),
    doubt=SETTLING.filter(request__in=_samples.values("request")).exclude(verdict=ACTION).values_list("pk"),
)
"""``doubt``: a person decided a sample otherwise, which can still be undone: until then the rule answers nothing."""


# The sample: which requests go to people although the rule fits. Keyed by the server's secret, so no program can tell.
# A day that ends without one has a second look at one of its answers, which is its sample from then on.

SALT = "wfdash.rules"
NEW_DAY: JsonObject = {"fits": 0, "answers": 0, "samples": 0, "unseen": [], "asked": []}
PLACES = 5
"""The first requests of a day that fit, one of which goes to people; more where more fitted the day before."""


def today(rule: Rule, now: datetime) -> dict[str, Any]:
    """Return what a rule did today: how much fitted it, its answers and samples, ``unseen``: which it answered while
    there was no sample, ``asked``: of which a second look was asked; ``before``: how much fitted on the last day;
    ``due``: what was unseen or asked of days that ended so; ``owed``: whether the next that fits is a sample, as no one
    could give a second look, or did within a day.

    A clock that is set back begins no new day.
    """
    day, known = f"{now:%Y-%m-%d}", {**NEW_DAY, "due": [], "owed": False, **rule.tally}
    if known.get("day", "") >= day:
        return known
    ended = filter(None, [*known["asked"], known["unseen"]])
    return {**known, **NEW_DAY, "day": day, "before": known["fits"], "due": [*known["due"], *ended]}


def is_sample(rule: Rule, request_id: str, tally: dict[str, Any]) -> bool:
    """Return whether a request that fits goes to people: a share of all, and one a day at a place that is drawn, too.

    The place is one of the first of the day, of which there are a few even on the first day.
    """
    if tally["owed"] or drawn(SALT, f"{rule.pk}:{request_id}") < rule.share:
        return True
    places = range(min(ceil(1 / rule.share), max(PLACES, tally["before"])))
    place = min(places, key=lambda place: drawn(SALT, f"{rule.pk}:{tally['day']}:{place}"))
    return place == int(tally["fits"])


def _look_back(rule: Rule) -> None:
    """Ask for a second look at an answer of each day that ended without a sample, of a locked rule; which, is drawn
    once those of the day have taken effect, whatever became of the rule since.
    """
    tally = today(rule, database_now())
    for day in list(tally["due"]):
        if SETTLING.filter(request__in=day).exists():
            continue
        look = SecondLook.objects.filter(request__in=day).first()
        found = Answer.objects.filter(rule=rule.pk, request__in=day).select_related("request__run__created_by")
        ranked = sorted([] if look else found, key=lambda one: drawn(SALT, f"{rule.pk} at {one.pk}"))
        asked = next(([one.pk] for one in ranked if ask_second_look(lock_request(one.request), one)), [])
        rule.uses.filter(request__in=asked).update(kind="sample")
        tally["owed"] |= not (look.at if look else asked)
        tally["asked"] = [*tally["asked"], asked]
        tally["due"].remove(day)
        Rule.objects.filter(pk=rule.pk).update(tally=tally)


# What people decided of samples and beside a shadow.

EXPIRING = Rule.objects.filter(state__in=ACTIVE).order_by("expires")


def _why_stop(rule: Rule, now: datetime, seen: Container[str] = ("news",), *, used_up: bool = False) -> str:
    """Compare what people decided, if there is ``news``, of a locked rule. Returns why it ends now: what differs in a
    sample, expiry or quota; empty if it does not.
    """
    problem = ""
    uses = UNCOMPARED.filter(rule=rule).select_related("request__answer", "request__second_look").order_by("pk")
    for use in uses if "news" in seen else ():
        verdict = verdict_of_people(use.request)
        agrees = verdict == rule.action
        RuleUse.objects.filter(pk=use.pk).update(agrees=agrees)
        if not agrees and use.kind == "sample":
            problem = problem or f"In its sample a person decided otherwise: {verdict} instead of {rule.action}"
    used = f"It has answered {rule.quota} requests today, which is its quota" if used_up else ""
    return problem or ("It expired" if rule.expires <= now else used)


def compare_samples(limit: int = 100) -> int:
    """Compare what people decided with what rules would have, ask for second looks at days without a sample, and end
    rules that have expired. Returns of how many.
    """
    now = database_now()
    due = [*UNCOMPARED.values_list("rule", flat=True).distinct()[:limit]]
    for rule in Rule.objects.only("tally", "state", "expires"):
        due += [rule.pk] if today(rule, now)["due"] or (rule.state in ACTIVE and rule.expires <= now) else []
    return _comparing.run_each([str(rule) for rule in dict.fromkeys(due)][:limit], _compare)


_comparing = SweepBackoff("Rule r%s could not be compared with what people decided")


def _compare(rule_id: str) -> int:
    with write():
        rule = lock_rule(int(rule_id))
        _look_back(rule)
        if problem := _why_stop(rule, database_now()):
            suspend(rule, problem)
    return 1
