"""Reads of a person's account: notifications, saved views, tokens, sign-in, looks of lists, first steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from checkpoints.database.compiled import compiled, compiled_rows
from checkpoints.models import (
    Answer,
    HumanRequest,
    Notice,
    Preference,
    PushSubscription,
    Run,
    SavedView,
    ServiceAccount,
    Token,
    Webhook,
)
from checkpoints.models.user_model import USERNAME, User, has_name
from checkpoints.records import frozen
from wfdash.access.directory import refuse_narrow
from wfdash.access.signin import second_factor
from wfdash.access.signin.identities import identity_row
from wfdash.access.signin.sessions import OpenSession, sessions_of
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.domain.labels import visible
from wfdash.engines import catalog
from wfdash.engines.catalog import title_of
from wfdash.notifications.letters import ANSWERABLE, headline, page_of
from wfdash.notifications.preferences import BROWSER, KINDS
from wfdash.queries.run_names import titles_of
from wfdash.queries.unreadable import document
from wfdash.records.account import NotificationRecord, SavedViewRecord
from wfdash.records.base import UNREADABLE

# Tokens, without their secrets: one's own, and for admins of every workflow those of others.

MAX_LISTED_ACCOUNTS = 300


@frozen
class TokenRow:
    """A token as lists show it."""

    id: str
    name: str
    owner: str
    rights: tuple[str, ...]
    workflows: tuple[str, ...]
    created: datetime
    by: str
    """Who made it; empty for the command line."""
    expires: datetime | None
    used: datetime | None
    revoked: datetime | None

    @property
    def state(self) -> str:
        """Return usable, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= timezone.now() else "usable"

    @property
    def everywhere(self) -> bool:
        """Return whether it may be used for every workflow."""
        return EVERY in self.workflows


def own_tokens(viewer: Viewer) -> tuple[TokenRow, ...]:
    """Return one's own tokens that are not revoked, the newest first (one query)."""
    return _rows(Token.objects.filter(owner_id=viewer.user.pk, revoked__isnull=True))


def tokens_of(user: User) -> tuple[TokenRow, ...]:
    """Return an account's tokens that are not revoked, the newest first (one query). The caller checks the right."""
    return _rows(Token.objects.filter(owner=user, revoked__isnull=True))


def service_names() -> frozenset[str]:
    """Return the names of all service accounts (one query)."""
    return frozenset(ServiceAccount.objects.values_list(f"user__{USERNAME}", flat=True))


def service_accounts(viewer: Viewer) -> tuple[str, ...]:
    """Return the names of active service accounts to which this person may give a token or a webhook (one query);
    none for people who are not admins of every workflow.
    """
    if not viewer.may("admin", EVERY):
        return ()
    users = User.objects.filter(service_account__isnull=False, is_active=True).exclude(pk=viewer.user.pk)
    return tuple(users.order_by(USERNAME).values_list(USERNAME, flat=True)[:MAX_LISTED_ACCOUNTS])


def all_tokens(viewer: Viewer, *, owner: str = "", ended: bool = False) -> tuple[TokenRow, ...]:
    """Return everyone's tokens, or those of one account, the newest first. ``ended``: revoked and expired ones, too.
    ``NotAllowed`` for everyone but admins of every workflow.
    """
    if not viewer.may("admin", EVERY):
        raise NotAllowed("Only admins of every workflow can list the tokens of others")
    rows = Token.objects.filter(has_name(owner, through="owner")) if owner else Token.objects.all()
    found = _rows(rows if ended else rows.filter(revoked__isnull=True))
    return found if ended else tuple(row for row in found if row.state == "usable")


