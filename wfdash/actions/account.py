"""Actions on one's own account: saved views, absence, notifications, looks, password, sessions, tokens, browsers.

Everyone changes only their own. The text of a token is returned once and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, time, timedelta
from hashlib import sha256

from django.conf import settings
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import Q
from django.utils import timezone

from checkpoints import ids
from checkpoints.database.alias import atomic, on_commit
from checkpoints.database.clock import database_now
from checkpoints.database.storage import write
from checkpoints.limits import NAME, findable, is_storable
from checkpoints.models import Absence, Notice, Preference, PushSubscription, SavedView, Token
from checkpoints.models.user_model import User, has_name
from checkpoints.records import Json, frozen
from wfdash import pubsub
from wfdash.access.directory import (
    colleagues,
    find_person,
    is_service,
    obstacle,
    refuse_narrow,
    refuse_token,
    service_account,
)
from wfdash.access.signin import attempt_limits, second_factor
from wfdash.access.signin.backend import PASSWORD, slots
from wfdash.access.signin.links import revoke_links
from wfdash.access.signin.sessions import end_sessions
from wfdash.access.signin.tokens import new_secret
from wfdash.access.viewer import EVERY, RIGHTS, THROUGH_AGENTS, Viewer
from wfdash.actions import audit, pacing
from wfdash.actions.audit import acting
from wfdash.actions.pacing import idempotent, made_before
from wfdash.domain import search_attributes
from wfdash.domain.cron import known_zones
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState, wrong
from wfdash.notifications.letters import Undeliverable, refuse_address
from wfdash.notifications.preferences import BROWSER, DIGESTS, KINDS, PERSONAL, PUSH, Preferences, read_time
from wfdash.notifications.push import REMEDY, decoded, is_installed
from wfdash.values.schemas.validate import Problem

# Saved views: save, change, delete. Only the owner changes one; sharing a view shares a filter, never a row.

MAX_SAVED_VIEWS = 100
"""Views one person may keep."""
LONGEST_NAME = 80
LONGEST_QUERY = 1000


def save_view(viewer: Viewer, name: str, query: str, *, page: str = "inbox", shared: bool = False) -> SavedView:
    """Save a filter (the query string of a list's address) under a name. ``Invalid`` for an invalid or a duplicate
    name.
    """
    refuse_narrow(viewer)
    name = _checked_name(name, query)
    with write():
        pacing.charge(viewer, "view")
        if SavedView.objects.filter(owner=viewer.user).count() >= MAX_SAVED_VIEWS:
            raise Invalid.at("name", f"You have {MAX_SAVED_VIEWS} views. Delete one first")
        try:
            with atomic():
                view = SavedView.objects.create(
                    id=ids.new_request_id(),
                    owner=viewer.user,
                    page=page,
                    name=name,
                    query=query,
                    shared=shared,
                    created=timezone.now(),
                )
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, None, view)
    return view


def change_view(viewer: Viewer, view_id: str, *, name: str, query: str | None = None, shared: bool = False) -> None:
    """Rename, share or unshare an own view, and with ``query`` change its filter. ``NotFound``, ``Invalid``."""
    refuse_narrow(viewer)
    name = _checked_name(name, query or "")
    changes: dict[str, str | bool] = {"name": name, "shared": shared}
    if query is not None:
        changes["query"] = query
    with write():
        pacing.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        try:
            with atomic():
                SavedView.objects.filter(pk=before.pk).update(**changes)
        except IntegrityError:
            raise _duplicate_name(name) from None
        _audit(viewer, before, _own_view(viewer, view_id))


def delete_view(viewer: Viewer, view_id: str) -> None:
    """Delete an own view. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "view")
        before = _own_view(viewer, view_id)
        SavedView.objects.filter(pk=before.pk).delete()
        _audit(viewer, before, None)


def _own_view(viewer: Viewer, view_id: str) -> SavedView:
    view = SavedView.objects.select_for_update().filter(pk=view_id, owner=viewer.user).first()
    if view is None:
        raise NotFound("View not found")
    return view


