"""What people do to a request at this moment: who has it open, what was said about it, who has voted, own drafts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import Absence, Comment, Draft, Presence, Reply
from checkpoints.records import Json
from wfdash.access import Viewer
from wfdash.directory import people_who, readers
from wfdash.queries.requests import RequestView

HERE = timedelta(seconds=45)
TYPING = timedelta(seconds=20)
MOST_LINES = 200


@dataclass(frozen=True, kw_only=True)
class PersonHere:
    """Somebody who has the request open. ``reviews``: they may answer it, so that it is theirs while they look."""

    name: str
    since: datetime
    typing: bool
    reviews: bool
    taken: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the thread. ``kind``: comment | ask | reply."""

    id: str
    by: str
    kind: str
    text: str
    mentions: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class VoteView:
    """What one person said, while more are needed."""

    by: str
    verdict: str
    at: datetime
    acting_for: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class DraftView:
    """A half-filled answer: fields as a browser sends them."""

    fields: dict[str, list[str]]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Together:
    """Everything about a request that people make. ``holder``: another who has it in hand.

    ``mine``: one's own vote that counts now. ``former``: one's own answer that was taken back.
    """

    people: tuple[PersonHere, ...] = ()
    holder: PersonHere | None = None
    thread: tuple[Line, ...] = ()
    votes: tuple[VoteView, ...] = ()
    mine: VoteView | None = None
    draft: DraftView | None = None
    former: Json = None


@dataclass(frozen=True, kw_only=True)
class Undoable:
    """An own answer that may still be taken back."""

    request: str
    subject: str
    verdict: str
    settles: datetime

    @property
    def left(self) -> float:
        """Seconds until it takes effect."""
        return max(0.0, round((self.settles - timezone.now()).total_seconds(), 1))


@dataclass(frozen=True, kw_only=True)
class AbsenceView:
    """Somebody is away, another decides for them. ``now``: it has begun."""

    id: int
    user: str
    delegate: str
    since: datetime
    until: datetime
    now: bool


def together(found: RequestView) -> Together:
    """Return what people do to a request, as its viewer may know it (five queries, more where others look at it)."""
    people, me_taken = _people_at(found)
    replies = _live_replies(found)
    own = [reply for reply in replies if reply.by_id == found.viewer.user.pk]
    votes = tuple(_vote(reply, found.shown) for reply in replies)
    return Together(
        people=people,
        holder=_holder(people, me_taken) if found.open else None,
        thread=thread(found),
        votes=votes,
        mine=_vote(own[0], True) if own else None,
        draft=_draft(found) if found.open else None,
        former=_former(found) if found.open and not own else None,
    )


def thread(found: RequestView) -> tuple[Line, ...]:
    """Return what was said about a request, oldest first; nothing for those who do not see its card (one query)."""
    if not found.shown:
        return ()
    rows = Comment.objects.filter(request_id=found.id).select_related("by").order_by("-at", "-id")[:MOST_LINES]
    return tuple(
        Line(
            id=row.pk,
            by=_name(row.by),
            kind=row.kind,
            text=row.text,
            mentions=tuple(row.mentions),
            at=row.at,
        )
        for row in reversed(rows)
    )


def assignable(found: RequestView) -> tuple[str, ...]:
    """Return the names of those a request may be given to by this person."""
    by = () if found.viewer.may("operate", found.workflow) else found.by
    people = people_who("answer", found.workflow)
    return tuple(person.name for person in people if person.addressed(by, found.not_by, found.requester))


def spoken_for(found: RequestView) -> tuple[str, ...]:
    """Return the names of those in whose name an operator may answer: whoever else may answer it, or has it."""
    people = people_who("answer", found.workflow)
    theirs = [one for one in people if one.addressed(found.by, found.not_by, found.requester)]
    names = {one.name for one in theirs} | ({found.assignee} if found.assignee else set())
    return tuple(sorted(names - {found.viewer.name}))


def mentionable(found: RequestView) -> tuple[str, ...]:
    """Return the names of those who may read a request."""
    return tuple(person.name for person in readers(found.workflow, found.by, found.requester))