def _rows(tokens: QuerySet[Token]) -> tuple[TokenRow, ...]:
    found = tokens.select_related("owner", "created_by").order_by("-created", "pk")[:MAX_LISTED_ACCOUNTS]
    return tuple(
        TokenRow(
            id=token.pk,
            name=token.name,
            owner=token.owner.get_username(),
            rights=tuple(token.rights),
            workflows=tuple(token.workflows),
            created=token.created,
            by=token.created_by.get_username() if token.created_by else "",
            expires=token.expires,
            used=token.used,
            revoked=token.revoked,
        )
        for token in found
    )


# What a person's own account page shows: password, sessions, and whom the sign-in provider knows them as.


@frozen
class OwnAccount:
    """A person's own account. ``code``: they have no password, and a second factor that a first one needs;
    ``passkeys``: that may be a passkey.

    ``connected``: since when they can sign in at the provider; None where they cannot.
    """

    password: bool
    code: bool
    passkeys: bool
    sessions: tuple[OpenSession, ...]
    connected: datetime | None = None

    @property
    def others(self) -> int:
        """Return how many sessions there are besides this one."""
        return sum(not session.here for session in self.sessions)


def own_account(viewer: Viewer, key: str | None) -> OwnAccount:
    """Return a person's own account (four queries). ``key``: of the session that asks."""
    has = bool(viewer.user.has_usable_password())
    code = not has and second_factor.is_on(viewer.user)
    row = identity_row(viewer.user)
    sessions = tuple(sessions_of(viewer.user.pk, key))
    passkeys = code and second_factor.passkeys(user=viewer.user).exists()
    return OwnAccount(password=has, code=code, passkeys=passkeys, sessions=sessions, connected=row and row.date_joined)


# Saved views of lists: a person's own and those shared by others.

MAX_OFFERED_VIEWS = 50
"""How many views a list offers."""


class ViewRow(SavedViewRecord):
    """A saved view. ``query`` is the query string of the list's address; ``mine``: this person may change it."""

    count: str = ""
    """How many rows it has, such as ``99+``; empty if they were not counted."""
    broken: bool = False
    """Its filter cannot be understood any more."""


def read_views(viewer: Viewer, page: str = "inbox") -> tuple[ViewRow, ...]:
    """Return a person's saved views of a page and the shared ones, their own first (one query)."""
    rows = VIEWS(viewer, page).all()
    return tuple(sorted((_view_row(viewer, row) for row in rows), key=lambda row: not row.mine))


VIEWS = compiled_rows(
    lambda viewer, page: _visible(viewer).filter(page=page).order_by("name", "id")[:MAX_OFFERED_VIEWS]
)


def views_named(viewer: Viewer, words: Iterable[str], most: int) -> tuple[ViewRow, ...]:
    """Return the saved views of any page whose name contains each of the words (one query)."""
    rows = _visible(viewer)
    for word in words:
        rows = rows.filter(name__icontains=word)
    return tuple(_view_row(viewer, row) for row in rows.order_by("name", "id")[:most])


def read_view(viewer: Viewer, view_id: str) -> ViewRow:
    """Return one view (one query). ``NotFound``."""
    row = _visible(viewer).filter(pk=view_id).first()
    if row is None:
        raise NotFound("View not found, or not shared with you")
    return _view_row(viewer, row)


def _visible(viewer: Viewer) -> QuerySet[SavedView]:
    """Return the filter of views this person may know of. A filter may name what is in any workflow: a token with
    limits has none.
    """
    if not viewer.whole:
        return SavedView.objects.none()
    shared = Q(shared=True) if viewer.rights else Q(pk__in=[])
    return SavedView.objects.filter(Q(owner_id=viewer.user.pk) | shared).select_related("owner")


def _view_row(viewer: Viewer, row: SavedView) -> ViewRow:
    return ViewRow.trusted(
        id=row.pk,
        name=row.name,
        query=row.query,
        shared=row.shared,
        mine=row.owner_id == viewer.user.pk,
        owner=row.owner.get_username(),
        page=row.page,
    )


# A person's notifications, newest first. Rows they may no longer see are left out.

