"""One request with everything a person needs to decide, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone
from pydantic import ConfigDict, Field

from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.models import HumanRequest, Reply
from checkpoints.records import ENDED, SIGNAL, Json, Phase
from checkpoints.rules import card_subject
from wfdash.access.directory import Decidability, decidability_of
from wfdash.access.viewer import Marks, Origin, Viewer, origin_of
from wfdash.domain.errors import NotFound
from wfdash.domain.hash_chain import fingerprint
from wfdash.domain.labels import visible
from wfdash.queries import timemachine
from wfdash.queries.run_names import title_of
from wfdash.queries.timemachine import secrets_in
from wfdash.questions.policy import Policy, sentence
from wfdash.questions.tools import masked_card
from wfdash.records.requests import GivenAnswer, RequestFacts
from wfdash.values.schemas.secrets import masked, without


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy of a request as people read it. ``escalated``: since when the others may decide, too.

    ``undo``: for how many seconds an answer can be undone.
    """

    sentence: str = ""
    need: int = 1
    escalate: tuple[str, ...] = ()
    escalated: datetime | None = None
    undo: float = 0.0
    override: bool = True


class RequestView(RequestFacts):
    """A request as its page shows it to one person: the card, the schema, and its outcome.

    ``state``: open | settling | answered | taken | withdrawn | superseded | cancelled. ``refusal`` is the text why this
    person may not answer; empty when they may. ``right``: why they may. ``seen``: the card's fingerprint.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    run_phase: str
    version: str
    origin: Origin
    replaced_by: str | None = None
    before: dict[str, Json] | None = None
    """The card that this one replaced, because something of it changed."""
    right: str = ""
    acting_for: str = ""
    rules: Rules = Rules()
    shown: bool = True
    """Whether this person sees the card and its comments, not only the subject."""
    may_override: bool = False
    may_speak: bool = False
    """Whether this person may answer on behalf of others."""
    may_inform: bool = False
    """Whether this person may reply to questions, and add to the card."""
    operates: bool = False
    viewer: Viewer = Field(repr=False)
    row: HumanRequest = Field(repr=False)

    @property
    def run_label(self) -> str:
        """Return what the run is called beside its workflow's title; empty where that is all it is called."""
        title = self.row.run.title or self.workflow
        return "" if self.run_title == title else self.run_title.removeprefix(f"{title}: ")

    @property
    def open(self) -> bool:
        """Return whether it still waits for an answer."""
        return self.state == "open"

    @cached_property
    def outlook(self) -> Decidability:
        """Return its votes, and whether it can still be decided (six queries, none where this person may decide)."""
        alone = not self.refusal and self.rules.need == 1
        asks = self.open and self.kind != SIGNAL and not alone
        return decidability_of(self.row) if asks else Decidability(need=self.rules.need)

    @property
    def need(self) -> int:
        """Return how many people must give the same answer."""
        return self.rules.need

    @property
    def votes(self) -> int:
        """Return how many votes the leading answer has."""
        return self.outlook.votes

    @property
    def unanswerable(self) -> str:
        """Return why no one can decide it any more, as text; empty where someone can."""
        return self.outlook.words

    @property
    def may_assign(self) -> bool:
        """Return whether this person may assign it."""
        return self.open and (not self.refusal or self.operates or self.assignee == self.viewer.name)

    @property
    def overdue(self) -> bool:
        """Return whether its deadline has passed."""
        return self.due is not None and self.due <= timezone.now()


def read_request(viewer: Viewer, request_id: str, marks: Marks | None = None) -> RequestView:
    """Return one request (up to four queries), its ``row`` with these marks for this viewer. ``NotFound``.

    People who may not inspect values see card and answer of requests that are addressed to them, or that they started;
    of others only the subject.
    """
    row = requests_of(viewer, marks).first(id=request_id)
    if row is None:
        raise NotFound("Request not found, or you do not have access")
    return _view(viewer, row)


@compiled_rows
def requests_of(viewer: Viewer, marks: Marks | None) -> QuerySet[HumanRequest]:
    """Return the query of the request with an ``id``, if this viewer may see it, with all that its page shows of it."""
    pk = Placeholder("id", HumanRequest._meta.pk)
    rows = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=pk).order_by()
    rows = rows.select_related("run", "run__created_by", "answer", "answer__by", "assignee")
    return rows if marks is None else rows.annotate(**marks(viewer))


