"""One request with everything a person needs to decide, its outcome, and who works on it: comments, votes, drafts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.utils import timezone
from pydantic import ConfigDict, Field

from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.models import (
    Absence,
    Checkpoint,
    Comment,
    Draft,
    HumanRequest,
    Presence,
    Receipt,
    Reply,
    Run,
    Shown,
    Snooze,
)
from checkpoints.models.fields import DatabaseNow
from checkpoints.models.user_model import NO_PERSON, USERNAME, has_name
from checkpoints.records import ENDED, SIGNAL, Json, JsonObject, Phase, frozen
from checkpoints.rules import card_subject
from wfdash.access.directory import Decidability, colleagues, decidability_of, people_who, readers, refuse_narrow
from wfdash.access.viewer import REQUESTER, Marks, Origin, Viewer, origin_of
from wfdash.domain.errors import NotFound
from wfdash.domain.hash_chain import fingerprint
from wfdash.domain.json_patch import comments_in
from wfdash.domain.labels import visible
from wfdash.engines.catalog import secrets_of
from wfdash.queries import timemachine
from wfdash.queries.run_names import title_of
from wfdash.queries.search import NamesAny, NamesEmpty, RowExists
from wfdash.queries.timemachine import secrets_in
from wfdash.queries.unreadable import subject_of, text
from wfdash.questions.policy import Policy, sentence
from wfdash.questions.tools import masked_card
from wfdash.records.account import AbsenceRecord
from wfdash.records.requests import CommentRecord, DraftRecord, GivenAnswer, PersonPresent, RequestFacts
from wfdash.values.schemas.secrets import masked, secret_names, without


@frozen
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
    signed: bool = False
    """Whether an answer is signed with a passkey."""


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
    before: JsonObject | None = None
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

    @cached_property
    def checkpoint_before(self) -> str:
        """Return the checkpoint at which it waited for its answer; empty for those who may not go back to it (one
        query, none while it is open).
        """
        if self.state != "answered" or not self.operates:
            return ""
        earlier = Checkpoint.objects.filter(run=self.run, waiting__gt=0, created__lte=self.row.answered)
        return earlier.order_by("-n").values_list("pk", flat=True).first() or ""

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
        may_inform=operates or (bool(origin.starter) and origin.starter == viewer.name),
        operates=operates,
        viewer=viewer,
        row=row,
    )


def _suggestion(row: HumanRequest, before: HumanRequest | None) -> JsonObject | None:
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
    reply = replies.filter(
        **({"settles__isnull": False} if found is None else {"by": found.by, "rule": found.rule})
    ).first()
    found = found or reply
    if found is None:
        return None
    return GivenAnswer.trusted(
        by=found.decider,
        at=found.at,
        verdict=found.verdict,
        value=masked(found.value, secrets_in(row)) if shown else None,
        settles=row.settles,
        stands=reply.stands if reply else "",
        reason=reply.reason if reply and shown else "",
        acting_for=reply.acting_for if reply else "",
        rule=found.rule,
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
        signed=policy.sign is not None,
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


# Audience filters of requests: the rules of ``Viewer.right_for`` in SQL.

NO_REQUEST = Q(pk__in=[])
ASSIGNEE = Coalesce("assignee_id", NO_PERSON)
"""Not the bare column: SQLite would use its index, and then read every row it finds, with its card."""


def may_answer(viewer: Viewer) -> Q:
    """Return the filter of requests a person may answer: by role, ``by``, ``not_by``, or as a delegate."""
    excluded = _excluded(viewer, viewer.name, viewer.groups)
    if viewer.made_by is not None:
        excluded |= _excluded(viewer, viewer.made_by.name, viewer.made_by.groups)
    wanted = Q(NamesEmpty("by")) | _addressed_by_name(viewer, viewer.name, viewer.groups)
    for absent in viewer.acts_for:
        free = ~_excluded(viewer, absent.name, absent.groups) & ~_voted(absent.name)
        wanted |= _addressed_by_name(viewer, absent.name, absent.groups) & free
    return viewer.scope("answer") & (wanted | assigned_to(viewer)) & ~excluded


def through_groups(viewer: Viewer) -> Q:
    """Return the filter of requests addressed to a person's groups, or to groups of those they are a delegate of."""
    groups = viewer.groups.union(*(absent.groups for absent in viewer.acts_for))
    return Q(NamesAny("by", groups)) if groups else NO_REQUEST


def assigned_to(viewer: Viewer) -> Q:
    """Return the filter of requests assigned to them."""
    return Q(Exact(ASSIGNEE, viewer.user.pk)) if viewer.user.pk is not None else NO_REQUEST