def undoable(viewer: Viewer) -> tuple[Undoable, ...]:
    """Return this person's answers that may still be taken back, latest first (one query)."""
    live = Reply.objects.filter(by=viewer.user, undone__isnull=True, settles__gt=timezone.now())
    rows = live.select_related("request").order_by("-at")[:MOST_LINES]
    return tuple(
        Undoable(
            request=row.request_id,
            subject=str(row.request.card.get("subject") or row.request.step),
            verdict=row.verdict,
            settles=row.settles or row.at,
        )
        for row in rows
    )


def absences(viewer: Viewer) -> tuple[tuple[AbsenceView, ...], tuple[AbsenceView, ...]]:
    """Return when this person is away, and for whom they stand in; now and to come (two queries)."""
    now = timezone.now()
    rows = Absence.objects.filter(until__gt=now).select_related("user", "delegate").order_by("since")
    mine = tuple(_absence(row, now) for row in rows.filter(user=viewer.user))
    return mine, tuple(_absence(row, now) for row in rows.filter(delegate=viewer.user))


def stand_ins(viewer: Viewer) -> tuple[str, ...]:
    """Return the names a person may leave their requests to: everybody else who is active (one query)."""
    users = User.objects.filter(is_active=True).exclude(pk=viewer.user.pk).order_by("username")
    return tuple(users.values_list("username", flat=True)[:MOST_LINES])


def _people_at(found: RequestView) -> tuple[tuple[PersonHere, ...], datetime | None]:
    """Return the others who have it open, and when this person took it over."""
    now = timezone.now()
    rows = Presence.objects.filter(request_id=found.id, seen__gt=now - HERE, user__is_active=True)
    rows = rows.select_related("user").order_by("since")
    others = [row for row in rows if row.user_id != found.viewer.user.pk]
    taken = next((row.taken for row in rows if row.user_id == found.viewer.user.pk), None)
    reviewers = _reviewers(found, [_name(row.user) for row in others])
    return tuple(
        PersonHere(
            name=_name(row.user),
            since=row.since,
            typing=row.typing is not None and row.typing > now - TYPING,
            reviews=_name(row.user) in reviewers,
            taken=row.taken,
        )
        for row in others
    ), taken


def _reviewers(found: RequestView, names: list[str]) -> set[str]:
    if not names:
        return set()
    people = people_who("answer", found.workflow, names=names)
    return {p.name for p in people if p.addressed(found.by, found.not_by, found.requester)} | {found.assignee} - {""}


def _holder(people: tuple[PersonHere, ...], me_taken: datetime | None) -> PersonHere | None:
    """Return who has it in hand: who took it last, else who opened it first; None if that is oneself."""
    reviewing = [person for person in people if person.reviews]
    takers = [person for person in reviewing if person.taken]
    last = max(takers, key=lambda person: person.taken or person.since, default=None)
    if me_taken and (last is None or (last.taken or me_taken) <= me_taken):
        return None
    return last or next(iter(reviewing), None)


def _live_replies(found: RequestView) -> list[Reply]:
    if found.rules.need < 2:
        return []
    replies = Reply.objects.filter(request_id=found.id, undone__isnull=True).select_related("by")
    return list(replies.order_by("at"))


def _vote(reply: Reply, shown: bool) -> VoteView:
    return VoteView(
        by=_name(reply.by),
        verdict=reply.verdict,
        at=reply.at,
        acting_for=reply.acting_for,
        reason=reply.reason if shown else "",
    )


def _draft(found: RequestView) -> DraftView | None:
    row = Draft.objects.filter(request_id=found.id, user=found.viewer.user).first()
    return DraftView(fields=row.fields, at=row.at) if row else None


def _former(found: RequestView) -> Json:
    replies = Reply.objects.filter(request_id=found.id, by=found.viewer.user, undone__isnull=False)
    last = replies.order_by("-undone").first()
    return last.value if last else None


def _absence(row: Absence, now: datetime) -> AbsenceView:
    return AbsenceView(
        id=row.pk,
        user=_name(row.user),
        delegate=_name(row.delegate),
        since=row.since,
        until=row.until,
        now=row.since <= now,
    )


def _name(user: Any) -> str:
    return user.get_username() if user else "somebody"