def _view(viewer: Viewer, row: HumanRequest) -> RequestView:
    origin = origin_of(row.run)
    own = bool(origin.starter) and origin.starter == viewer.name
    mine = row.assignee_id == viewer.user.pk
    shown = viewer.reads_card(row.workflow, row.by, origin, assigned=mine)
    later = timemachine.replaced_by(row) if row.closed is not None else None
    before = _before(viewer, row) if shown else None
    refusal, right, acting_for = _right_to_answer(viewer, row, origin)
    operates = viewer.may("operate", row.workflow)
    rules = _rules(row)
    speaks = operates and row.kind != SIGNAL and rules.override and not viewer.excluded(row.not_by, origin)
    return RequestView.trusted(
        id=row.id,
        key=row.key,
        run=row.run_id,
        run_title=title_of(row.run, viewer.may("inspect", row.workflow)),
        run_phase=row.run.phase,
        workflow=row.workflow,
        version=row.run.version,
        step=row.step,
        kind=row.kind,
        card=masked_card(row.card, secrets_in(row)) if shown else {"subject": row.card.get("subject", "")},
        answer_schema=row.answer_schema if shown else {"type": "null"},
        by=tuple(row.by),
        not_by=tuple(row.not_by),
        due=row.due,
        created=row.created,
        requester=origin.starter,
        origin=origin,
        state=_request_state(row),
        answer=_answer(row, shown),
        suggestion=_suggestion(row, before) if shown else None,
        replaced_by=later.pk if later is not None else None,
        before=masked_card(before.card, secrets_in(before)) if before is not None else None,
        refusal=refusal,
        subject=visible(card_subject(row.card, row.step)),
        seen=fingerprint(row.card, row.answer_schema) if shown else "",
        right=right,
        acting_for=acting_for,
        rules=rules,
        asked=row.asked,
        assignee=row.assignee.get_username() if row.assignee else "",
        shown=shown,
        may_override=bool(refusal) and speaks,
        may_speak=speaks,
        may_inform=own or operates,
        operates=operates,
        viewer=viewer,
        row=row,
    )


def _suggestion(row: HumanRequest, before: HumanRequest | None) -> dict[str, Json] | None:
    """Return the form's initial value: what was stored with the request, or was answered before, without secrets."""
    answer: Any = getattr(before, "answer", None)
    suggested = row.suggestion or (None if answer is None else timemachine.as_suggestion(answer))
    return suggested and suggested | {"value": without(suggested.get("value"), secrets_in(row))}


def _before(viewer: Viewer, row: HumanRequest) -> HumanRequest | None:
    """Return the request that this one replaced, if this person may see it."""
    before = timemachine.replaced(row)
    others = before is not None and before.by != row.by and not viewer.may("inspect", row.workflow)
    return None if others else before


def _request_state(row: HumanRequest) -> str:
    if row.closed is None and row.answered is None:
        ended = row.run.phase in ENDED and row.run.phase != Phase.FAILED.value
        return "cancelled" if ended else "settling" if row.settles else "open"
    return row.closed_as if row.closed_as and row.closed_as != "taken" else "answered"


def _answer(row: HumanRequest, shown: bool) -> GivenAnswer | None:
    """Return the answer, or the reply that is about to take effect."""
    found: Any = getattr(row, "answer", None)
    if found is None and row.settles is None:
        return None
    replies = Reply.objects.filter(request=row, undone__isnull=True).select_related("by").order_by("-at")
    reply = replies.filter(**({"settles__isnull": False} if found is None else {"by": found.by})).first()
    found = found or reply
    if found is None:
        return None
    return GivenAnswer.trusted(
        by=found.by.get_username() if found.by else "a deadline",
        at=found.at,
        verdict=found.verdict,
        value=masked(found.value, secrets_in(row)) if shown else None,
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
    text = sentence(named)
    return Rules(
        sentence=text,
        need=policy.need,
        escalate=policy.escalate,
        escalated=escalated,
        undo=undo,
        override=policy.override,
    )


def _right_to_answer(viewer: Viewer, row: HumanRequest, origin: Origin) -> tuple[str, str, str]:
    """Return why this person may not answer, else by which right they may, and for whom they act."""
    if row.kind == SIGNAL:
        return "Waiting for a signal, not a person. An operator can send it from the run page.", "", ""
    if not viewer.may("answer", row.workflow):
        return "View only: your role cannot answer requests.", "", ""
    right = viewer.right_to(row)
    if right is not None:
        return "", right.words, right.acting_for
    if viewer.excluded(row.not_by, origin):
        return "A second person is required: you cannot answer this yourself.", "", ""
    return f"Only {', '.join(row.by)} can answer.", "", ""