def unassigned(viewer: Viewer) -> Q:
    """Return the filter of unassigned requests."""
    return Q(Exact(ASSIGNEE, NO_PERSON))


def not_assigned_elsewhere(viewer: Viewer) -> Q:
    """Return the filter of requests that are not assigned to a third person."""
    absent = [principal.name for principal in viewer.acts_for]
    free = unassigned(viewer) | assigned_to(viewer)
    return free | has_name(absent, "in", through="assignee") if absent else free


def not_voted_by(viewer: Viewer) -> Q:
    """Return the filter of requests this person has not voted on yet."""
    if viewer.user.pk is None:
        return Q(pk__isnull=False)
    mine = Q(by_id=viewer.user.pk) | Q(acting_for=viewer.name)
    return ~Q(Exists(Reply.objects.filter(mine, request=OuterRef("pk"), undone__isnull=True)))


def snoozes_of(viewer: Viewer) -> QuerySet[Snooze]:
    """Return what this person is to be reminded of later."""
    return Snooze.objects.filter(user_id=viewer.user.pk or 0, until__gt=DatabaseNow())


def snoozed_by(viewer: Viewer) -> Q:
    """Return the filter of requests that this person is to be reminded of later."""
    return Q(pk__in=snoozes_of(viewer).values("request_id"))


def awaiting_reply_of(viewer: Viewer) -> Q:
    """Return the filter of requests that wait for their reply, as requester or as a delegate of one."""
    started = _started_by(viewer, viewer.name) & viewer.reach()
    for absent in viewer.acts_for:
        started |= viewer.scope("see") & _started_by(viewer, absent.name)
    return Q(asked__isnull=False) & started


def _voted(name: str) -> Q:
    """Return the filter of requests on which a person, or a delegate of theirs, has voted."""
    voted = Q(has_name(name, through="by"), acting_for="") | Q(acting_for=name)
    return Q(Exists(Reply.objects.filter(voted, request=OuterRef("pk"), undone__isnull=True)))


def _addressed_by_name(viewer: Viewer, name: str, groups: Iterable[str]) -> Q:
    names = {name, *groups} - {REQUESTER}
    return Q(NamesAny("by", names)) | (Q(NamesAny("by", [REQUESTER])) & _started_by(viewer, name))


def _excluded(viewer: Viewer, name: str, groups: Iterable[str]) -> Q:
    # One look at the run: whom it counts as requester although they did not start it, and who did.
    own = _started_by(viewer, name, NamesAny("requesters", [name]))
    named = Q(NamesAny("not_by", [name, *groups])) | (Q(NamesAny("not_by", [REQUESTER])) & own)
    # Tested first, because most requests exclude no one.
    return ~Q(NamesEmpty("not_by")) & named


def _started_by(viewer: Viewer, name: str, *others: NamesAny) -> Q:
    """Return the filter of requests whose run a person started, or for which one of ``others`` is true.

    Not a join: it is evaluated for few rows.
    """
    if not name:
        return NO_REQUEST
    person = {"created_by_id": viewer.user.pk} if name == viewer.name else {f"created_by__{USERNAME}": name}
    which = Q(*others, **person, _connector=Q.OR)
    return Q(RowExists(Run.objects.filter(which, pk=OuterRef("run_id"))))


PRESENCE_TIMEOUT = timedelta(seconds=45)
TYPING_TIMEOUT = timedelta(seconds=20)
MAX_COMMENTS = 200


class PersonHere(PersonPresent):
    """A person who has the request open. ``reviews``: they may answer it, and so hold it while it is open."""

    reviews: bool
    taken: datetime | None = None


@frozen
class VoteView:
    """One person's vote, while more are needed."""

    by: str
    verdict: str
    at: datetime
    acting_for: str = ""
    reason: str = ""
    line_comments: tuple[JsonObject, ...] = ()


@frozen
class Collaboration:
    """A request's collaboration data. ``holder``: another person who is working on it.

    ``mine``: the viewer's own current vote. ``former``: their own answer that was undone.
    """

    people: tuple[PersonHere, ...] = ()
    holder: PersonHere | None = None
    thread: tuple[CommentRecord, ...] = ()
    votes: tuple[VoteView, ...] = ()
    mine: VoteView | None = None
    draft: DraftRecord | None = None
    former: Json = None


