"""Letters: notifications in the form the channels carry, posts to addresses outside, and mails.

There is a mail for a single letter, and one for several that are due together. Text and HTML, no images, nothing
loaded.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import SplitResult, urlencode, urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.urls import reverse

from checkpoints.models.user_model import User, email_of
from checkpoints.records import frozen
from wfdash.domain.labels import visible
from wfdash.notifications.preferences import Preferences
from wfdash.notifications.rendering import absolute, render_to_string

# Posts to public addresses only: an internal address is refused, in every notation.

SEND_SECONDS = 5.0
MOST_REPLY = 65_536
KEPT_CHARACTERS = 500
"""Characters of a response that are kept."""
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
UNICAST = ipaddress.IPv6Network("2000::/3")
"""The part of IPv6's public address space in use. Around it are site-local, translated, compatible and future
addresses.
"""
RESERVED = (ipaddress.IPv6Network("3fff::/20"), ipaddress.IPv4Network("192.88.99.0/24"))
"""Documentation, and relays of 6to4: some versions of ``ipaddress`` call them global."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@frozen
class HttpReply:
    """A response: its status, and the first characters of its body."""

    status: int
    text: str = ""


def refuse_address(url: str, *, inside: Collection[str] = ()) -> None:
    """Raise ``Undeliverable`` for an address that is never posted to; host names are resolved at delivery."""
    _parts(url, inside)


def post(url: str, body: bytes, headers: dict[str, str], *, inside: Collection[str] = ()) -> HttpReply:
    """Post to a public address, or to one of the hosts ``inside``. ``Undeliverable``, ``OSError``."""
    parts = _parts(url, inside)
    address = _resolve(parts, inside)
    connection = _Connection(parts, str(address))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # A socket's own timeout starts again with each byte that arrives.
    alarm = threading.Timer(SEND_SECONDS, connection.cut)
    alarm.start()
    try:
        connection.request("POST", path, body, {**headers, "user-agent": "wfdash", "connection": "close"})
        response = connection.getresponse()
        text = response.read(MOST_REPLY)[: 4 * KEPT_CHARACTERS].decode("utf-8", "replace")
        return HttpReply(status=response.status, text=_printable(text)[:KEPT_CHARACTERS])
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"the receiver did not respond with HTTP: {type(error).__name__}") from error
    finally:
        alarm.cancel()
        connection.close()


def is_public(address: Address) -> bool:
    """Return whether an address is a public one, also one embedded in another."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if not all(is_public(each) for each in inner if each is not None):
            return False
        if address.ipv4_mapped is not None or address in NAT64:
            return True
        if address not in UNICAST:
            return False
    return address.is_global and not address.is_multicast and not any(address in each for each in RESERVED)


def _printable(text: str) -> str:
    """Return a text that every database stores."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def _parts(url: str, inside: Collection[str]) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Undeliverable(f"{url!r} is not a web address") from None
    local = parts.scheme == "http" and (settings.WFDASH_HOOKS_LOCAL or parts.hostname in inside)
    if parts.scheme != "https" and not local:
        raise Undeliverable("The address must begin with https://; WFDASH_HOOKS_LOCAL=1 allows this machine's own")
    if not parts.hostname or parts.username is not None or parts.password is not None or port == 0:
        raise Undeliverable("The address needs a host, and no user name or password")
    if not url.isascii() or any(char.isspace() or not char.isprintable() for char in url):
        raise Undeliverable("Use plain ASCII characters in the address")
    return parts


def _resolve(parts: SplitResult, inside: Collection[str]) -> Address:
    """Return the host's address, resolved once. Every address it has must be public, or the one used would be
    chance.
    """
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise Undeliverable("Host name not found") from error
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    if addresses and parts.hostname in inside:
        return addresses[0]
    local = settings.WFDASH_HOOKS_LOCAL
    if not addresses or not all(is_public(each) or (local and each.is_loopback) for each in addresses):
        raise Undeliverable(f"{parts.hostname} is a private network address. Only public addresses are allowed")
    return addresses[0]


