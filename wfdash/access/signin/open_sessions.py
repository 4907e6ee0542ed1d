"""The sessions of a person: list them, end them. Each holds since when it is open and in which browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from checkpoints.database.alias import on_commit
from wfdash import pubsub
from wfdash.access.signin.sessions import stored_key

MARK = "wfdash_session"
BROWSERS = ("Edg", "OPR", "Firefox", "Chrome", "Safari", "curl")
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "CrOS", "Linux")
LABELS = {"Edg": "Edge", "OPR": "Opera", "Mac OS X": "macOS", "CrOS": "ChromeOS"}


@dataclass(frozen=True, kw_only=True)
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