DECIDED = Q(request__answered__isnull=False) | Q(request__closed__isnull=False) | Q(request__settles__isnull=False)
ALREADY_ANSWERED = Q(kind__in=ANSWERABLE) & DECIDED
"""It asked for an answer, and there is one, here or elsewhere: it is obsolete."""
MAX_COUNTED_UNREAD = 100
"""Unread notifications are counted up to this number."""
LOOKED_AT = 1_000
"""The newest, of which those that still matter are listed and counted."""


class NoticeView(NotificationRecord):
    """A row of the list of notifications. ``moot``: it asked for an answer that has been given since."""

    page: str
    """The address of its subject, if it is about none of the requests."""
    workflow: str
    """The title of the workflow it is about."""

    @property
    def unread(self) -> bool:
        """Return whether it counts as unread."""
        return not self.read and not self.moot

    @property
    def icon(self) -> str:
        """Return the icon of its kind; a bell for a kind of an older release."""
        kind = KINDS.get(self.kind)
        return kind.icon if kind else "bell"

    @property
    def heading(self) -> str:
        """Return what its kind is called, and its workflow."""
        kind = KINDS.get(self.kind)
        return " · ".join(filter(None, (kind.label if kind else self.kind, self.workflow)))


@frozen
class NoticePage:
    """A page of notifications. ``older``: the cursor of the next page, empty at the end."""

    items: tuple[NoticeView, ...]
    older: str = ""

    @property
    def groups(self) -> list[list[NoticeView]]:
        """Return those of one kind and workflow together, in the place of the newest, the unread ones first."""
        found: dict[tuple[str, str], list[NoticeView]] = {}
        for item in self.items:
            found.setdefault((item.kind, item.workflow), []).append(item)
        return [sorted(group, key=lambda item: not item.unread) for group in found.values()]


def count_unread(viewer: Viewer) -> int:
    """Return how many notifications this person has not read, at most 100 (one query)."""
    return unread_of(viewer).count()


@compiled
def unread_of(viewer: Viewer) -> QuerySet[Any, Any]:
    """Return the query that ``count_unread`` counts."""
    newest = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER, read__isnull=True).order_by("-id")
    unread = _own_notifications(viewer).filter(pk__in=newest.values("pk")[:LOOKED_AT]).exclude(ALREADY_ANSWERED)
    return unread.order_by().values("pk")[:MAX_COUNTED_UNREAD]


def notices(viewer: Viewer, *, before: str = "", limit: int = 30) -> NoticePage:
    """Return this person's notifications that still matter, newest first (at most three queries)."""
    refuse_narrow(viewer)
    newest = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER).order_by("-id").values_list("pk", flat=True)
    if before:
        newest = newest.filter(id__lt=before)
    rows = _own_notifications(viewer).select_related("request").exclude(ALREADY_ANSWERED).order_by("-id")
    found = list(rows.filter(pk__in=newest[:LOOKED_AT])[: limit + 1])
    older = found[limit - 1].pk if len(found) > limit else newest[LOOKED_AT - 1 : LOOKED_AT].first() or ""
    called = titles_of(viewer, map(_run_of, found))
    return NoticePage(items=tuple(_view(row, called) for row in found[:limit]), older=older)


def notice(viewer: Viewer, notice_id: str) -> NoticeView | None:
    """Return one of this person's notifications, None if there is none."""
    refuse_narrow(viewer)
    row = _own_notifications(viewer).select_related("request").filter(pk=notice_id).first()
    return None if row is None else _view(row, titles_of(viewer, [_run_of(row)]))


def push_browsers(viewer: Viewer) -> list[PushSubscription]:
    """Return the browsers in which this person gets push notifications, without their addresses and keys."""
    return list(PushSubscription.objects.filter(user=viewer.user).defer("data").order_by("-created"))