def _audit(viewer: Viewer, before: SavedView | None, after: SavedView | None) -> None:
    """Record in the audit what others can see from now on, or no longer."""
    shown = _facts(after) if after is not None and after.shared else None
    was = _facts(before) if before is not None and before.shared else None
    if shown is not None and shown != was:
        audit.record(viewer, "share view", facts=shown)
    elif was is not None and shown is None:
        audit.record(viewer, "unshare view", facts=was)


def _facts(view: SavedView) -> dict[str, str]:
    return {"view": view.pk, "page": view.page, "name": view.name, "query": view.query}


def _checked_name(name: str, query: str) -> str:
    name = search_attributes.cleaned(name)
    if not name:
        raise Invalid.at("name", "Enter a name")
    if len(name) > LONGEST_NAME:
        raise Invalid.at("name", f"At most {LONGEST_NAME} characters")
    if len(query) > LONGEST_QUERY:
        raise Invalid.at("query", "This filter is too long to save")
    return name


def _duplicate_name(name: str) -> Invalid:
    return Invalid.at("name", f"You already have a view named {name}. Choose another name")


# Out of office: name a delegate for a period, and end it.

MAX_ABSENCE = timedelta(days=366)


def set_absence(viewer: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Create an absence from ``since`` to ``until``, during which ``delegate`` (a user name) may answer on this
    person's behalf.

    The delegate still needs the right to answer requests of the workflow. ``Invalid`` at ``delegate``, ``since`` or
    ``until``.
    """
    refuse_narrow(viewer)
    with write():
        absence = insert_absence(viewer, delegate, since, until)
        audit.record(viewer, "away", facts=absence_facts(absence))
    return absence


def end_absence(viewer: Viewer, absence_id: int) -> None:
    """End an absence: one that has started ends now, a future one is deleted. ``NotFound`` if it is over or someone
    else's.
    """
    refuse_narrow(viewer)
    with write():
        absence = remove_absence(viewer.user, absence_id)
        audit.record(viewer, "back", facts={"delegate": absence.delegate.get_username()})


def insert_absence(person: Viewer, delegate: str, since: datetime, until: datetime) -> Absence:
    """Insert an absence of this person in the caller's transaction, which has to audit it. ``Invalid``; ``WrongState``
    for a service account: no one decides in the name of a program.
    """
    if is_service(person.user):
        raise WrongState(f"{person.name} is a service account. Only people can be out of office")
    own = delegate == person.name
    found = person.user if own else colleagues(person).filter(has_name(findable(delegate))).first()
    problems = [*_no_delegate(person, found), *_no_time(since, until)]
    if problems or found is None:
        raise Invalid(problems)
    if Absence.objects.filter(user=person.user, since__lt=until, until__gt=since).exists():
        raise Invalid.at("since", "Already out of office then. End that first")
    return Absence.objects.create(user=person.user, delegate=found, since=since, until=until)


def remove_absence(user: User, absence_id: int) -> Absence:
    """End or delete an absence of this person in the caller's transaction, which has to audit it. ``NotFound``."""
    now = timezone.now()
    absence = Absence.objects.filter(user=user, pk=absence_id, until__gt=now).first()
    if absence is None:
        raise NotFound("No such out-of-office period to end")
    if absence.since >= now:
        absence.delete()
    else:
        Absence.objects.filter(pk=absence.pk).update(until=now)
    return absence


def absence_facts(absence: Absence) -> dict[str, str]:
    """Return what the audit keeps of an absence."""
    period = {"since": absence.since.isoformat(), "until": absence.until.isoformat()}
    return {"delegate": absence.delegate.get_username(), **period}


def _no_delegate(viewer: Viewer, person: User | None) -> list[dict[str, object]]:
    if person is None:
        return [wrong("delegate", "No such user")]
    if person == viewer.user:
        return [wrong("delegate", "Choose someone else")]
    return []


def _no_time(since: datetime, until: datetime) -> list[dict[str, object]]:
    if until <= since:
        return [wrong("until", "The last day must not be before the first")]
    if until <= timezone.now():
        return [wrong("until", "This period has already ended")]
    if until - since > MAX_ABSENCE:
        return [wrong("until", "At most one year")]
    return []


# How a person wants lists to look. These are personal settings, so they are not audited.


def set_columns(viewer: Viewer, page: str, columns: Sequence[str]) -> None:
    """Store which columns of a list this person sees."""
    _store(viewer, page, {"columns": list(columns)})


def set_density(viewer: Viewer, density: str) -> None:
    """Store how dense the rows of all lists are for this person."""
    _store(viewer, "density", density)


def dismiss_getting_started(viewer: Viewer) -> None:
    """Stop showing this person what an installation still lacks."""
    _store(viewer, "first_steps", "dismissed")


def _store(viewer: Viewer, name: str, value: Json) -> None:
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "look")
        Preference.objects.get_or_create(user=viewer.user)
        kept = Preference.objects.select_for_update().get(user=viewer.user)
        kept.looks = {**kept.looks, name: value}
        kept.save(update_fields=["looks"])


