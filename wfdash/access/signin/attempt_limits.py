"""Limits on failed sign-ins per five minutes; and the address they count for: a client's, behind any number of proxies.

They are counted in the database, so that every process sees them. An attempt is counted before it is checked and
uncounted if it succeeds, so that parallel ones cannot pass the limit. Browsers in which a person has signed in before
are recognised by a signed cookie that contains no name.
"""

from __future__ import annotations

import ipaddress
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.db.models import F
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.crypto import salted_hmac

from checkpoints.database.storage import write
from checkpoints.models import SignInTries
from wfdash.domain.errors import TooManyTries

PERIOD = timedelta(minutes=5)
PAIR, NAME, ADDRESS, ALL, BROWSER, CODE = 8, 30, 60, 1000, 8, 5
"""Failed attempts per period: of a name from one address, of a name, from an address, of everyone, of a browser in
which this person has signed in before, and of a person's second factor.
"""
EVERYONE = "all"
SALT = "wfdash.access.signin.known"
KNOWN_DAYS = 90
"""How long a browser is known."""


@dataclass(frozen=True, kw_only=True, order=True)
class AttemptLimit:
    """A counter's key and maximum."""

    key: str
    most: int


def for_password(name: str, address: str, browser: str = "") -> list[AttemptLimit]:
    """Return the limits that apply to a password attempt.

    A ``browser`` in which this person has signed in before is counted separately: otherwise strangers who guess a name,
    or share its address, would lock the person out.
    """
    if browser:
        return [AttemptLimit(key=key_of("browser", browser), most=BROWSER)]
    person = name.casefold()
    found = [AttemptLimit(key=key_of("name", person), most=NAME), AttemptLimit(key=EVERYONE, most=ALL)]
    if address:
        found.append(AttemptLimit(key=key_of("pair", person, address), most=PAIR))
        found.append(AttemptLimit(key=key_of("address", address), most=ADDRESS))
    return sorted(found)


def for_code(user_id: int) -> list[AttemptLimit]:
    """Return the limits that apply to a second-factor attempt."""
    return [AttemptLimit(key=key_of("code", str(user_id)), most=CODE)]


def for_begun(kind: str, address: str) -> list[AttemptLimit]:
    """Return the limits on sign-ins that are begun, at the provider or with a passkey, and come to nothing."""
    found = [AttemptLimit(key=key_of(kind), most=ALL)]
    return [*found, AttemptLimit(key=key_of(kind, address), most=ADDRESS)] if address else found


def for_own_password(user_id: int) -> list[AttemptLimit]:
    """Return the limits that apply to the password so far, when someone who is signed in sets another one."""
    return [AttemptLimit(key=key_of("own", str(user_id)), most=PAIR)]


def key_of(kind: str, *parts: str) -> str:
    """Return a counter's key. Hashed, because people type passwords into the user name field."""
    return f"{kind}:{salted_hmac('wfdash.access.signin', chr(10).join(parts), algorithm='sha256').hexdigest()[:40]}"


def check(limits: Sequence[AttemptLimit], using: str | None = None) -> None:
    """Raise ``TooManyTries`` if one of these is exceeded; counts nothing (one query)."""
    now, counters = timezone.now(), SignInTries.objects.using(using)
    most = {limit.key: limit.most for limit in limits}
    rows = counters.filter(key__in=list(most), began__gt=now - PERIOD)
    ends = [row.began + PERIOD for row in rows if row.count >= most[row.key]]
    if ends:
        raise too_many(max(ends), now)