class _Connection(http.client.HTTPConnection):
    """Connects to the address that was checked, with the host name of the URL."""

    def __init__(self, parts: SplitResult, address: str) -> None:
        self._secure = parts.scheme == "https"
        self._address = address
        self._cut = False
        super().__init__(str(parts.hostname), parts.port or (443 if self._secure else 80), timeout=SEND_SECONDS)

    def connect(self) -> None:
        self.sock: Any = socket.create_connection((self._address, self.port), timeout=SEND_SECONDS)
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        """Close the connection now, from another thread."""
        sock = self.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


# The mail with a one-time sign-in link. It is sent at once and stored nowhere: the link is a secret.

log = logging.getLogger(__name__)


def mail_link(user: User, link: str, *, by: str, lifetime: timedelta, first: bool = False) -> bool | None:
    """Mail a person their link; return whether that worked. None: mail is not configured, or they have no address.

    ``first``: it is their invitation.
    """
    if not settings.WFDASH_MAIL or not email_of(user) or "://" not in link:
        return None
    hours = int(lifetime.total_seconds() // 3600)
    valid = f"{hours // 24} days" if hours > 24 else "1 hour" if hours == 1 else f"{hours} hours"
    installation = urlsplit(link).netloc
    context = {"user": user, "link": link, "by": by, "valid": valid, "first": first, "installation": installation}
    subject = f"{by} invites you to wfdash" if first else "Sign in to wfdash"
    headers = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}
    body = render_to_string("mail/sign_in_link.txt", context)
    try:
        EmailMessage(subject=subject, body=body, to=[email_of(user)], headers=headers).send()
    except OSError as error:
        # smtplib's errors are OSErrors, too.
        log.warning("The sign-in link for %s could not be mailed: %s", user.get_username(), error)
        return False
    return True


HEADLINES = {
    "opened": "Review requested: {subject}",
    "assigned": "Assigned to you by {by}: {subject}",
    "reminder": "Due soon: {subject}",
    "snoozed": "Reminder: {subject}",
    "escalated": "Escalated to you: {subject}",
    "mentioned": "{by} mentioned you: {subject}",
    "asked": "Question from {by}: {subject}",
    "replied": "{by} replied: {subject}",
    "taken": "{by} took over: {subject}",
    "unanswerable": "No one can answer: {subject}",
    "second": "A second look, please: {subject}",
    "decided": "{verdict} by {decider}: {subject}",
    "failed": "Failed: {subject}",
    "held": "Held: {subject}",
    "late": "Schedule overdue: {subject}",
    "rule": "Suspended: {subject}",
    "test": "Test notification",
}
PAST = {"approve": "Approved", "reject": "Rejected", "edit": "Approved with changes", "answered": "Answered"}
ANSWERABLE = frozenset({"opened", "assigned", "reminder", "snoozed", "escalated"})
"""Kinds that ask the person for an answer; they are obsolete once there is one."""


class Undeliverable(Exception):
    """Delivery failed permanently; it is not retried."""


@frozen
class Letter:
    """One notification. ``id`` is the same at every attempt, so receivers can drop duplicates. ``url``: the page to
    open.
    """

    id: str
    kind: str
    at: datetime
    url: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """Return what happened, in one line."""
        return headline(self.kind, self.payload)

    @property
    def text(self) -> str:
        """Return the text a person wrote, where the notification is about one."""
        return visible(str(self.payload.get("text") or ""))

    @property
    def due(self) -> datetime | None:
        """Return the deadline of a request that still waited at the time of writing."""
        due = self.payload.get("due") if self.kind != "decided" else None
        return datetime.fromisoformat(due) if due else None

    @property
    def risk(self) -> str:
        """Return the risk of a request that still waited at the time of writing."""
        return str(self.payload.get("risk") or "") if self.kind != "decided" else ""

    @property
    def asks(self) -> bool:
        """Return whether it asks for an answer."""
        return self.kind in ANSWERABLE


class Channel(Protocol):
    """Delivers letters to one receiver. Raises what went wrong; ``Undeliverable`` if a retry is of no use."""

    def __call__(self, receiver: Any, letters: list[Letter]) -> None: ...


def headline(kind: str, payload: Mapping[str, Any]) -> str:
    """Return what happened in one line of at most 200 characters."""
    verdict = str(payload.get("verdict") or "")
    facts = {
        "subject": payload.get("subject") or "a request",
        "by": payload.get("by") or "Someone",
        "decider": payload.get("by") or "its deadline",
        "verdict": PAST.get(verdict, verdict.replace("_", " ").capitalize() or "Decided"),
    }
    words = HEADLINES.get(kind, "{subject}").format_map(facts)
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return line if len(line) <= 200 else line[:199] + "…"


