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
WEBHOOK_KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="opened", label="Request opened", icon="inbox-arrow-down"),
        Kind(name="answered", label="Request answered", icon="check-circle"),
        Kind(name="expired", label="Request not answered in time", icon="clock"),
        Kind(name="withdrawn", label="Request closed without an answer", icon="minus-circle"),
        Kind(name="completed", label="Run completed", icon="check-circle", about="run"),
        Kind(name="failed", label="Run failed", icon="x-circle", about="run"),
        Kind(name="cancelled", label="Run cancelled", icon="no-symbol", about="run"),
        Kind(name="waiting", label="Run waiting", icon="user-circle", about="run"),
        Kind(name="held", label="Run held", icon="pause-circle", about="run"),
        Kind(name="assigned", label="Request assigned", icon="user-plus"),
        Kind(name="reminder", label="Deadline approaching", icon="clock"),
        Kind(name="escalated", label="Request escalated", icon="arrow-trending-up"),
        Kind(name="unanswerable", label="No one can answer", icon="bell"),
        Kind(name="mentioned", label="Someone mentioned", icon="at-symbol"),
        Kind(name="asked", label="Question asked", icon="chat-bubble-left-ellipsis"),
        Kind(name="replied", label="Question answered", icon="chat-bubble-left-right"),
        Kind(name="taken", label="Request taken over", icon="hand-raised"),
        Kind(name="late", label="Schedule overdue", icon="calendar-days", about="schedule"),
    )
}
"""What a webhook can be sent, as ``request.opened``: one delivery for each thing that happened, never one for many."""
NAMED_FOR_WEBHOOKS = {"decided": "answered"}
FED = frozenset({"withdrawn", "completed", "failed", "cancelled", "waiting"})
"""What webhooks hear of from the events of runs (``wfdash.actions.hooks.feed``), not from people's notifications."""


def type_of(kind: str) -> str:
    """Return the type that a webhook is sent, such as ``request.opened``."""
    return f"{WEBHOOK_KINDS[kind].about if kind in WEBHOOK_KINDS else 'webhook'}.{kind}"