def charge(limits: Sequence[AttemptLimit], using: str | None = None) -> None:
    """Count one attempt for all of these, or for none: ``TooManyTries`` if one is exceeded."""
    now, counters = timezone.now(), SignInTries.objects.using(using)
    codes = [limit for limit in limits if limit.key.startswith("code:")]
    with write(using):
        # In order of their keys, so that two at once do not deadlock.
        for limit in sorted(limits):
            counters.bulk_create([SignInTries(key=limit.key, began=now)], ignore_conflicts=True)
            row = counters.filter(key=limit.key)
            renewed = row.filter(began__lte=now - PERIOD).update(began=now, count=0)
            if row.filter(count__lt=limit.most).update(count=F("count") + 1) != 1:
                raise too_many(row.values_list("began", flat=True)[0] + PERIOD, now, code=limit in codes)
            if renewed and limit.key == EVERYONE:
                counters.filter(began__lte=now - PERIOD).delete()


def forgive(limits: Sequence[AttemptLimit], using: str | None = None) -> None:
    """Uncount a successful attempt."""
    with write(using):
        for limit in sorted(limits):
            SignInTries.objects.using(using).filter(key=limit.key, count__gt=0).update(count=F("count") - 1)


def too_many(until: datetime, now: datetime, *, code: bool = False) -> TooManyTries:
    """Return the error for a limit that is exceeded until then."""
    seconds = max(1, math.ceil((until - now).total_seconds()))
    minutes = math.ceil(seconds / 60)
    wait = f"{minutes} minutes" if minutes > 1 else "a minute"
    # A link is no way around the code: it is asked for after links, too.
    words = f"Too many wrong codes. Wait {wait}" if code else f"Too many attempts. Wait {wait} or use a one-time link"
    return TooManyTries(f"{words}.", retry_after=seconds)


def known_browser(request: HttpRequest | None, name: str) -> str:
    """Return the browser's id if the person of this name has signed in there before; empty if not."""
    if request is None:
        return ""
    try:
        cookie = signing.loads(
            request.COOKIES.get(settings.WFDASH_KNOWN_COOKIE, ""), salt=SALT, max_age=KNOWN_DAYS * 86400
        )
        return str(cookie["browser"]) if cookie["person"] == _person(name) else ""
    except (signing.BadSignature, KeyError, TypeError):
        return ""


def remember_browser(response: HttpResponseBase, name: str) -> None:
    """Set the cookie that says that this person signed in there."""
    cookie = {"person": _person(name), "browser": secrets.token_urlsafe(12)}
    response.set_cookie(
        settings.WFDASH_KNOWN_COOKIE,
        signing.dumps(cookie, salt=SALT),
        max_age=KNOWN_DAYS * 86400,
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def _person(name: str) -> str:
    return salted_hmac(SALT, name.casefold(), algorithm="sha256").hexdigest()[:24]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
HOME = 64
"""Leading bits of an IPv6 address that identify one customer, who has all addresses that start with them."""


def address_of(meta: Mapping[str, Any]) -> str:
    """Return the client's address, behind the proxies of the settings."""
    return client_address(meta, settings.WFDASH_PROXIES, behind=settings.WFDASH_HTTPS)


def client_address(meta: Mapping[str, Any], proxies: Sequence[Network], *, behind: bool) -> str:
    """Return the client's address (of IPv6 its /64 network); empty where it cannot be known.

    ``X-Forwarded-For`` is trusted only as far as ``proxies`` wrote it: from its end, up to the first address that is
    not one of them. ``behind``: there is a proxy, so the peer's address is not the client's unless ``proxies`` contains
    it.
    """
    peer = _parse_address(str(meta.get("REMOTE_ADDR", "")))
    if peer is None or (behind and not proxies):
        return ""
    forwarded = str(meta.get("HTTP_X_FORWARDED_FOR", ""))
    hops = [text for part in reversed(forwarded.split(",")) if (text := part.strip())]
    found: Address | None = peer
    while found is not None and hops and any(found in network for network in proxies):
        found = _parse_address(hops.pop(0))
    return "" if found is None else _home(found)


def _parse_address(text: str) -> Address | None:
    """Return a parsed address, also of ``1.2.3.4:5678`` and ``[::1]:5678`` as some proxies write it; IPv4 in IPv6 is
    IPv4.
    """
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _home(address: Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((int(address), HOME), strict=False).network_address)