def page_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return the path of what a notification is about, if that is no request: a run, the schedules, or the list."""
    run, text = str(payload.get("run") or ""), str(payload.get("subject") or "")
    if kind == "late":
        return f"{reverse('wfdash:schedules')}?{urlencode({'q': text})}"
    if kind == "rule" and payload.get("rule"):
        return reverse("wfdash:rule", args=[payload["rule"]])
    if kind == "second":
        return reverse("wfdash:second-look", args=[str(payload.get("look"))])
    return reverse("wfdash:run", args=[run]) if run else reverse("wfdash:notifications")


# Chat and push services through Apprise (``pip install wfdash[apprise]``), at the addresses the settings name.

MOST_LETTERS_OF_MESSAGE = 10
"""Letters listed in one message."""


def send_apprise(receiver: User, letters: list[Letter]) -> None:
    """Send one message to all of this person's addresses. ``Undeliverable`` without any; ``OSError`` to retry."""
    addresses = settings.WFDASH_APPRISE.get(receiver.get_username(), [])
    if not addresses:
        raise Undeliverable("WFDASH_APPRISE has no address for this person")
    try:
        apprise: Any = importlib.import_module("apprise")
    except ImportError:
        raise Undeliverable("Apprise is not installed: pip install wfdash[apprise]") from None
    service = apprise.Apprise()
    if not service.add(addresses):
        raise Undeliverable("WFDASH_APPRISE has an address for this person that Apprise does not support")
    title = letters[0].headline if len(letters) == 1 else f"{len(letters)} notifications from wfdash"
    if not service.notify(title=title, body=body_of(letters)):
        raise OSError("Apprise could not deliver to every address")


def body_of(letters: list[Letter]) -> str:
    """Return the message."""
    lines = [
        f"{letter.headline}\n{letter.url}" if len(letters) > 1 else letter.url
        for letter in letters[:MOST_LETTERS_OF_MESSAGE]
    ]
    if len(letters) == 1 and letters[0].text:
        lines.insert(0, letters[0].text)
    if len(letters) > MOST_LETTERS_OF_MESSAGE:
        lines.append(f"and {len(letters) - MOST_LETTERS_OF_MESSAGE} more")
    return "\n\n".join(lines)


MOST_LETTERS = 50
"""Letters that one mail lists; of the others it gives the number."""


def send_mail(receiver: tuple[User, Preferences], letters: list[Letter]) -> None:
    """Send one mail. ``Undeliverable`` without an address; an error of the mail server is retried."""
    user, wishes = receiver
    if not settings.WFDASH_MAIL or not email_of(user):
        raise Undeliverable("Email is not configured, or this person has no address")
    mail_of(user, letters, zone=wishes.zone).send()


def mail_of(user: User, letters: list[Letter], *, zone: str = "UTC") -> EmailMultiAlternatives:
    """Return the mail that contains all these letters."""
    context = {
        "user": user,
        "letters": letters[:MOST_LETTERS],
        "more": max(0, len(letters) - MOST_LETTERS),
        "zone": ZoneInfo(zone),
        "times": any(letter.due for letter in letters),
        "installation": urlsplit(settings.WFDASH_URL).netloc,
        "inbox_url": absolute(reverse("wfdash:inbox")),
        "settings_url": absolute(reverse("wfdash:settings")),
    }
    name = "notice" if len(letters) == 1 else "digest"
    subject = letters[0].headline if len(letters) == 1 else f"{len(letters)} notifications from wfdash"
    mail = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"mail/{name}.txt", context),
        to=[email_of(user)],
        headers={
            "Message-ID": message_id(letters),
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
        },
    )
    mail.attach_alternative(render_to_string(f"mail/{name}.html", context), "text/html")
    return mail


def message_id(letters: list[Letter]) -> str:
    """Return an id that is the same at every attempt to send the same letters, so that duplicates can be dropped."""
    digest = sha256("\n".join(letter.id for letter in letters).encode()).hexdigest()[:32]
    return f"<{digest}@{urlsplit(settings.WFDASH_URL).hostname or 'wfdash'}>"
