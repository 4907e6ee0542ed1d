"""Pages and actions that are found by name: what the navigation, the menus and the lists lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from checkpoints.models.user_model import is_staff
from wfdash.access.viewer import EVERY, Viewer
from wfdash.pages.site.context_processors import SiteContext
from wfdash.pages.ui.documentation import guide
from wfdash.queries.palette import named

DOCUMENTATION = "documentation"
"""The page that is not one of this site."""
May = Callable[[Viewer], bool]


def anyone(viewer: Viewer) -> bool:
    """Return True: the page is there for everyone who signed in."""
    return True


def _may(right: str) -> May:
    return lambda viewer: viewer.may_anywhere(right)


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A page, or an action that begins on one. ``also``: other words by which it is found."""

    label: str
    icon: str
    page: str
    query: str = ""
    also: str = ""
    may: May = anyone

    @property
    def href(self) -> str:
        """Return its address."""
        if self.page == DOCUMENTATION:
            return guide()
        return reverse(self.page if ":" in self.page else f"wfdash:{self.page}") + self.query


def _own_accounts(viewer: Viewer) -> bool:
    return bool(settings.WFDASH_SIGN_IN)


def has_admin() -> bool:
    """Return whether this site has Django's admin."""
    try:
        return bool(reverse("admin:index"))
    except NoReverseMatch:
        return False


LISTS = (
    Destination(label="All open requests", icon="inbox", page="inbox", query="?tab=all", also="inbox tasks"),
    Destination(label="Unassigned requests", icon="inbox", page="inbox", query="?tab=unassigned", also="inbox"),
    Destination(label="Answered requests", icon="inbox", page="inbox", query="?tab=answered", also="inbox decided"),
    Destination(label="Failed runs", icon="x-circle", page="runs", query="?q=status:failed", also="errors"),
    Destination(label="Waiting runs", icon="clock", page="runs", query="?q=status:waiting"),
    Destination(label="Running runs", icon="play", page="runs", query="?q=status:running", also="active"),
    Destination(label="My runs", icon="user", page="runs", query="?q=by:me", also="started by me"),
)
"""Lists with a filter: found by words only."""
PAGES = (
    Destination(label="Schedules", icon="calendar", page="schedules", also="cron"),
    Destination(label="Notifications", icon="bell", page="notices", also="unread"),
    Destination(
        label="Settings", icon="adjustments-horizontal", page="settings", also="notification email digest time zone"
    ),
    Destination(
        label="Account",
        icon="user-circle",
        page="account",
        may=_own_accounts,
        also="settings password sessions sign out browsers",
    ),
    Destination(
        label="Second factor",
        icon="key",
        page="second-factor",
        may=_own_accounts,
        also="settings security two-factor 2fa totp",
    ),
    Destination(label="Webhooks", icon="link", page="webhooks", also="settings events deliveries"),
    Destination(label="Incoming webhooks", icon="link", page="incoming-list", also="settings start by other systems"),
    Destination(label="HTTP API", icon="code-bracket", page="api-docs", also="reference openapi curl program token"),
    Destination(
        label="Documentation",
        icon="book-open",
        page=DOCUMENTATION,
        also="help guide manual reference",
        may=lambda viewer: bool(guide()),
    ),
    Destination(label="Out of office", icon="sun", page="away", also="absence vacation delegate holiday"),
    Destination(label="People", icon="users", page="people-list", also="users roles accounts admin", may=_may("admin")),
    Destination(
        label="Who may do what",
        icon="key",
        page="access",
        also="people roles grants rights permissions",
        may=_may("admin"),
    ),
    Destination(
        label="Groups",
        icon="user-group",
        page="groups",
        also="people members teams",
        may=lambda viewer: viewer.may("admin", EVERY),
    ),
    Destination(
        label="Administration",
        icon="cog-6-tooth",
        page="admin:index",
        also="users groups grants django",
        may=lambda viewer: is_staff(viewer.user) and has_admin(),
    ),
)
ACTIONS = (
    Destination(
        label="Invite someone",
        icon="user-plus",
        page="person-invite",
        also="new person user create add account",
        may=lambda viewer: _own_accounts(viewer) and viewer.may("admin", EVERY),
    ),
    Destination(label="New schedule", icon="plus", page="schedule-new", also="create add cron", may=_may("start")),
    Destination(label="Start a run", icon="play", page="workflows", also="new workflow", may=_may("start")),
)


def pages_named(site: SiteContext, viewer: Viewer, words: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return label, icon and address of the pages with these words, those of the navigation first; without words,
    of every page.
    """
    given = list(words)
    links = [(link.label, link.icon, link.href) for link in site.nav if named(given, link.label)]
    return links + _permitted((*LISTS, *PAGES) if given else PAGES, viewer, given)


def actions_named(viewer: Viewer, words: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return label, icon and address of the actions with these words that this person may begin."""
    return _permitted(ACTIONS, viewer, list(words))


def _permitted(known: Iterable[Destination], viewer: Viewer, words: list[str]) -> list[tuple[str, str, str]]:
    found = (one for one in known if named(words, f"{one.label} {one.also}") and one.may(viewer))
    return [(one.label, one.icon, one.href) for one in found]
