"""One request with everything a person needs to decide, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from checkpoints.models import HumanRequest, Reply
from checkpoints.records import ENDED, Json, Phase
from wfdash.access import Viewer
from wfdash.errors import NotFound
from wfdash.seen import fingerprint
from wfdash.workflow.policy import Policy, sentence
from wfdash.workflow.signals import KIND


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """The reply that decided. ``settles``: until then it may be taken back; None once it has taken effect."""

    by: str
    at: datetime
    verdict: str
    value: Json
    settles: datetime | None = None
    stands: str = ""
    reason: str = ""
    acting_for: str = ""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy of a request as people read it. ``escalated``: since when the others may decide, too.

    ``undo``: for how many seconds an answer may be taken back.
    """

    sentence: str = ""
    need: int = 1
    escalate: tuple[str, ...] = ()
    escalated: datetime | None = None
    undo: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RequestView:
    """A request as its page shows it to one person: the card, the schema, and its fate.

    ``state``: open | settling | answered | taken | withdrawn | superseded | cancelled. ``refusal`` says in words why
    this person may not answer; empty when they may. ``right``: why they may. ``seen``: the card's fingerprint.
    """

    id: str
    key: str
    run: str
    run_title: str
    run_phase: str
    workflow: str
    version: str
    step: str
    kind: str
    card: dict[str, Json]
    answer_schema: dict[str, Json]
    by: tuple[str, ...]
    not_by: tuple[str, ...]
    due: datetime | None
    created: datetime
    requester: str
    state: str
    answer: AnswerView | None = None
    suggestion: dict[str, Json] | None = None
    replaced_by: str | None = None
    refusal: str = ""
    subject: str = field(default="")
    seen: str = ""
    right: str = ""
    acting_for: str = ""
    rules: Rules = field(default_factory=Rules)
    asked: datetime | None = None
    assignee: str = ""
    shown: bool = True
    """Whether this person sees the card and what is said about it, not the subject alone."""
    may_override: bool = False
    may_speak: bool = False
    """Whether this person may answer in somebody else's name."""
    may_inform: bool = False
    """Whether this person may reply to what is asked back, and add to the card."""
    operates: bool = False
    viewer: Viewer = field(repr=False, compare=False)

    @property
    def open(self) -> bool:
        """Say whether it still waits for an answer."""
        return self.state == "open"

    @property
    def may_assign(self) -> bool:
        """Say whether this person may say whose it is."""
        return self.open and (not self.refusal or self.operates or self.assignee == self.viewer.name)

    @property
    def overdue(self) -> bool:
        """Say whether its deadline has passed."""
        return self.due is not None and self.due <= timezone.now()


def request(viewer: Viewer, request_id: str) -> RequestView:
    """Return one request (up to four queries), or raise ``NotFound``.

    Those who may not inspect values see card and answer of what is addressed to them, or what they started; of others
    the subject.
    """
    rows = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=request_id)
    row = rows.select_related("run", "run__created_by", "answer", "answer__by", "assignee").first()
    if row is None:
        raise NotFound("There is no such request, or it is not yours to see")
    return _view(viewer, row)


def _view(viewer: Viewer, row: HumanRequest) -> RequestView:
    requester = row.run.created_by.get_username() if row.run.created_by else ""
    own = bool(requester) and requester == viewer.name
    mine = row.assignee_id == viewer.user.pk
    shown = own or mine or viewer.may("inspect", row.workflow) or viewer.addressed(row.by, (), requester)
    later = HumanRequest.objects.filter(replaces=row.id).order_by("-created").values_list("id", flat=True)
    refusal, right, acting_for = _standing(viewer, row, requester)
    operates = viewer.may("operate", row.workflow)
    speaks = operates and row.kind != KIND and viewer.addressed((), row.not_by, requester)
    return RequestView(
        id=row.id,
        key=row.key,
        run=row.run_id,
        run_title=row.run.title,
        run_phase=row.run.phase,
        workflow=row.workflow,
        version=row.run.version,
        step=row.step,
        kind=row.kind,
        card=row.card if shown else {"subject": row.card.get("subject", "")},
        answer_schema=row.answer_schema if shown else {"type": "null"},
        by=tuple(row.by),
        not_by=tuple(row.not_by),
        due=row.due,
        created=row.created,
        requester=requester,
        state=_state(row),
        answer=_answer(row, shown),
        suggestion=row.suggestion if shown else None,
        replaced_by=later.first() if row.closed_as == "superseded" else None,
        refusal=refusal,
        subject=str(row.card.get("subject") or row.step),
        seen=fingerprint(row.card, row.answer_schema),
        right=right,
        acting_for=acting_for,
        rules=_rules(row),
        asked=row.asked,
        assignee=row.assignee.get_username() if row.assignee else "",
        shown=shown,
        may_override=bool(refusal) and speaks,
        may_speak=speaks,
        may_inform=own or operates,
        operates=operates,
        viewer=viewer,
    )


def _state(row: HumanRequest) -> str:
    if row.closed is None and row.answered is None:
        ended = row.run.phase in ENDED and row.run.phase != Phase.FAILED.value
        return "cancelled" if ended else "settling" if row.settles else "open"
    return row.closed_as if row.closed_as and row.closed_as != "taken" else "answered"


def _answer(row: HumanRequest, shown: bool) -> AnswerView | None:
    """Return the answer, or the reply that is about to be."""
    found: Any = getattr(row, "answer", None)
    if found is None and row.settles is None:
        return None
    replies = Reply.objects.filter(request=row, undone__isnull=True).select_related("by").order_by("-at")
    reply = replies.filter(**({"settles__isnull": False} if found is None else {"by": found.by})).first()
    found = found or reply
    if found is None:
        return None
    return AnswerView(
        by=found.by.get_username() if found.by else "a deadline",
        at=found.at,
        verdict=found.verdict,
        value=found.value if shown else None,
        settles=row.settles,
        stands=reply.stands if reply else "",
        reason=reply.reason if reply and shown else "",
        acting_for=reply.acting_for if reply else "",
    )


def _rules(row: HumanRequest) -> Rules:
    policy = Policy.model_validate(row.policy or {})
    moments = policy.moments(row.created, row.due)
    escalated = next((at for at, what in moments if what == "escalate" and at <= timezone.now()), None)
    named = policy if policy.by or policy.not_by else policy.model_copy(update={"by": row.by, "not_by": row.not_by})
    undo = settings.WFDASH_UNDO if policy.undo is None else policy.undo.total_seconds()
    said = sentence(named)
    return Rules(sentence=said, need=policy.need, escalate=policy.escalate, escalated=escalated, undo=undo)


def _standing(viewer: Viewer, row: HumanRequest, requester: str) -> tuple[str, str, str]:
    """Return why this person may not answer, else by which right they may, and for whom they act."""
    if row.kind == KIND:
        return "It waits for a signal, not for a person: an operator can send it from the run’s page.", "", ""
    if not viewer.may("answer", row.workflow):
        return "Your role lets you read this request, not answer it.", "", ""
    right = viewer.right_for(row.by, row.not_by, requester)
    if right is not None:
        return "", right.words, right.acting_for
    if viewer.name in row.not_by or (requester == viewer.name and "requester" in row.not_by):
        return "This needs a second person: you may not answer it yourself.", "", ""
    if row.assignee_id == viewer.user.pk:
        return "", "assigned", ""
    return f"This request is for {', '.join(row.by)}.", "", ""