@frozen
class Undoable:
    """The viewer's own answer that can still be undone."""

    request: str
    subject: str
    verdict: str
    settles: datetime

    @property
    def left(self) -> float:
        """Return the seconds until it takes effect."""
        return max(0.0, round((self.settles - timezone.now()).total_seconds(), 1))


ID = Placeholder("id")
PRESENT = compiled_rows(
    lambda: (
        Presence.objects.filter(
            request_id=ID, seen__gt=Placeholder("since", Presence._meta.get_field("seen")), user__is_active=True
        )
        .select_related("user")
        .order_by("since", "pk")
    )
)
COMMENTS = compiled_rows(
    lambda: Comment.objects.filter(request_id=ID).select_related("by").order_by("-at", "-id")[:MAX_COMMENTS]
)
DRAFT = compiled_rows(lambda user: Draft.objects.filter(request_id=ID, user_id=user))
WITHDRAWN = compiled_rows(
    lambda user: Reply.objects.filter(request_id=ID, by_id=user, undone__isnull=False).order_by("-undone")[:1]
)


def read_collaboration(found: RequestView) -> Collaboration:
    """Return a request's collaboration data, as far as its viewer may see it (five queries or more)."""
    present = _present(found)
    replies = _live_replies(found)
    # What a person wrote is theirs; a token reads of it what it could have written.
    answers = found.viewer.reaches("answer", found.workflow)
    own = [reply for reply in replies if reply.by_id == found.viewer.user.pk]
    votes = tuple(_vote(reply, found.shown) for reply in replies)
    return Collaboration(
        people=tuple(person for person in present if person.name != found.viewer.name),
        holder=_holder(present, found.viewer) if found.open else None,
        thread=read_thread(found),
        votes=votes,
        mine=_vote(own[0], answers) if own else None,
        draft=_draft(found) if found.open and answers else None,
        former=_withdrawn_answer(found) if found.open and answers and not own else None,
    )


def read_thread(found: RequestView) -> tuple[CommentRecord, ...]:
    """Return a request's comments, oldest first; empty for viewers who do not see its card (one query)."""
    if not found.shown:
        return ()
    return tuple(
        CommentRecord.trusted(
            id=row.pk,
            by=_name_or_someone(row.by),
            kind=row.kind,
            text=text(row, "text"),
            mentions=tuple(row.mentions),
            at=row.at,
        )
        for row in reversed(list(COMMENTS().all(id=found.id)))
    )


def assignable(found: RequestView) -> tuple[str, ...]:
    """Return the user names this person may assign a request to. No programs: no notification reaches them."""
    free = found.viewer.may("operate", found.workflow) and found.rules.override
    by = () if free else found.by
    people = people_who("answer", found.workflow, programs=False)
    return tuple(person.name for person in people if person.addressed(by, found.not_by, found.origin))


def read_assignees(viewer: Viewer, workflows: Iterable[str], right: str = "answer") -> tuple[str, ...]:
    """Return the user names to whom this person may assign requests, or errors, of these workflows: those who have this
    right.
    """
    mine = [workflow for workflow in workflows if viewer.may("answer", workflow) or viewer.may("operate", workflow)]
    people = (person for workflow in mine for person in people_who(right, workflow, programs=False))
    return tuple(sorted({person.name for person in people}))


def answerable_for(found: RequestView) -> tuple[str, ...]:
    """Return the user names an operator may answer on behalf of: everyone else who may answer it, and its assignee."""
    people = people_who("answer", found.workflow, programs=False)
    theirs = [one for one in people if one.addressed(found.by, found.not_by, found.origin)]
    names = {one.name for one in theirs} | ({found.assignee} if found.assignee else set())
    return tuple(sorted(names - {found.viewer.name}))


def mentionable(found: RequestView) -> tuple[str, ...]:
    """Return the user names that may read a request."""
    return tuple(person.name for person in readers(found.workflow, found.by, found.origin))


def read_undoable(viewer: Viewer, requests: Iterable[str]) -> tuple[Undoable, ...]:
    """Return this person's answers to these requests that can still be undone, latest first (one query)."""
    live = Reply.objects.filter(by=viewer.user, undone__isnull=True, settles__gt=timezone.now())
    rows = live.filter(request__in=list(requests)).select_related("request").order_by("-at", "-id")[:MAX_COMMENTS]
    return tuple(
        Undoable(
            request=row.request_id,
            subject=subject_of(row.request),
            verdict=row.verdict,
            settles=row.settles or row.at,
        )
        for row in rows
    )


