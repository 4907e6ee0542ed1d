"""The kinds of notifications, in the order in which the settings show them."""

from __future__ import annotations

from dataclasses import dataclass

BROWSER, MAIL, APPRISE, WEBHOOK = "browser", "mail", "apprise", "webhook"
PERSONAL = (BROWSER, MAIL, APPRISE)
"""The channels a person can choose; a webhook belongs to the installation."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of notification. ``at_once``: too urgent for a digest. ``mail``: whether it is mailed by default."""

    name: str
    label: str
    at_once: bool = False
    mail: bool = True


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="opened", label="New request for me", mail=False),
        Kind(name="assigned", label="Request assigned to me"),
        Kind(name="reminder", label="Deadline approaching", at_once=True),
        Kind(name="escalated", label="Request escalated to me", at_once=True),
        Kind(name="mentioned", label="Someone mentioned me"),
        Kind(name="asked", label="Question about a request"),
        Kind(name="replied", label="Reply to my question"),
        Kind(name="taken", label="Someone took over my request", mail=False),
        Kind(name="unanswerable", label="No one can answer a request", at_once=True),
        Kind(name="decided", label="Followed request decided"),
    )
}
