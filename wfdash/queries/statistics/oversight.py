"""How people oversaw a workflow in a month: who could, how they decided, what answered besides, and what no one saw."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from django.db.models import Count, Exists, F, OuterRef, Q
from django.utils import timezone

from checkpoints.content.canonical_json import dumps
from checkpoints.models import FOR_PEOPLE, OPEN, AuditHead, HumanRequest, Reply, Rule, RuleUse, Run, SecondLook
from checkpoints.models.fields import current_keyring
from checkpoints.records import JsonObject
from checkpoints.rules import rule_name
from wfdash.access.directory import people_who
from wfdash.access.viewer import Viewer
from wfdash.domain.errors import Invalid, NotFound
from wfdash.queries.requests.decisions import ANSWERED, outcome, reversed_later
from wfdash.queries.requests.rules import BY_RULE
from wfdash.queries.runs.retention import current_rules
from wfdash.records.statistics import OversightReport, OversightRule

REPORT = "wfdash-oversight/1"
"""The format of a report."""
MOST_LOOKS = 10_000
"""Second looks of a month that are looked through, the latest of all workflows."""
MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")


def read_oversight(viewer: Viewer, workflow: str, month: str) -> OversightReport:
    """Return the report of a workflow and a month in UTC, such as ``2026-11`` (twelve queries).

    ``Invalid`` at ``month``; ``NotFound`` for those who do not operate the workflow.
    """
    if not viewer.may("operate", workflow):
        raise NotFound("Workflow not found, or you do not operate it")
    found = MONTH.fullmatch(month)
    if found is None:
        raise Invalid.at("month", "Write a month, such as 2026-11")
    year, number = int(found[1]), int(found[2])
    since, until = datetime(year, number, 1, tzinfo=UTC), datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    decided = HumanRequest.objects.filter(ANSWERED, workflow=workflow, answered__gte=since, answered__lt=until)
    ways = decided.annotate(way=outcome()).values_list("way").annotate(Count("pk")).order_by("way")
    overrode = Reply.objects.filter(request=OuterRef("pk"), stands="overrode", undone__isnull=True)
    ended = Run.objects.filter(workflow=workflow, finished__gte=since, finished__lt=until).order_by()
    asked = HumanRequest.objects.filter(FOR_PEOPLE, run=OuterRef("pk"))
    latest = SecondLook.objects.filter(asked__gte=since, asked__lt=until).order_by("-asked").values("pk")[:MOST_LOOKS]
    looks = SecondLook.objects.filter(pk__in=latest, request__workflow=workflow, request__answer__by__isnull=False)
    same = Count("pk", filter=Q(verdict=F("request__answer__verdict"), at__isnull=False))
    head, still = AuditHead.objects.first(), HumanRequest.objects.filter(OPEN, workflow=workflow)
    return OversightReport(
        format=REPORT,
        workflow=workflow,
        month=month,
        made=timezone.now(),
        chain=f"{head.n}:{head.hash}" if head else "",
        reviewers=_names("answer", workflow),
        operators=_names("operate", workflow),
        decisions=dict(ways),
        reversed=decided.filter(reversed_later()).count(),
        overridden=decided.filter(Exists(overrode)).count(),
        runs=ended.count(),
        unseen=ended.filter(~Exists(asked)).count(),
        unanswerable=still.exclude(stuck="").count(),
        overdue=still.filter(due__lt=timezone.now()).count(),
        rules=_rules(workflow, since, until),
        looks=looks.aggregate(asked=Count("pk"), given=Count("at"), same=same),
        kept_days=current_rules().days(workflow),
    )


def _names(right: str, workflow: str) -> tuple[str, ...]:
    return tuple(person.name for person in people_who(right, workflow, programs=False))


def _rules(workflow: str, since: datetime, until: datetime) -> tuple[OversightRule, ...]:
    found = list(Rule.objects.filter(workflow=workflow, created__lt=until).order_by("pk"))
    uses = RuleUse.objects.filter(rule__in=[rule.pk for rule in found], at__gte=since, at__lt=until)
    sample = Q(kind="sample")
    counted = uses.values_list("rule").annotate(
        answers=Count("pk", filter=BY_RULE),
        samples=Count("pk", filter=sample),
        agreed=Count("pk", filter=sample & Q(agrees=True)),
    )
    numbers = {rule: counts for rule, *counts in counted.order_by()}
    rules = []
    for rule in found:
        answers, samples, agreed = numbers.get(rule.pk, (0, 0, 0))
        facts = {"name": rule_name(rule.pk), "step": rule.step, "state": rule.state}
        rules.append(OversightRule(**facts, answers=answers, samples=samples, agreed=agreed))
    return tuple(rules)


def sign_report(report: OversightReport) -> JsonObject:
    """Return a report as JSON with a signature by the keys of the audit."""
    body: JsonObject = report.model_dump(mode="json")
    return {**body, "signature": current_keyring().sign("oversight", dumps(body).decode())}


def report_flaw(document: JsonObject) -> str:
    """Return why a report does not verify; empty if it does."""
    body = {name: value for name, value in document.items() if name != "signature"}
    return current_keyring().flaw(str(document.get("signature")), "oversight", dumps(body).decode())