def read_absences(viewer: Viewer) -> tuple[tuple[AbsenceRecord, ...], tuple[AbsenceRecord, ...]]:
    """Return a person's absences and those they are a delegate in, current and upcoming (two queries). ``NotAllowed``
    for a token with limits.
    """
    refuse_narrow(viewer)
    now = timezone.now()
    rows = Absence.objects.filter(until__gt=now).select_related("user", "delegate").order_by("since")
    mine = tuple(_absence(row, now) for row in rows.filter(user=viewer.user))
    return mine, tuple(_absence(row, now) for row in rows.filter(delegate=viewer.user))


def possible_delegates(viewer: Viewer) -> tuple[str, ...]:
    """Return the user names a person may delegate to: those who share a role with them."""
    return tuple(colleagues(viewer).order_by(USERNAME).values_list(USERNAME, flat=True)[:MAX_COMMENTS])


def _present(found: RequestView) -> tuple[PersonHere, ...]:
    """Return the people who have it open, this person included, those who opened it first before others."""
    now = timezone.now()
    rows = {row.user.get_username(): row for row in PRESENT().all(id=found.id, since=now - PRESENCE_TIMEOUT)}
    people = people_who("answer", found.workflow, names=list(rows)) if rows else ()
    reviewers = {p.name for p in people if p.addressed(found.by, found.not_by, found.origin)} | {found.assignee}
    return tuple(
        PersonHere.trusted(
            name=name,
            since=row.since,
            typing=row.typing is not None and row.typing > now - TYPING_TIMEOUT,
            reviews=name in reviewers,
            taken=row.taken,
        )
        for name, row in rows.items()
    )


def _holder(present: tuple[PersonHere, ...], viewer: Viewer) -> PersonHere | None:
    """Return who holds it: the person who took it over last, else who opened it first; None if that is the viewer."""
    reviewing = [person for person in present if person.reviews]
    takers = [person for person in reviewing if person.taken]
    last = max(takers, key=lambda person: person.taken or person.since, default=next(iter(reviewing), None))
    return last if last and last.name != viewer.name else None


def _live_replies(found: RequestView) -> list[Reply]:
    if found.rules.need < 2:
        return []
    replies = Reply.objects.filter(request_id=found.id, undone__isnull=True).select_related("by")
    return list(replies.order_by("at"))


def _vote(reply: Reply, shown: bool) -> VoteView:
    return VoteView(
        by=_name_or_someone(reply.by),
        verdict=reply.verdict,
        at=reply.at,
        acting_for=reply.acting_for,
        reason=text(reply, "reason") if shown else "",
        line_comments=comments_in(reply.value) if shown else (),
    )


def _draft(found: RequestView) -> DraftRecord | None:
    row = DRAFT(found.viewer.user.pk).first(id=found.id)
    return DraftRecord.trusted(fields=row.fields, at=row.at) if row else None


def _withdrawn_answer(found: RequestView) -> Json:
    last = WITHDRAWN(found.viewer.user.pk).first(id=found.id)
    return without(last.value, secret_names(found.answer_schema) | secrets_of(found.workflow)) if last else None


def _absence(row: Absence, now: datetime) -> AbsenceRecord:
    return AbsenceRecord.trusted(
        id=row.pk,
        user=_name_or_someone(row.user),
        delegate=_name_or_someone(row.delegate),
        since=row.since,
        until=row.until,
        now=row.since <= now,
    )


def _name_or_someone(user: Any) -> str:
    return user.get_username() if user else "somebody"


def receipts_of(found: RequestView) -> list[tuple[str, bool, JsonObject]]:
    """Return the receipts of a request, the oldest first: the reply, whether it was undone, and the receipt with the
    card as it was shown, where no secret is in it (three queries). ``NotFound`` for those who do not see the card.
    """
    if not found.shown:
        raise NotFound("Only people who see the card see who signed for it")
    rows = list(Receipt.objects.filter(request=found.id).order_by("pk"))
    undone = set(Reply.objects.filter(request=found.id, undone__isnull=False).values_list("pk", flat=True))
    cards = {f"{found.id}:card:{row.body['statement']['card']}" for row in rows}
    kept = {row.pk.rsplit(":", 1)[-1]: json.loads(row.body) for row in Shown.objects.filter(pk__in=cards)}
    given = []
    for row in rows:
        shown = kept.get(row.body["statement"]["card"])
        open_ = shown is not None and masked_card(shown["card"], secrets_in(found.row)) == shown["card"]
        file = {name: shown[name] for name in ("card", "answer_schema")} if shown and open_ else None
        given.append((row.pk, row.pk in undone, {**row.body, **({"shown": file} if file else {})}))
    return given
