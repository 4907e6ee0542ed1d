"""A rule for ``pay`` beside the people who ask and answer: plays, see ``plays``."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

STARTS_AFTER = 8
"""Runs that are started after the rule has ended."""
SOON = timedelta(seconds=1)


def switch_on(ledger: str, limits: dict[str, Any]) -> int:
    """Let a rule be on that one person made and another switched on; returns the number of its first request's run."""
    from checkpoints.database.clock import database_now
    from checkpoints.models import Rule
    from tests.faults.plays import admin, drive, start
    from wfdash.actions.requests.rules import create_rule, move_rule
    from wfdash.records.requests import CreateRule

    drive([start("pay", 1, ledger)], ["waiting", "paused"])
    maker = admin("maker")
    given = CreateRule(workflow="pay", step="pay_ask", condition="proposal.amount:<1000")
    rule = create_rule(maker, given)
    move_rule(maker, rule.pk, "rehearsed")
    now = database_now()
    return Rule.objects.filter(pk=rule.pk).update(state="on", since=now, switched_by="switcher", **limits)


def live_beside(ledger: str, end: str, seed: int) -> int:
    """Ask, and decide what the rule leaves to people, until it has ended and all is done; ``end``: whether people end
    it, and how. Returns how many runs were started.
    """
    from checkpoints.database.clock import database_now
    from checkpoints.models import Reply, Rule, Run
    from tests.faults.plays import admin, start
    from wfdash.actions.requests.rules import move_rule

    drawn, begun, deadline = random.Random(seed), 0, time.monotonic() + 100
    enough, after = drawn.randrange(12, 20), STARTS_AFTER
    while after or Run.objects.exclude(phase__in=("completed", "failed", "cancelled")).exists():
        ended = Rule.objects.get().state == "suspended"
        if after:
            begun, after = begun + 1, after - ended
            # None of those that ``graphs.right_answer`` refuses.
            start("pay", begun * 5 - drawn.randrange(1, 5), ledger)
        over = Reply.objects.filter(rule__isnull=False).count() >= enough
        if over and not ended and end == "suspend":
            move_rule(admin("otto"), 1, "suspended", "enough")
        if over and not ended and end == "expiry":
            Rule.objects.filter(expires__gt=database_now() + SOON).update(expires=database_now() + SOON)
        decide(ledger, against=end == "sample" and over)
        assert time.monotonic() < deadline, [ended, begun, *Run.objects.values_list("phase", flat=True)]
        time.sleep(drawn.uniform(0.0, 0.3))
    return begun


def decide(ledger: str, *, against: bool) -> None:
    """Decide truthfully what has been open for a while; ``against``: a sample otherwise than the rule would have."""
    from checkpoints.database.clock import database_now
    from checkpoints.models import OPEN, HumanRequest, RuleUse
    from tests.faults.plays import admin, right_value
    from wfdash.actions.requests.answer import answer_request
    from wfdash.domain.errors import AlreadyAnswered, NoLongerOpen

    left = HumanRequest.objects.filter(OPEN, created__lt=database_now() - timedelta(seconds=1.5))
    for request in left.select_related("run"):
        no = against and RuleUse.objects.filter(request=request, kind="sample").exists()
        try:
            answer_request(admin(), request.pk, {"action": "reject"} if no else right_value(request, ledger))
        except (AlreadyAnswered, NoLongerOpen):
            continue


def die_in_its_transaction(ledger: str, committed: bool, looks: bool) -> int:
    """Let a rule answer, as a worker does, or if ``looks`` a day end in which it did; and die: before the transaction
    of the answer, or of asking for the second look, ends, or after it. The place of the day's sample is over.
    """
    from checkpoints.database.clock import database_now
    from checkpoints.models import HumanRequest, Rule
    from tests.faults.crashes.failpoints import KILLED
    from tests.faults.plays import admin, drive, start
    from wfdash.actions.requests import rules

    # What drives the run sweeps, too: it finds no rule.
    Rule.objects.update(state="draft")
    drive([start("pay", 2, ledger)], ["waiting", "paused"])
    tally = {"day": f"{database_now():%Y-%m-%d}", "fits": 9, "answers": 0, "samples": 0, "before": 0}
    Rule.objects.update(state="on", tally=tally)
    HumanRequest.objects.update(told=None)
    if looks:
        admin("ben")
        rules.answer_opened()
        Rule.objects.update(tally={**Rule.objects.get().tally, "day": "2026-01-01"})
    act = "ask_second_look" if looks else "answer_by_rule"
    plain, do, given = rules.write, getattr(rules, act), list[Any]()

    @contextlib.contextmanager
    def dying() -> Iterator[None]:
        with plain():
            yield
            if given and not committed:
                os._exit(KILLED)
        if given:
            os._exit(KILLED)

    rules.write = dying
    setattr(rules, act, lambda *asked: given.append(do(*asked)) or True)
    return rules.answer_opened() + rules.compare_samples()


def tell() -> dict[str, Any]:
    """Return what the chain and the rows say of the rule."""
    from checkpoints.models import Answer, AuditEntry, Reply, Rule, RuleUse, SecondLook
    from wfdash.actions.audit import check_chain

    rule = Rule.objects.get()
    entries = AuditEntry.objects.filter(verb__in=("answer", "suspend rule", "undo")).order_by("n")
    uses = RuleUse.objects.filter(rule=rule)
    stands = Reply.objects.filter(rule=rule.pk, undone=None)
    return {
        "entries": [[one.actor == "rule r1", one.verb, one.request] for one in entries],
        "answered": sorted(uses.filter(kind="answer").values_list("request", flat=True)),
        "samples": sorted(uses.filter(kind="sample").values_list("request", flat=True)),
        "replies": sorted(Reply.objects.filter(rule=rule.pk).values_list("request", flat=True)),
        "stand": sorted(stands.values_list("request", flat=True)),
        "answers": sorted(Answer.objects.filter(rule=rule.pk).values_list("request", flat=True)),
        "flaws": [broken.words for broken in check_chain()[1]],
        "looks": SecondLook.objects.count(),
        "state": rule.state,
        "problem": rule.problem,
        "tally": rule.tally,
    }