def set_preferences(
    viewer: Viewer,
    *,
    channels: Mapping[str, Collection[str]],
    zone: str,
    quiet: Sequence[str] = (),
    digest: str = "",
    digest_at: str = "08:00",
) -> Preferences:
    """Store a person's notification preferences. ``quiet``: from and to (``"22:00"``), or None.

    ``Invalid`` with errors per field.
    """
    refuse_narrow(viewer)
    problems: list[Problem] = []
    clocks = {name: _time(name, text, problems) for name, text in zip(("quiet_from", "quiet_to"), quiet, strict=False)}
    at = _time("digest_at", digest_at, problems)
    if zone not in known_zones():
        problems.append(wrong("zone", "Unknown time zone. Use a name such as Europe/Berlin"))
    if digest not in DIGESTS:
        problems.append(wrong("digest", "Select one of the list"))
    if problems:
        raise Invalid(problems)
    wishes = Preferences(
        channels={kind: frozenset(chosen) & frozenset(PERSONAL) for kind, chosen in channels.items() if kind in KINDS},
        zone=zone,
        quiet=(clocks["quiet_from"], clocks["quiet_to"]) if len(clocks) == 2 else None,
        digest=digest,
        digest_at=at,
    )
    with write():
        Preference.objects.update_or_create(user=viewer.user, defaults={"data": wishes.stored()})
    return wishes


def read_notices(viewer: Viewer, ids: Sequence[str] | None = None, *, request: str = "") -> int:
    """Mark a person's notifications as read: the given ones, those of a request, or all. Returns how many were
    unread.
    """
    refuse_narrow(viewer)
    mine = Notice.objects.filter(user=viewer.user, channel=BROWSER, read__isnull=True)
    if ids is not None:
        mine = mine.filter(pk__in=list(ids))
    if request:
        mine = mine.filter(request_id=request)
    if not mine.exists():
        return 0
    with write():
        count = mine.update(read=timezone.now())
    pubsub.notifications_changed.publish(viewer.user.pk)
    return count


def _time(name: str, text: str, problems: list[Problem]) -> time:
    try:
        return read_time(text)
    except ValueError:
        problems.append(wrong(name, "Enter a time such as 22:00"))
        return time()


WRONG = "Wrong password"
JUST_NOW = timedelta(minutes=10)
NO_PASSWORDS = "No one signs in by password here. Use the sign-in provider, or a one-time link"


def set_password(
    viewer: Viewer,
    new: str,
    *,
    repeated: str,
    current: str = "",
    code: str = "",
    passkey: str = "",
    session: str | None = None,
) -> User:
    """Give one's own account a password, or another one; return the user as stored.

    ``current``: the password so far, if there is one; without one, ``code`` or ``passkey`` if a second factor is on: a
    forgotten browser is not enough. All other sessions and unused sign-in links end; ``session`` is the key of the one
    that stays. ``Invalid`` with errors per field; ``TooManyTries``, ``Busy``; ``WrongState`` where passwords are off.
    """
    refuse_token(viewer)
    if not settings.WFDASH_PASSWORDS:
        raise WrongState(NO_PASSWORDS)
    user = User.objects.get(pk=viewer.user.pk)
    if new != repeated:
        raise Invalid.at("repeated", "The two passwords differ")
    _check_strength(new, user)
    check_identity(user, current, code, passkey)
    with write(), acting(viewer, ""):
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        user.set_password(new)
        user.save(update_fields=["password"])
        revoke_links(user)
        end_sessions(user.pk, but=session)
    return user


