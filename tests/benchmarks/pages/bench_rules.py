"""Rules over 100,000 decisions of one step: processor time of a rehearsal, of a suggestion, and of a rule's answer.

Both databases, each in a process: ``python -m tests.benchmarks.pages.bench_rules [sqlite|postgres]``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.benchmarks.pages.measure import load_server, on_each_database
from tests.benchmarks.world import Report, median, set_django_up

DECISIONS = 100_000
AT_ONCE = 5_000
ANSWERS = 200


def fill() -> None:
    """Store the decisions, every tenth of them a rejection, with a rule that is on."""
    from django.utils import timezone

    from checkpoints import ids
    from checkpoints.models import Answer, HumanRequest, Run
    from tests import people

    rnd, now, by = random.Random(1), timezone.now(), people.make_people()["ben"]
    for first in range(0, DECISIONS, AT_ONCE):
        runs, requests, answers = [], [], []
        for number in range(first, first + AT_ONCE):
            run, request, at = ids.new_run_id(), ids.new_request_id(), now - timedelta(minutes=number)
            facts = {"workflow": people.WORKFLOW, "version": "v1", "created": at}
            runs.append(Run(id=run, family=run, phase="completed", updated=at, **facts))
            amount = rnd.randrange(1, 90) if number % 10 else rnd.randrange(100, 900)
            asked = {"run_id": run, "workflow": people.WORKFLOW, "step": "review", "kind": "approval", "risk": 1}
            form = {"card": card(amount, number), "answer_schema": people.DECISION, "key": "review:1"}
            requests.append(HumanRequest(id=request, created=at, answered=at, closed=at, **asked, **form))
            verdict = "approve" if number % 10 else "reject"
            answers.append(Answer(request_id=request, by=by, verdict=verdict, value={"action": verdict}, at=at))
        Run.objects.bulk_create(runs)
        HumanRequest.objects.bulk_create(requests)
        Answer.objects.bulk_create(answers)


def card(amount: int, number: int) -> dict[str, Any]:
    """Return a card as a refund has it."""
    from tests.people import ACTIONS

    proposal = {"amount": amount, "country": "IT", "customer": f"Customer {number % 997}", "order": number}
    texts = {"subject": f"Refund {amount} for order {number}", "body": "The chair arrived with a broken leg. " * 4}
    return {**texts, "risk": "low", "actions": ACTIONS, "proposal": proposal, "context": {"since": "2024-01-01"}}


def worked(do: Callable[[], object], times: int = 1) -> list[float]:
    """Return the milliseconds of processor time of each call."""
    found = []
    for _ in range(times):
        began = time.process_time()
        do()
        found.append((time.process_time() - began) * 1000)
    return found


def run(vendor: str) -> int:
    """Measure on one database; returns the exit status."""
    set_django_up()
    from django.db import connection

    from checkpoints.models import Reply
    from tests import people
    from tests.actions.requests.test_rules import asked, rule_of
    from wfdash.actions.requests import rules
    from wfdash.queries.requests.rules import read_history, rehearse, suggest, terms_of

    fill()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # Else PostgreSQL may plan the first statement for empty tables.
    load_server()
    report = Report(f"Rules over {DECISIONS:,} decisions, {vendor}")
    otto = people.viewer("otto")
    report.at_most("suggestion for a page", median(worked(lambda: suggest(otto, people.WORKFLOW, "review"), 20)), 50)
    rule = rule_of(otto.user, "proposal.amount:<100 proposal.country:IT")
    kept: list[Any] = []
    took = worked(lambda: kept.append(rehearse(terms_of(rule), "approve", read_history(people.WORKFLOW, "review"))))
    assert kept[0].looked == DECISIONS
    assert kept[0].agreed == kept[0].fits == DECISIONS * 9 // 10
    report.at_most("rehearsal", took[0], 2000)
    rules.is_sample = lambda *_: False
    waiting = [asked(card(5, n)["proposal"]).pk for n in range(ANSWERS)]
    answers = [worked(lambda one=one: rules._ask_rules(one))[0] for one in waiting]  # type: ignore[misc]
    assert Reply.objects.filter(rule=rule.pk).count() == ANSWERS
    report.at_most("a rule's answer", median(answers), 10)
    return report.show()


if __name__ == "__main__":
    sys.exit(on_each_database("tests.benchmarks.pages.bench_rules", run))
