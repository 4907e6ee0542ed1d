"""The context processor of every page: navigation, open requests, the signed-in person, the theme.

Nothing here costs a query unless the template asks for it.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language

from checkpoints.database.compiled import count_each
from checkpoints.models.fields import current_encryptor
from checkpoints.models.user_model import email_of, is_staff
from checkpoints.records import frozen
from wfdash.access.signin.identities import provider_in_use
from wfdash.access.viewer import EVERY, Viewer
from wfdash.actions.account import set_density
from wfdash.queries import account
from wfdash.queries.account import DENSITIES, GettingStarted, ListLooks, steps_to_show, unread_of
from wfdash.queries.people import whom_to_ask
from wfdash.queries.requests.inbox import MAX_WAITING, count_open
from wfdash.queries.requests.request import Undoable, read_undoable
from wfdash.queries.statistics.figures import MOST_COUNTED, problems_of
from wfdash.web.pages.site.decorators import post_page, viewer_of
from wfdash.web.pages.site.list_page import read_inbox_address
from wfdash.web.pages.ui.fragments import guide

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "wfdash_theme"
UNDO_COOKIE = "wfdash_undo"
MOST_UNDOABLE = 30
"""Answers that a browser remembers to offer their undo."""
NAV_LINKS = (
    ("inbox", "Inbox", "inbox", ("inbox", "request")),
    (
        "runs",
        "Runs",
        "queue-list",
        (
            *("runs", "run", "run-events", "run-logs", "run-state", "run-history", "runs-bulk", "runs-bulk-result"),
            *("run-act", "run-cancel", "run-signal", "run-migrate", "run-override", "run-delete"),
            *("checkpoint", "restore", "fork", "edit", "compare", "replay", "checkpoint-delete"),
        ),
    ),
    (
        "workflows",
        "Workflows",
        "rectangle-group",
        ("workflows", "workflow", "schedules", "schedule", "schedule-new", "schedule-edit"),
    ),
    ("operations", "Operations", "wrench-screwdriver", ("operations", "retention")),
    ("decisions", "Decisions", "scale", ("decisions", "rules", "rule", "second-looks", "second-look", "question")),
    ("statistics", "Statistics", "chart-bar", ("statistics",)),
    ("audit", "Audit log", "shield-check", ("audit", "audit-entry", "audit-shown", "run-audit", "oversight")),
)

COUNTED = {"inbox": "requests", "operations": "problems"}


@frozen
class NavLink:
    """A link of the main navigation. ``counts``: what it shows the number of: ``requests``, ``problems`` or nothing."""

    href: str
    label: str
    icon: str
    here: bool
    counts: str

    @property
    def key(self) -> str:
        """Return the two keys that lead there: g and its first letter."""
        return f"g {self.label[:1].lower()}"


class SiteContext:
    """Context of ``base.html``; each attribute is computed when it is first read."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._viewer: Viewer = getattr(request, "viewer", None) or Viewer(user=None, name="")

    @property
    def has_accounts(self) -> bool:
        """Return whether people sign in with an account of wfdash, not of the project around it."""
        return bool(settings.WFDASH_SIGN_IN)

    @property
    def has_passwords(self) -> bool:
        """Return whether people may sign in by password."""
        return bool(settings.WFDASH_PASSWORDS)

    @property
    def has_links(self) -> bool:
        """Return whether admins make sign-in links for others."""
        return self.has_accounts and bool(settings.WFDASH_LINKS)

    @property
    def provider(self) -> str:
        """Return what the OpenID Connect provider is called at which people sign in; empty if there is none."""
        provider = provider_in_use()
        return provider.name if provider else ""

    @property
    def sign_in_address(self) -> str:
        """Return where people sign in."""
        return resolve_url(settings.LOGIN_URL)

    @property
    def root(self) -> str:
        """Return the address of the inbox, below which all others are."""
        return reverse("wfdash:inbox")

    @property
    def language(self) -> str:
        """Return the language in which numbers and dates are written."""
        return get_language() or "en"

    @property
    def most_body(self) -> int:
        """Return how many bytes a form may have with its files."""
        return int(settings.WFDASH_MAX_BODY)

    @property
    def most_text(self) -> int:
        """Return how many bytes a form may have without its files."""
        return int(settings.DATA_UPLOAD_MAX_MEMORY_SIZE or settings.WFDASH_MAX_BODY)

    @cached_property
    def theme(self) -> str:
        """Return ``auto``, ``light`` or ``dark``: the person's choice, from a cookie so that the first paint is
        right.
        """
        chosen = self._request.COOKIES.get(THEME_COOKIE, "auto")
        return chosen if chosen in THEMES else "auto"

    @property
    def density(self) -> str:
        """Return how dense the rows of lists are for this person: ``compact`` or ``comfortable``."""
        return looks_of(self._request).density

    @cached_property
    def nav(self) -> tuple[NavLink, ...]:
        """Return the links that are of use to this person; the current one is marked."""
        match = self._request.resolver_match
        here = match.url_name if match else None
        specs = [spec for spec in NAV_LINKS if spec[0] != "operations" or self.may_operate]
        return tuple(place for spec in specs if (place := _nav_link(*spec, here=here)))

    @property
    def may_operate(self) -> bool:
        """Return whether this person operates any workflow."""
        return self._viewer.may_anywhere("operate")

    @cached_property
    def problem_count(self) -> str:
        """Return the number of runs that failed in the last day or are held, empty without any."""
        count = min(sum(self._counts[1:]), MOST_COUNTED)
        return f"{count}+" if count == MOST_COUNTED else str(count or "")

    @cached_property
    def open_count(self) -> int:
        """Return the number of open requests for this person; 0 without sign-in. A page may have counted them
        already.
        """
        counted: int | None = getattr(self._request, "open_count", None)
        return count_open(self._viewer) if counted is None else counted

    @property
    def open_badge(self) -> str:
        """Return the number of open requests as the navigation shows it: in full below 1,000."""
        return str(self.open_count) if self.open_count < MAX_WAITING else f"{MAX_WAITING - 1}+"

    @property
    def unread_count(self) -> int:
        """Return how many notifications this person has not read."""
        return self._counts[0]

    @cached_property
    def _counts(self) -> list[int]:
        """Return how many notifications are unread, and runs of each kind that need an operator (one query)."""
        if not self.name:
            return [0]
        return count_each([unread_of(self._viewer), *(problems_of(self._viewer) if self.may_operate else ())])

    @cached_property
    def undoable(self) -> tuple[Undoable, ...]:
        """Return the person's answers, given in this browser, that can still be undone, latest first."""
        given = answered_here(self._request)[1] if self.name else []
        return read_undoable(self._viewer, given) if given else ()

    @property
    def undo_place(self) -> str:
        """Return the query string of this page's inbox address; empty on other pages."""
        return read_inbox_address(self._request.GET).query if self._request.path == self.root else ""

    @cached_property
    def getting_started(self) -> GettingStarted | None:
        """Return what an installation still lacks, for its admins, until they dismiss it."""
        return steps_to_show(self._viewer)

    @property
    def is_admin(self) -> bool:
        """Return whether this person is an admin of everything."""
        return self._viewer.may("admin", EVERY)

    @property
    def reloads(self) -> bool:
        """Return whether workflow files are read again when they change."""
        return bool(self.name and settings.WFDASH_RELOAD)

    @property
    def encrypted(self) -> bool:
        """Return whether content is encrypted, so that no list can be searched by its words."""
        return current_encryptor().active

    @property
    def may_start(self) -> bool:
        """Return whether this person may start runs of any workflow."""
        return self._viewer.may_anywhere("start")

    @property
    def on_hold(self) -> bool:
        """Return whether nothing continues here and nothing is sent."""
        return bool(settings.WFDASH_HOLD)

    @property
    def without_role(self) -> bool:
        """Return whether this person is signed in and may see nothing yet."""
        return bool(self.name and not self._viewer.rights)

    @cached_property
    def whom_to_ask(self) -> tuple[str, ...]:
        """Return a few people who can give someone a role."""
        return whom_to_ask()

    @property
    def documentation(self) -> str:
        """Return the address of the documentation, empty if none is set."""
        return guide()

    @property
    def may_manage_people(self) -> bool:
        """Return whether this person is admin of any workflow."""
        return self._viewer.may_anywhere("admin")

    @property
    def name(self) -> str:
        """Return the person's user name, empty without sign-in."""
        return self._viewer.name

    @property
    def initial(self) -> str:
        """Return the letter on the person's badge."""
        return self.name[:1].upper() or "?"

    @property
    def email(self) -> str:
        """Return the person's mail address, empty without one."""
        return email_of(self._viewer.user)

    @property
    def is_staff(self) -> bool:
        """Return whether the link to Django's admin is of use to this person."""
        return is_staff(self._viewer.user)


