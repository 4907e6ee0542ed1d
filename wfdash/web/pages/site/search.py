"""The search over everything: a page with an address per text, and the options that the dialog of every page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from checkpoints.models.user_model import is_staff
from checkpoints.records import Status, frozen
from wfdash.access.viewer import EVERY, Viewer
from wfdash.queries.account import ViewRow
from wfdash.queries.palette import Everything, named, search_everything
from wfdash.queries.requests.inbox import RequestRow
from wfdash.records.search import FoundRun, FoundWorkflow
from wfdash.web.pages.site.context_processors import SiteContext
from wfdash.web.pages.site.decorators import get_page, viewer_of
from wfdash.web.pages.ui.event_text import step_label
from wfdash.web.pages.ui.fragments import guide, respond

FRAGMENTS = {"options": "components/search/options.html"}
MOST_NAMED = 6
"""Pages and actions that are shown for words."""


@frozen
class Hit:
    """A place that a text leads to. ``status``: of a run."""

    label: str
    icon: str
    href: str
    detail: str = ""
    status: Status | str = ""


@frozen
class Group:
    """Places of one kind. ``key`` is part of its element's id."""

    key: str
    title: str
    hits: tuple[Hit, ...]


@get_page
def search(request: HttpRequest) -> HttpResponse:
    """Show what ``q`` leads to; ``fragment=options`` as options of a listbox."""
    viewer, text = viewer_of(request), request.GET.get("q", "").replace("\0", "").strip()
    found = search_everything(viewer, text)
    groups = tuple(group for group in _groups(SiteContext(request), viewer, found, text) if group.hits)
    context = {
        "q": text,
        "groups": groups,
        "flaws": found.intent.flaws,
    }
    return respond(request, "components/search/page.html", context, FRAGMENTS)


def _groups(site: SiteContext, viewer: Viewer, found: Everything, text: str) -> Iterator[Group]:
    """Yield the groups in their order; some may be empty."""
    yield Group(key="id", title="ID", hits=(*_by_id(found),))
    if not text or found.intent.names:
        named = _named(pages_named(site, viewer, found.intent.names))
        yield Group(key="pages", title="Pages", hits=named if not text else named[:MOST_NAMED])
    yield Group(key="workflows", title="Workflows", hits=tuple(_workflow(one) for one in found.workflows))
    if not text or found.intent.names:
        yield Group(key="actions", title="Actions", hits=_actions(viewer, found))
    yield Group(key="views", title="Saved views", hits=tuple(_view(one) for one in found.views))
    yield Group(key="requests", title="Open requests", hits=(*_requests(found),))
    yield Group(key="runs", title="Runs", hits=(*_runs(found),))
    yield Group(key="people", title="People", hits=tuple(_person(viewer, name) for name in found.people))


def _named(places: Iterable[tuple[str, str, str]]) -> tuple[Hit, ...]:
    return tuple(Hit(label=label, icon=icon, href=href) for label, icon, href in places)


def _by_id(found: Everything) -> Iterator[Hit]:
    yield from (_run(row) for row in found.ids_of_runs)
    yield from (_request(row) for row in found.ids_of_requests)
    for one in found.checkpoints:
        href = reverse("wfdash:checkpoint", args=[one.run, one.id])
        step = f" · {step_label(one.step, one.workflow)}" if one.step else ""
        yield Hit(label=f"Checkpoint {one.n}", icon="bookmark", href=href, detail=f"run {one.run[-8:]}{step}")


def _actions(viewer: Viewer, found: Everything) -> tuple[Hit, ...]:
    starts = tuple(
        Hit(label=f"Start {one.title}…", icon="play", href=_workflow(one).href + "#start-title")
        for one in found.startable
    )
    return (*_named(actions_named(viewer, found.intent.names)), *starts)[:MOST_NAMED]


def _workflow(one: FoundWorkflow) -> Hit:
    href = reverse("wfdash:workflow", args=[one.name])
    return Hit(label=one.title, icon="rectangle-group", href=href, detail=one.name if one.name != one.title else "")


def _view(one: ViewRow) -> Hit:
    owner = "" if one.mine else f" of {one.owner}"
    return Hit(label=one.name, icon="bookmark", href=reverse("wfdash:view", args=[one.id]), detail=f"saved view{owner}")


def _run(row: FoundRun) -> Hit:
    href, detail = reverse("wfdash:run", args=[row.id]), f"{row.workflow} · {row.id[-8:]}"
    return Hit(label=row.title, icon="queue-list", href=href, detail=detail, status=row.status)