def end_own_session(viewer: Viewer, session_id: str) -> None:
    """End one of one's own sessions by its id. ``NotFound``."""
    refuse_token(viewer)
    with write():
        if not session_id or end_sessions(viewer.user.pk, only=session_id) != 1:
            raise NotFound("Session not found, or already ended")
        audit.record(viewer, "end sessions", facts={"user": viewer.name, "sessions": 1})


def end_other_sessions(viewer: Viewer, session: str | None) -> int:
    """End all of one's own sessions but the one with this key; return how many there were."""
    refuse_token(viewer)
    with write():
        count = end_sessions(viewer.user.pk, but=session)
        audit.record(viewer, "end sessions", facts={"user": viewer.name, "sessions": count})
    return count


def _check_strength(new: str, user: User) -> None:
    if len(new) > PASSWORD:
        raise Invalid.at("new", f"At most {PASSWORD} characters")
    try:
        password_validation.validate_password(new, user)
    except ValidationError as error:
        raise Invalid.at("new", " ".join(error.messages).rstrip(".")) from None


def may_add_passkey(
    viewer: Viewer, *, current: str = "", code: str = "", passkey: str = "", since: datetime | None = None
) -> bool:
    """Check that it is the person who adds a passkey; return whether they have a second factor.

    A passkey replaces password and code, so both are asked for; of someone with neither, a sign-in (``since``) a moment
    ago. ``Invalid`` with errors per field; ``TooManyTries``, ``Busy``, ``WrongState``.
    """
    refuse_token(viewer)
    user = User.objects.get(pk=viewer.user.pk)
    has_password, on = user.has_usable_password(), second_factor.is_on(user)
    if has_password:
        check_identity(user, current, "")
    if on:
        second_factor.check(user, code, passkey)
    if not (has_password or on or (since is not None and timezone.now() - since < JUST_NOW)):
        raise WrongState("Sign out and in again first: you have no password and no code to prove that it is you")
    return on


def check_identity(user: User, current: str, code: str, passkey: str = "") -> None:
    """Check the password so far, or the second factor where there is no password. Wrong ones are counted."""
    if not user.has_usable_password():
        if second_factor.is_on(user):
            second_factor.check(user, code, passkey)
        return
    counted = attempt_limits.for_own_password(user.pk)
    attempt_limits.check(counted)
    with slots.take():
        attempt_limits.charge(counted)
        right = len(current) <= PASSWORD and user.check_password(current)
    if not right:
        raise Invalid.at("current", WRONG)
    attempt_limits.forgive(counted)


MAX_USABLE_TOKENS = 100
"""Usable tokens one account may have."""
MOST_WORKFLOWS = 100
LONGEST_DAYS = 3650
DEFAULT_DAYS = 90
"""How long a token works where nothing else is said."""
SCOPES = RIGHTS["admin"] | {THROUGH_AGENTS}
"""What a token may be given: rights, and to answer over MCP."""


@frozen
class NewToken:
    """A token with its text, which no one sees again."""

    token: Token
    text: str


def create_token(
    viewer: Viewer,
    name: str,
    *,
    rights: Collection[str],
    workflows: Collection[str] = (EVERY,),
    days: int | None = DEFAULT_DAYS,
    owner: str = "",
    key: str | None = None,
) -> NewToken:
    """Make a token with which programs act as its owner, as far as these rights and workflows go.

    It gives no right that its owner does not have at the time of use. ``days``: how long it works; None: until it is
    revoked. ``owner``: a service account (for admins of every workflow); one's own account without. The same ``key``
    makes one token, and returns its text each time. ``Invalid`` with errors per field, ``NotAllowed``, ``NotFound``.
    """
    name = search_attributes.cleaned(name)
    if problems := [*_no_name(name), *_no_rights(rights), *_no_workflows(workflows), *_no_days(days)]:
        raise Invalid(problems)
    secret = new_secret(f"{viewer.user.pk} {key}" if key else "")
    command: list[Json] = [name, sorted(rights), sorted(workflows), days, owner]
    with write(), idempotent(viewer, key, "create token", command) as call:
        user, now = _owner(viewer, owner), timezone.now()
        if call.previous_result is not None:
            return NewToken(token=made_before(Token, secret.id), text=secret.text)
        pacing.charge(viewer, "token")
        if THROUGH_AGENTS in rights and is_service(user):
            raise Invalid.at("rights", f"No service account answers: {THROUGH_AGENTS} is for a person's own token")
        _refuse_too_many(user)
        token = _insert(
            Token(
                id=secret.id,
                secret_hash=secret.secret_hash,
                name=name,
                owner=user,
                rights=sorted({"see", *rights}),
                workflows=sorted({*workflows}),
                created=now,
                created_by=viewer.user if viewer.user.pk else None,
                expires=now + timedelta(days=days) if days is not None else None,
            )
        )
        audit.record(viewer, "create token", right=_right(viewer, user), facts=_token_facts(token))
    return NewToken(token=token, text=secret.text)