def _own_notifications(viewer: Viewer) -> QuerySet[Notice]:
    # Not ``request__in``: SQLite would read every request to find those that may be seen.
    visible = HumanRequest.objects.filter(viewer.scope("see") | viewer.started(), pk=OuterRef("request_id"))
    mine = Notice.objects.filter(user_id=viewer.user.pk, channel=BROWSER)
    plain = Q(request__isnull=True) & (Q(workflow="") | viewer.scope("see"))
    return mine.filter(plain | Q(Exists(visible)))


def _view(row: Notice, called: Mapping[str, str]) -> NoticeView:
    request = row.request
    payload = document(row, "payload")
    name = str(payload.get("workflow") or "")
    decided = request is not None and (request.answered is not None or request.closed is not None)
    return NoticeView.trusted(
        id=row.pk,
        kind=row.kind,
        headline=payload.get(UNREADABLE) or headline(row.kind, payload),
        text=visible(str(payload.get("text") or "")[:300]),
        run=called.get(_run_of(row)) or title_of(name),
        at=row.created,
        read=row.read is not None,
        moot=row.kind in ANSWERABLE and decided,
        request=row.request_id or "",
        page="" if row.request_id else page_of(row.kind, payload),
        workflow=title_of(name),
    )


def _run_of(row: Notice) -> str:
    return str(document(row, "payload").get("run") or "")


# What a new installation still lacks, known by facts alone.


@frozen
class GettingStarted:
    """What has been done to set up an installation."""

    workflow: bool
    """A workflow of one's own is served."""
    run: bool
    answer: bool
    """A person has answered a request."""
    people: bool
    """More than one person can sign in."""
    notifications: bool
    """Mails, chats or webhooks can reach someone who is not looking."""
    encryption: bool

    @property
    def done(self) -> int:
        """Return how many are done."""
        return sum(astuple(self))

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(astuple(self))


def read_getting_started(viewer: Viewer) -> GettingStarted | None:
    """Return what has been done (five queries); None for people who are not admins of everything."""
    if not viewer.may("admin", EVERY):
        return None
    return GettingStarted(
        workflow=any(entry.source not in catalog.SHIPPED for entry in catalog.entries()),
        run=Run.objects.order_by().exists(),
        answer=Answer.objects.filter(by__isnull=False).exists(),
        people=User.objects.filter(is_active=True)[:2].count() > 1,
        notifications=bool(settings.WFDASH_MAIL or settings.WFDASH_APPRISE) or Webhook.objects.exists(),
        encryption=bool(settings.WFDASH_ENCRYPTION_KEYS),
    )


def steps_to_show(viewer: Viewer) -> GettingStarted | None:
    """Return what has been done while something is left and this person has not dismissed the list."""
    if not viewer.may("admin", EVERY) or looks_of(viewer).dismissed_getting_started:
        return None
    found = read_getting_started(viewer)
    return found if found and found.done < found.count else None


# How a person wants lists to look: how dense their rows are, and which columns they chose.

DENSITIES = ("compact", "comfortable")
"""How high rows are; the first is the default."""


@frozen
class ListLooks:
    """What a person chose. ``columns``: of each list, where they ever chose any."""

    density: str = DENSITIES[0]
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dismissed_getting_started: bool = False


LOOKS = compiled_rows(lambda user: Preference.objects.filter(user_id=user).values_list("looks"))


def looks_of(viewer: Viewer) -> ListLooks:
    """Return what this person chose for lists (one query)."""
    (kept,) = LOOKS(viewer.user.pk).first() or ({},)
    chosen = {name: look["columns"] for name, look in kept.items() if isinstance(look, dict) and "columns" in look}
    density = kept.get("density")
    return ListLooks(
        density=density if isinstance(density, str) and density in DENSITIES else DENSITIES[0],
        dismissed_getting_started=kept.get("first_steps") == "dismissed",
        columns={name: tuple(map(str, those)) for name, those in chosen.items() if isinstance(those, list)},
    )
