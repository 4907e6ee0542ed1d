"""Sessions stored under the hash of their key, and those of a person: list them, end them.

A copy of the table, or of a backup, cannot be used to sign in. Each session holds since when it is open and in which
browser. The signed-in user is read together with the session wherever this process knows whose session it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import datetime
from hashlib import sha256
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user, logout
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db import router
from django.db.models import QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import SimpleLazyObject

from checkpoints.database.alias import alias, on_commit
from checkpoints.database.compiled import Placeholder, compiled_rows
from checkpoints.models.user_model import User
from checkpoints.records import frozen
from wfdash import pubsub
from wfdash.access.viewer import RightsRows, rights_of, rights_rows

SECOND_FACTOR = "wfdash_second_factor"
"""What a session holds that was started with a second factor."""


def stored_key(key: str) -> str:
    """Return the key a session is stored under: 160 bits of the hash, the length of the column."""
    return sha256(key.encode()).hexdigest()[:40]


MOST_KNOWN = 10_000
"""Sessions of which a process remembers whose they are."""
_owners: dict[str, str] = {}
"""By stored key, the user's id as text: a hint whose row to read with the session, never proof."""
_EXPIRES = Session._meta.get_field("expire_date")


def _remember(key: str, user: str | None) -> None:
    if len(_owners) >= MOST_KNOWN:
        _owners.clear()
    if user is None:
        _owners.pop(key, None)
    else:
        _owners[key] = user


@compiled_rows
def _users_with_session() -> QuerySet[User]:
    session = Session.objects.filter(session_key=Placeholder("key"), expire_date__gt=Placeholder("now", _EXPIRES))
    user = Placeholder("user", User._meta.pk)
    users = User.objects.filter(pk=user).select_related("service_account").order_by()
    return users.annotate(session_data=Subquery(session.values("session_data")), rights_text=rights_of(user))


def _user_and_session(key: str, user: str) -> User | None:
    """Return a user with ``session_data``, that of the session with this stored key, and ``rights_text``; None if there
    is no such user.
    """
    if router.db_for_read(Session) != alias():
        return None
    return _users_with_session().first(key=key, now=timezone.now(), user=user)


class SessionStore(db.SessionStore):
    """Django's own store; only the browser has the key.

    ``user_row``: the session's user, read in the same query; None where this process did not know whose session it is.
    What is signed says whose it is: the row of another user is not used. ``rights_text``: their rights at that moment.
    """

    user_row: User | None = None
    rights_text: str | None = None

    def load(self) -> dict[str, Any]:
        """Return what is stored in the session, nothing if it has expired."""
        key = stored_key(str(self.session_key))
        owner = _owners.get(key)
        found = None if owner is None else _user_and_session(key, owner)
        self.rights_text = None if found is None else found.__dict__.pop("rights_text")
        if found is None:
            data: dict[str, Any] = super().load()
        elif (text := found.__dict__.pop("session_data")) is None:
            self._session_key, data = None, {}
        else:
            data = self.decode(text)
        user = data.get(SESSION_KEY)
        self.user_row = found if found is not None and user == str(found.pk) else None
        _remember(key, user)
        return data

    def _get_session_from_db(self) -> Any:
        try:
            key = stored_key(str(self.session_key))
            return self.model.objects.get(session_key=key, expire_date__gt=timezone.now())
        except self.model.DoesNotExist:
            self._session_key = None
            return None

    async def _aget_session_from_db(self) -> Any:
        return await sync_to_async(self._get_session_from_db)()

    def flush(self) -> None:
        """Delete this session, and make the person's sockets check their session again."""
        user = self.get(SESSION_KEY)
        super().flush()
        if user is not None:
            pubsub.rights_changed.publish(User._meta.pk.to_python(user))

    def exists(self, session_key: str) -> bool:
        """Return whether there is a session with this key."""
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        """Return the same, asynchronously."""
        return await super().aexists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        """Return the row to store."""
        row = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> Any:
        """Return the same, asynchronously."""
        row = await super().acreate_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        """Delete this session, or the one with that key."""
        key = session_key or self.session_key
        if key is not None:
            super().delete(stored_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        """Delete the same, asynchronously."""
        await sync_to_async(self.delete)(session_key)


_looked_at: ContextVar[Any] = ContextVar("wfdash_session", default=None)
"""The session that is being looked at."""


class SignedInUser(AuthenticationMiddleware):
    """Django's middleware, except that ``request.user`` needs no query of its own after the session's, and that it
    ends sessions which were started without a second factor where everyone must have one.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Attach the user, read when first used."""
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: user_of(request))  # type: ignore[assignment]
        session = request.session
        if settings.WFDASH_REQUIRE_SECOND_FACTOR and SESSION_KEY in session and SECOND_FACTOR not in session:
            logout(request)


