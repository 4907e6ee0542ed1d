"""Second looks that a person may give, and what is known of how a question is decided: no one is named or ranked."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import lru_cache
from statistics import median
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from checkpoints.models import Answer, HumanRequest, Presence, Reply, SecondLook
from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.domain import json_patch
from wfdash.domain.agreement import LEAST, Agreement, agreement_of, confusion
from wfdash.domain.errors import NotFound
from wfdash.domain.votes import Vote, choice_of
from wfdash.queries.requests.dataset import edit_of
from wfdash.queries.requests.request import may_answer
from wfdash.queries.unreadable import document, is_readable, text

KEPT = timedelta(days=30)
"""After so long no one is asked for a second look any more."""
SPAN = timedelta(days=90)
"""The time of which a question's page tells."""
MOST_READ = 500
"""Decisions of a question that its page reads, the latest."""
MOST_COUNTED = 10_000
"""Second looks that are counted by question, the latest."""
MOST_LISTED = 50
FAST = timedelta(seconds=5)
"""A decision so soon after the same person's one before: no card of more than a line is read in that time."""
LENGTHS = ((500, "short"), (2_000, "medium"), (None, "long"))
"""Cards by the characters of their texts and values."""


@frozen
class OpenLook:
    """A second look that is asked for; ``mine``: of this person first."""

    request: str
    subject: str
    workflow: str
    step: str
    asked: datetime
    mine: bool


def read_open_looks(viewer: Viewer) -> tuple[OpenLook, ...]:
    """Return the second looks that this person may give, those asked of them first (one query)."""
    rows = SecondLook.objects.filter(_open(viewer)).select_related("request", "request__answer__by")
    found = rows.order_by("-asked")[:MOST_LISTED] if viewer.may_anywhere("answer") and not viewer.token else ()
    looks = [
        OpenLook(
            request=row.pk,
            subject=row.request.subject or row.request.step,
            workflow=row.request.workflow,
            step=row.request.step,
            asked=row.asked,
            mine=row.of_id == viewer.user.pk,
        )
        for row in found
        if viewer.name not in json.loads(row.request.answer.others or "[]")
    ]
    return tuple(sorted(looks, key=lambda look: not look.mine))


def _open(viewer: Viewer) -> Q:
    mine = HumanRequest.objects.filter(may_answer(viewer)).values("pk")
    known = Presence.objects.filter(user=viewer.user, request=OuterRef("pk"), seen__gt=OuterRef("request__answered"))
    own = Q(request__answer__by=viewer.user) | Q(request__answer__acting_for=viewer.name)
    return Q(at__isnull=True, asked__gt=timezone.now() - KEPT, request__in=mine) & ~own & ~Q(Exists(known))


@frozen
class QuestionAsked:
    """A step whose decisions get second looks: how many were asked for and given."""

    workflow: str
    step: str
    asked: int
    given: int


def read_questions(viewer: Viewer) -> tuple[QuestionAsked, ...]:
    """Return the questions with second looks of the workflows that this person operates (one query)."""
    if not viewer.may_anywhere("operate"):
        return ()
    latest = SecondLook.objects.filter(asked__gt=timezone.now() - SPAN, request__answer__by__isnull=False)
    few = latest.order_by("-asked").values("pk")[:MOST_COUNTED]
    rows = HumanRequest.objects.filter(viewer.scope("operate"), pk__in=few)
    counted = rows.values("workflow", "step").annotate(asked=Count("second_look"), given=Count("second_look__at"))
    return tuple(QuestionAsked(**row) for row in counted.order_by("workflow", "step")[:MOST_LISTED])


@frozen
class Disagreement:
    """A decision that a second person would have made differently."""

    request: str
    subject: str
    first: str
    second: str
    reason: str
    settled: str


@frozen
class Quality:
    """How a question was decided lately. Of fewer than ``LEAST`` decisions only their number is given.

    ``edits``: fields that people changed, and how often. ``lengths``: cards by their length, how many were decided on
    the page, and the median seconds from when the person opened it. ``fast``: approved unchanged within ``FAST`` of the
    same person's decision before, of ``paced`` decisions on the page.
    """

    decisions: int
    agreement: Agreement
    table: list[tuple[str, list[tuple[str, int]]]]
    prereview: Agreement
    disagreements: tuple[Disagreement, ...] = ()
    edits: list[tuple[str, int]] = field(default_factory=list)
    lengths: list[tuple[str, int, float]] = field(default_factory=list)
    fast: int = 0
    paced: int = 0


