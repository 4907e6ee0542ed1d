"""The kinds of notices, in the order in which the settings show them."""

from __future__ import annotations

from dataclasses import dataclass

BROWSER, MAIL, APPRISE, WEBHOOK = "browser", "mail", "apprise", "webhook"
PERSONAL = (BROWSER, MAIL, APPRISE)
"""The channels a person chooses among; a webhook belongs to the installation."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """``at_once``: too urgent for a digest. ``mail``: whether it goes by mail unless the person says otherwise."""

    name: str
    label: str
    at_once: bool = False
    mail: bool = True


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="opened", label="A request I may answer has opened", mail=False),
        Kind(name="assigned", label="A request was assigned to me"),
        Kind(name="reminder", label="A deadline comes near", at_once=True),
        Kind(name="escalated", label="A request was escalated to me", at_once=True),
        Kind(name="mentioned", label="Somebody mentioned me"),
        Kind(name="asked", label="Somebody asks me something about a request"),
        Kind(name="replied", label="My question was answered"),
        Kind(name="taken", label="Somebody took over a request I had open", mail=False),
        Kind(name="decided", label="A request I follow was decided"),
    )
}