def revoke_token(viewer: Viewer, token_id: str) -> Token:
    """Make a token useless at once: one's own, or for admins of every workflow anyone's. ``NotFound``."""
    with write():
        pacing.charge(viewer, "token")
        token = Token.objects.select_related("owner").filter(usable(), pk=token_id).first()
        if token is None or not (token.owner_id == viewer.user.pk or viewer.may("admin", EVERY)):
            raise NotFound("Token not found, or already revoked")
        refuse_token(viewer)
        own = token.owner_id == viewer.user.pk
        if not own and (problem := obstacle(viewer, token.owner)):
            raise NotAllowed(problem)
        end_tokens(token.owner, only=token.pk)
        audit.record(viewer, "revoke token", right=_right(viewer, token.owner), facts=_token_facts(token))
    return token


def end_tokens(user: User, *, only: str = "") -> int:
    """Revoke an account's tokens in the caller's transaction; return how many there were. Their sockets close."""
    rows = Token.objects.filter(owner=user, revoked__isnull=True)
    count = (rows.filter(pk=only) if only else rows).update(revoked=timezone.now())
    owner = user.pk
    on_commit(lambda: pubsub.rights_changed.publish(owner))
    return count


def usable() -> Q:
    """Return the filter of tokens that are neither revoked nor expired."""
    return Q(revoked__isnull=True) & (Q(expires__isnull=True) | Q(expires__gt=timezone.now()))


def _token_facts(token: Token) -> dict[str, object]:
    """Return what the audit records of a token."""
    expires = token.expires.isoformat(timespec="seconds") if token.expires else None
    scopes = {"rights": token.rights, "workflows": token.workflows}
    return {"user": token.owner.get_username(), "name": token.name, "id": token.pk, **scopes, "expires": expires}


def _owner(viewer: Viewer, name: str) -> User:
    """Return whose token it becomes: no one makes a token that acts as another person."""
    refuse_token(viewer)
    if not name or name == viewer.name:
        owner: User = viewer.user
        if owner.pk is None:
            raise Invalid.at("owner", "Say whose token it is")
        return owner
    if viewer.user.pk is not None:
        return service_account(viewer, name)
    user = find_person(name)
    if user is None or not user.is_active:
        raise Invalid.at("owner", f"No active account named {name[:80]}")
    return user


def _insert(token: Token) -> Token:
    expired = Token.objects.filter(owner=token.owner, name=token.name, expires__lte=token.created)
    expired.filter(revoked__isnull=True).update(revoked=token.created)
    try:
        with atomic():
            token.save(force_insert=True)
    except IntegrityError:
        words = f"There is a token named {token.name}. Revoke it first, or choose another name"
        raise Invalid.at("name", words) from None
    return token


def _right(viewer: Viewer, owner: User) -> str:
    return "" if owner.pk == viewer.user.pk else "admin"


def _refuse_too_many(user: User) -> None:
    if Token.objects.filter(usable(), owner=user).count() >= MAX_USABLE_TOKENS:
        raise Invalid.at("name", f"At most {MAX_USABLE_TOKENS} tokens. Revoke one first")


def _no_name(name: str) -> list[Problem]:
    if not name or not is_storable(name):
        return [wrong("name", "Enter a name, such as what will use it")]
    return [wrong("name", f"At most {LONGEST_NAME} characters")] if len(name) > LONGEST_NAME else []