def _runs(found: Everything) -> Iterator[Hit]:
    yield from (_run(row) for row in found.runs)
    wanted = found.intent.runs
    if wanted is not None and (found.runs or not found.by_id):
        yield Hit(label=f"All runs matching {wanted}", icon="magnifying-glass", href=_list("runs", q=wanted))


def _request(row: RequestRow) -> Hit:
    detail = f"{row.run_title} · {step_label(row.step, row.workflow)}"
    state = "" if row.open else " · closed" if row.closed_as and not row.answered else " · answered"
    return Hit(label=row.subject, icon="inbox", href=reverse("wfdash:request", args=[row.id]), detail=detail + state)


def _requests(found: Everything) -> Iterator[Hit]:
    yield from (_request(row) for row in found.requests)
    wanted = found.intent.requests
    if wanted is not None and (found.requests or not found.intent.names):
        href = _list("inbox", tab="all", q=wanted)
        yield Hit(label=f"All open requests matching {wanted}", icon="magnifying-glass", href=href)


def _person(viewer: Viewer, name: str) -> Hit:
    """Return a person: their page, for admins; for operators the runs they started."""
    if all("admin" in rights for rights in viewer.rights.values() if "operate" in rights):
        return Hit(label=name, icon="user", href=reverse("wfdash:person", args=[name]), detail="person")
    return Hit(label=name, icon="user", href=_list("runs", q=f"by:{name}"), detail="runs started by this person")


def _list(page_: str, **query: str) -> str:
    return f"{reverse(f'wfdash:{page_}')}?{urlencode(query, quote_via=quote)}"


# Pages and actions that are found by name: what the navigation, the menus and the lists lead to.

DOCUMENTATION = "documentation"
"""The page that is not one of this site."""
May = Callable[[Viewer], bool]


def anyone(viewer: Viewer) -> bool:
    """Return True: the page is there for everyone who signed in."""
    return True


def _may(right: str) -> May:
    return lambda viewer: viewer.may_anywhere(right)


@dataclass(frozen=True)
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
    Destination("All open requests", "inbox", "inbox", query="?tab=all", also="inbox tasks"),
    Destination("Unassigned requests", "inbox", "inbox", query="?tab=unassigned", also="inbox"),
    Destination("Answered requests", "inbox", "inbox", query="?tab=answered", also="inbox decided"),
    Destination("Failed runs", "x-circle", "runs", query="?q=status:failed", also="errors"),
    Destination("Waiting runs", "clock", "runs", query="?q=status:waiting"),
    Destination("Running runs", "play", "runs", query="?q=status:running", also="active"),
    Destination("My runs", "user", "runs", query="?q=by:me", also="started by me"),
)
"""Lists with a filter: found by words only."""
PAGES = (
    Destination("Schedules", "calendar", "schedules", also="cron"),
    Destination("Rules", "scale", "rules", also="decisions automatic"),
    Destination("Notifications", "bell", "notifications", also="unread"),
    Destination("Settings", "adjustments-horizontal", "settings", also="notification email digest time zone"),
    Destination(
        "Account", "user-circle", "account", may=_own_accounts, also="settings password sessions sign out browsers"
    ),
    Destination(
        "Second factor", "key", "second-factor", may=_own_accounts, also="settings security two-factor 2fa totp"
    ),
    Destination("Webhooks", "link", "webhooks", also="settings events deliveries"),
    Destination("Incoming webhooks", "link", "incoming-webhooks", also="settings start other systems"),
    Destination("HTTP API", "code-bracket", "api-docs", also="reference openapi curl program token"),
    Destination(
        "Documentation",
        "book-open",
        DOCUMENTATION,
        also="help guide manual reference",
        may=lambda viewer: bool(guide()),
    ),
    Destination("Out of office", "sun", "out-of-office", also="absence vacation delegate holiday"),
    Destination("People", "users", "people", also="users roles accounts admin", may=_may("admin")),
    Destination("Permissions", "key", "access", also="people roles grants rights permissions", may=_may("admin")),
    Destination(
        "Groups", "user-group", "groups", also="people members teams", may=lambda viewer: viewer.may("admin", EVERY)
    ),
    Destination(
        "Administration",
        "cog-6-tooth",
        "admin:index",
        also="users groups grants django",
        may=lambda viewer: is_staff(viewer.user) and has_admin(),
    ),
)
ACTIONS = (
    Destination(
        "Invite someone",
        "user-plus",
        "person-invite",
        also="new person user create add account",
        may=lambda viewer: _own_accounts(viewer) and viewer.may("admin", EVERY),
    ),
    Destination("New schedule", "plus", "schedule-new", also="create add cron", may=_may("start")),
    Destination("Start a run", "play", "workflows", also="new workflow", may=_may("start")),
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
