"""The kinds of notifications, in the order in which the settings show them."""

from __future__ import annotations

from dataclasses import dataclass

BROWSER, MAIL, PUSH, APPRISE, WEBHOOK = "browser", "mail", "push", "apprise", "webhook"
PERSONAL = (BROWSER, MAIL, PUSH, APPRISE)
"""The channels a person can choose; a webhook belongs to the installation."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of notification. ``at_once``: too urgent for a digest. ``mail``: whether it is mailed by default.

    ``about``: request, run or schedule; webhooks call it ``request.opened``.
    """

    name: str
    label: str
    icon: str
    at_once: bool = False
    mail: bool = True
    about: str = "request"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="opened", label="New request for me", icon="inbox-arrow-down", mail=False),
        Kind(name="assigned", label="Request assigned to me", icon="user-plus"),
        Kind(name="reminder", label="Deadline approaching", icon="clock", at_once=True),
        Kind(name="escalated", label="Request escalated to me", icon="arrow-trending-up", at_once=True),
        Kind(name="mentioned", label="Someone mentioned me", icon="at-symbol"),
        Kind(name="asked", label="Question about a request", icon="chat-bubble-left-ellipsis"),
        Kind(name="replied", label="Reply to my question", icon="chat-bubble-left-right"),
        Kind(name="taken", label="Someone took over my request", icon="hand-raised", mail=False),
        Kind(name="unanswerable", label="No one can answer a request", icon="bell", at_once=True),
        Kind(name="decided", label="Followed request decided", icon="check-circle"),
        Kind(name="failed", label="Run failed", icon="x-circle", about="run"),
        Kind(name="held", label="Run held: its workflow has changed", icon="pause-circle", about="run"),
        Kind(name="late", label="Schedule overdue", icon="calendar-days", about="schedule"),
    )
}