def user_of(request: HttpRequest) -> User | AnonymousUser:
    """Return who is signed in, by Django's rules (backend, session hash, active account), and keep them where Django's
    own middleware does: a request that has someone there already is theirs.
    """
    given: Any = request
    if not hasattr(given, "_cached_user"):
        token = _looked_at.set(request.session)
        try:
            given._cached_user = get_user(request)
        finally:
            _looked_at.reset(token)
    found: User | AnonymousUser = given._cached_user
    return found


def rights_read_with(request: HttpRequest, user: User | AnonymousUser) -> RightsRows | None:
    """Return this user's rights if the request's session was read together with them; None if not."""
    session: Any = getattr(request, "session", None)
    together = user.is_authenticated and getattr(session, "user_row", None) is user
    return rights_rows(session.rights_text) if together else None


def read_with_session(user_id: Any) -> User | None:
    """Return this user if the session that is being looked at was read together with them."""
    user: User | None = getattr(_looked_at.get(), "user_row", None)
    return user if user is not None and user.pk == user_id else None


MARK = "wfdash_session"
BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "CrOS", "Linux")
LABELS = {"Edg": "Edge", "OPR": "Opera", "Mac OS X": "macOS", "CrOS": "ChromeOS"}


@frozen
class OpenSession:
    """A session that has not expired. ``id`` names it in a form; no one can sign in with it."""

    id: str
    browser: str
    since: datetime | None
    expires: datetime
    here: bool


def note_start(request: HttpRequest) -> None:
    """Store in a session that has just started when that was, and in which browser."""
    agent = browser_name(request.META.get("HTTP_USER_AGENT", ""))
    request.session[MARK] = {"since": timezone.now().isoformat(), "browser": agent}


def started(request: HttpRequest) -> datetime | None:
    """Return when this session started, None if it does not say."""
    return parse_datetime(request.session.get(MARK, {}).get("since", ""))


def browser_name(agent: str) -> str:
    """Return browser and system of a ``User-Agent`` header, such as ``Firefox on Linux``."""
    browser = next((name for name in BROWSERS if re.search(rf"\b{name}/", agent)), "")
    system = next((name for name in SYSTEMS if name in agent), "")
    parts = [LABELS.get(part, part) for part in (browser, system) if part]
    return " on ".join(parts) or "Unknown browser"


def sessions_of(user_id: int, key: str | None = "") -> list[OpenSession]:
    """Return a person's sessions, the latest first (one query, which reads every session). ``key``: of this one."""
    current = stored_key(key) if key else ""
    found = [
        OpenSession(
            id=_id(row.session_key),
            browser=mark.get("browser") or "Unknown browser",
            since=parse_datetime(mark.get("since", "")),
            expires=row.expire_date,
            here=row.session_key == current,
        )
        for row, mark in _rows(user_id)
    ]
    return sorted(found, key=lambda one: (one.here, one.since or one.expires), reverse=True)


def end_sessions(user_id: int, *, but: str | None = "", only: str = "") -> int:
    """End a person's sessions in the caller's transaction; return how many there were. Their sockets close.

    ``but``: the key of a session that stays; ``only``: the id of the one to end.
    """
    kept = stored_key(but) if but else ""
    keys = [row.session_key for row, _ in _rows(user_id) if row.session_key != kept]
    ended = [key for key in keys if not only or _id(key) == only]
    Session.objects.filter(session_key__in=ended).delete()
    on_commit(lambda: pubsub.rights_changed.publish(user_id))
    return len(ended)


def forget_sessions(limit: int) -> int:
    """Remove sessions that have expired, where wfdash signs people in; those of a project are its own. Returns how
    many.
    """
    if not settings.WFDASH_SIGN_IN:
        return 0
    old = Session.objects.filter(expire_date__lt=timezone.now()).values_list("pk", flat=True)
    return Session.objects.filter(pk__in=list(old[:limit])).delete()[0]


def _rows(user_id: int) -> Iterator[tuple[Session, dict[str, str]]]:
    """Yield the sessions of a person. Whose they are is part of what is signed, so each one is read."""
    for row in Session.objects.filter(expire_date__gt=timezone.now()).iterator(500):
        data = row.get_decoded()
        if data.get(SESSION_KEY) == str(user_id):
            mark = data.get(MARK)
            yield row, mark if isinstance(mark, dict) else {}


def _id(stored: str) -> str:
    return sha256(f"session {stored}".encode()).hexdigest()[:24]