def read_quality(viewer: Viewer, workflow: str, step: str) -> Quality:
    """Return what is known of a question, from its latest ``MOST_READ`` decisions within ``SPAN``. Second looks at what
    rules answered count with those rules, not here.

    Cards are read again only when something was decided or settled since (two queries, else six). ``NotFound`` for
    those who do not operate the workflow.
    """
    if not viewer.may("operate", workflow):
        raise NotFound("Question not found, or you do not operate its workflow")
    since, asked = timezone.now() - SPAN, {"workflow": workflow, "step": step}
    rows = HumanRequest.objects.filter(**asked, answered__gt=since, answer__isnull=False).order_by("-answered")
    looks = SecondLook.objects.filter(at__gt=since, request__workflow=workflow, request__step=step).order_by("-at")
    looks = looks.filter(request__answer__by__isnull=False)
    decisions = rows.values_list("pk", "answered", "answer__at", "answer__verdict")[:MOST_READ]
    given = looks.values_list("pk", "at", "settled", "request__answer__at")[:MOST_READ]
    return _quality(tuple(decisions), tuple(given))


@lru_cache(maxsize=16)
def _quality(decisions: tuple[tuple[Any, ...], ...], looked: tuple[tuple[Any, ...], ...]) -> Quality:
    """Return what is known from these decisions and second looks, which begin with their requests."""
    rows = HumanRequest.objects.filter(pk__in=[one[0] for one in decisions]).select_related("answer")
    decided = [row for row in rows.order_by("-answered") if is_readable(row) and hasattr(row, "answer")]
    looks = SecondLook.objects.filter(pk__in=[one[0] for one in looked]).select_related("request__answer")
    given = [
        (look, _choice(look.request.answer, look.request), _choice(look, look.request))
        for look in looks.order_by("-at")
        if is_readable(look.request)
    ]
    pairs = [(first, second) for _, first, second in given]
    expected = [(row.policy["prereview"], _choice(row.answer, row)) for row in decided if row.policy.get("prereview")]
    differ = [_disagreement(*one) for one in given if one[1] != one[2]]
    timed, fast, paced = _pace(decided)
    return Quality(
        decisions=len(decided),
        agreement=agreement_of(pairs),
        table=confusion(pairs),
        prereview=agreement_of(expected),
        disagreements=tuple(sorted(differ, key=lambda one: one.settled != ""))[:MOST_LISTED],
        edits=Counter(name for row in decided for name in _edited(row)).most_common(10),
        lengths=[(name, len(took), median(took)) for name, took in timed.items() if len(took) >= LEAST],
        fast=fast,
        paced=paced,
    )


def _choice(answer: Answer | SecondLook, row: HumanRequest) -> str:
    """Return what an answer says in one word: its action, where the card has some; an edit of nothing approves."""
    value = document(answer, "value")
    said = json.loads(choice_of(Vote(by="", verdict=answer.verdict, value=value), row.card.get("proposal")))
    return str(said["action"] if isinstance(said, dict) and "action" in said else json.dumps(said))[:40]


def _disagreement(look: SecondLook, first: str, second: str) -> Disagreement:
    subject = str(look.request.card.get("subject") or look.request.step)
    reason, settled = text(look, "reason"), look.settled
    return Disagreement(request=look.pk, subject=subject, first=first, second=second, reason=reason, settled=settled)


def _edited(row: HumanRequest) -> set[str]:
    """Return the fields that an edit changed, without numbers of items."""
    before, after = edit_of(row.card, document(row.answer, "value"))
    places = (change["path"].split("/")[1:] for change in json_patch.make(before, before if after is None else after))
    return {" · ".join(part for part in place if not part.isdigit() and part != "-") or "all of it" for place in places}


def _pace(decided: Sequence[HumanRequest]) -> tuple[dict[str, list[float]], int, int]:
    """Return the seconds to decide by length of card, and how many on the page were fast approvals, of how many."""
    cards = {row.pk: row for row in decided}
    replies = Reply.objects.filter(request__in=list(cards), undone__isnull=True, via="page").order_by("at")
    seen = Presence.objects.filter(request__in=list(cards)).values_list("request", "user", "since")
    opened = {(request, user): since for request, user, since in seen}
    timed, latest, fast, paced = defaultdict[str, list[float]](list), dict[int, datetime](), 0, 0
    for reply in replies:
        before, paced = latest.get(reply.by_id or 0), paced + 1
        fast += reply.stands == "approved" and before is not None and reply.at - before < FAST
        latest[reply.by_id or 0] = reply.at
        since = opened.get((reply.request_id, reply.by_id or 0))
        if since is not None and since < reply.at:
            timed[_length(cards[reply.request_id])].append((reply.at - since).total_seconds())
    return timed, fast, paced


def _length(row: HumanRequest) -> str:
    size = len(json.dumps(row.card))
    return next(name for most, name in LENGTHS if most is None or size < most)