def answered_here(request: HttpRequest) -> tuple[int, list[str]]:
    """Return the cookie's content: when the last undo window closes (Unix time), and the answered requests, last first.

    Only their ids: what can be undone, and by whom, is decided by the database.
    """
    until, _, ids = request.COOKIES.get(UNDO_COOKIE, "").partition(":")
    if not ids or not re.fullmatch("[0-9]{1,12}", until):
        return 0, []
    return int(until), [one for one in ids.split(".") if re.fullmatch("[0-9A-Za-z-]{1,36}", one)][:MOST_UNDOABLE]


def _nav_link(name: str, label: str, icon: str, within: tuple[str, ...], *, here: str | None) -> NavLink | None:
    try:
        href = reverse(f"wfdash:{name}")
    except NoReverseMatch:
        return None
    return NavLink(href=href, label=label, icon=icon, here=here in within, counts=COUNTED.get(name, ""))


def site_context(request: HttpRequest) -> dict[str, SiteContext]:
    """Context processor: ``site``."""
    return {"site": SiteContext(request)}


# How lists look for a person: read once per request; the density of rows, which is the same for all lists.


def looks_of(request: HttpRequest) -> ListLooks:
    """Return what the person of a request chose for lists (one query for each request)."""
    kept: Any = request
    if not hasattr(kept, "list_looks"):
        kept.list_looks = account.looks_of(viewer_of(request))
    found: ListLooks = kept.list_looks
    return found


@post_page
def density(request: HttpRequest) -> HttpResponse:
    """Keep how dense rows are (``density``), here and in all lists, and go back to the list (``next``)."""
    chosen = request.POST.get("density", "")
    if chosen in DENSITIES:
        set_density(viewer_of(request), chosen)
    return redirect(path_in(request.POST.get("next", "")) or "wfdash:runs")


def path_in(text: str) -> str:
    """Return an address within wfdash that a form names, empty for any other."""
    # A path: other safe values could be the name of a page, and would be resolved as one.
    return text if text.startswith("/") and url_has_allowed_host_and_scheme(text, allowed_hosts=None) else ""