def _no_rights(rights: Collection[str]) -> list[Problem]:
    unknown = sorted({*rights} - SCOPES)
    words = f"Choose among {', '.join(sorted(SCOPES))}"
    return [wrong("rights", words)] if unknown or not rights else []


def _no_workflows(workflows: Collection[str]) -> list[Problem]:
    fits = all(one and len(one) <= NAME and is_storable(one) for one in workflows)
    if not workflows or not fits or len(workflows) > MOST_WORKFLOWS:
        words = f"Enter names of workflows, at most {MOST_WORKFLOWS}, or * for every one"
        return [wrong("workflows", words)]
    return []


def _no_days(days: int | None) -> list[Problem]:
    if days is None or 0 < days <= LONGEST_DAYS:
        return []
    return [wrong("days", f"Enter a number of days from 1 to {LONGEST_DAYS}")]


MAX_BROWSERS = 10
"""Browsers of one person."""
MAX_ENDPOINT_CHARACTERS = 1_000


def subscribe(viewer: Viewer, *, endpoint: str, p256dh: str, auth: str, name: str) -> PushSubscription:
    """Subscribe a browser for a person. One that was subscribed before, by whomever, is theirs now.

    ``Invalid``: not an address that is posted to, no keys, or more browsers than ten.
    """
    refuse_narrow(viewer)
    if problems := _problems(endpoint, p256dh, auth):
        raise Invalid(problems)
    digest = sha256(endpoint.encode()).hexdigest()
    with write():
        pacing.charge(viewer, "push")
        others = PushSubscription.objects.filter(user=viewer.user).exclude(digest=digest)
        if others.count() >= MAX_BROWSERS:
            raise Invalid.at("", f"At most {MAX_BROWSERS} browsers. Remove one of them first")
        PushSubscription.objects.filter(digest=digest).delete()
        return PushSubscription.objects.create(
            id=ids.new_token(),
            user=viewer.user,
            digest=digest,
            data={"endpoint": endpoint, "p256dh": p256dh, "auth": auth},
            name=(name.strip() or "Browser")[:80],
            created=timezone.now(),
        )


def unsubscribe(viewer: Viewer, browser_id: str) -> None:
    """Remove one of a person's browsers, and what waits for it. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "push")
        forget_browser(_find(viewer, browser_id).pk)


def try_push(viewer: Viewer, browser_id: str) -> Notice:
    """Return a test notification for one of a person's browsers, sent like any other. ``NotFound``."""
    refuse_narrow(viewer)
    with write():
        pacing.charge(viewer, "push")
        now, target = database_now(), _find(viewer, browser_id).pk
        return Notice.objects.create(
            id=ids.new_token(), kind="test", channel=PUSH, user=viewer.user, target=target, created=now, due=now
        )


def forget_browser(browser_id: str) -> None:
    """Remove a browser that is no longer subscribed, and what waits for it."""
    PushSubscription.objects.filter(pk=browser_id).delete()
    Notice.objects.filter(channel=PUSH, target=browser_id, sent__isnull=True, given_up__isnull=True).delete()


def _find(viewer: Viewer, browser_id: str) -> PushSubscription:
    found = PushSubscription.objects.filter(pk=browser_id, user=viewer.user).first()
    if found is None:
        raise NotFound("Browser not found")
    return found


def _problems(endpoint: str, p256dh: str, auth: str) -> list[Problem]:
    if not is_installed():
        return [wrong("", f"Push notifications are not installed: {REMEDY}")]
    found: list[Problem] = []
    try:
        refuse_address(endpoint)
    except Undeliverable as error:
        found.append(wrong("endpoint", str(error)))
    if len(endpoint) > MAX_ENDPOINT_CHARACTERS:
        found.append(wrong("endpoint", f"At most {MAX_ENDPOINT_CHARACTERS} characters"))
    if not _is_key(p256dh):
        found.append(wrong("p256dh", "Not a public key of P-256"))
    if len(_bytes(auth)) != 16:
        found.append(wrong("auth", "Must be 16 bytes in base64url"))
    return found


def _is_key(text: str) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(text))
    except ValueError:
        return False
    return len(_bytes(text)) == 65  # browsers send it uncompressed, and the cipher wants it so


def _bytes(text: str) -> bytes:
    try:
        return decoded(text[:200])
    except ValueError:
        return b""
