"""The dashboard inside a project that has its own middleware, sign-in, admin and error pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as Advice
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.core.management import get_commands
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.migrations.loader import MigrationLoader
from django.db.models import Model
from django.db.transaction import non_atomic_requests  # noqa: TID251 (for every database)
from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, URLPattern, URLResolver, resolve, reverse
from django.utils.module_loading import import_string

from checkpoints.content.encryption import encryptor_of
from checkpoints.database.alias import alias, connection
from checkpoints.rules import check_pairs
from checkpoints.sql.durability import parse_durability
from wfdash.engines import catalog
from wfdash.installation.defaults import DEFAULTS
from wfdash.installation.environment import hints_of
from wfdash.installation.keep_rules import keep_rules
from wfdash.pubsub.process import choose_bus
from wfdash.telemetry.error_hook import load_hook
from wfdash.web.pages.site.decorators import LocalTime
from wfdash.web.pages.site.error_pages import ErrorPages, add_headers, error_page

# Views that need none of wfdash's middleware, so that a project adds none for them.

View = Callable[..., Any]
Pattern = URLPattern | URLResolver
ACCOUNTS = frozenset(
    {
        *("sign-in", "sign-in-code", "sign-in-link", "sign-in-passkey", "sign-in-provider", "sign-in-callback"),
        *("account", "second-factor", "person-invite"),
    }
)
"""Pages of wfdash's own accounts: a project that signs people in itself has none of them."""


def independent(patterns: list[Pattern]) -> list[Pattern]:
    """Return these addresses with views that do for themselves what the middleware does in a project of its own."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            independent(pattern.url_patterns)
            continue
        if not iscoroutinefunction(pattern.callback):
            pattern.callback = _complete(pattern.callback, ours=pattern.name in ACCOUNTS)
        # Actions have transactions of their own: under ATOMIC_REQUESTS they would end with the page, and workers wait.
        for name in settings.DATABASES:
            pattern.callback = non_atomic_requests(using=name)(pattern.callback)
    return patterns


def _complete(view: View, *, ours: bool) -> View:
    @wraps(view)
    def serve(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        call = partial(_missing if ours and not settings.WFDASH_SIGN_IN else view, *args, **kwargs)
        # The middleware was here before.
        return call(request) if hasattr(request, "viewer") else _respond(request, call)

    return serve


def _missing(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
    raise Http404


def _respond(request: HttpRequest, call: Callable[[HttpRequest], HttpResponseBase]) -> HttpResponseBase:
    pages = ErrorPages(lambda request: _guarded(pages, request, call))
    # Twice: error pages are shown in the browser's zone, and the session that knows the zone may be what fails.
    return add_headers(_guarded(pages, request, LocalTime(pages)))


def _guarded(
    pages: ErrorPages, request: HttpRequest, call: Callable[[HttpRequest], HttpResponseBase]
) -> HttpResponseBase:
    """Return the response, the page of a known error, or raise an unknown one."""
    try:
        return call(request)
    except Http404:
        return error_page(request, 404)
    except Exception as error:
        found = pages.process_exception(request, error)
        if found is None:
            raise
        return found


# Django's system checks of a project around the dashboard: each says what is missing, and its hint is the remedy.

Messages = Iterator[CheckMessage]
APPS = ("checkpoints", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions")
PERSON = ("groups", "is_active", "is_superuser", "user_permissions")
"""Fields that rights are found by."""
MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
)
QUEUE = "procrastinate.contrib.django"
CSRF = "django.middleware.csrf.CsrfViewMiddleware"


def refuse_incomplete() -> None:
    """Raise ``ImproperlyConfigured`` for what the dashboard's models cannot even be imported without."""
    if missing := [app for app in APPS if not apps.is_installed(app)]:
        raise ImproperlyConfigured(f"wfdash needs other apps: add {', '.join(missing)} to INSTALLED_APPS")
    user = get_user_model()
    if missing := [name for name in PERSON if not _has_field(user, name)]:
        raise ImproperlyConfigured(
            f"{settings.AUTH_USER_MODEL} lacks {', '.join(missing)}: derive it from PermissionsMixin of "
            "django.contrib.auth.models, with a BooleanField is_active, or from AbstractUser, which has both"
        )


def register_checks() -> None:
    """Add these checks to Django's, with the tag ``wfdash``."""
    for check in (check_settings, check_addresses, check_databases, check_workflows, check_servers):
        register(_listed(check), "wfdash")
    register(_listed(check_deployment), "wfdash", deploy=True)


def refuse_hints(given: str) -> None:
    """Raise ``ValueError`` if what is to carry hints to workers is not there."""
    found = hints_of(given, on_postgres=connection().vendor == "postgresql", broker=settings.WFDASH_BROKER)
    if found == "procrastinate" and not apps.is_installed(QUEUE):
        raise ValueError(f"WFDASH_HINTS needs Procrastinate's tables: add {QUEUE} to INSTALLED_APPS, then migrate")


def check_settings() -> Messages:
    """Find settings with which pages fail."""
    given = [_class_of(path) for path in settings.MIDDLEWARE]
    for path in (*MIDDLEWARE, CSRF):
        if not any(isinstance(one, type) and issubclass(one, import_string(path)) for one in given):
            kind, id_ = (Advice, "wfdash.W011") if path == CSRF else (Error, "wfdash.E001")
            why = "other sites can answer for people" if path == CSRF else "the dashboard's pages need it"
            yield kind(f"{path} is missing: {why}.", hint="Add it to MIDDLEWARE.", id=id_)
    if not settings.USE_TZ:
        yield Error("Moments of runs have a time zone.", hint="Set USE_TZ = True.", id="wfdash.E002")
    readers: dict[str, Callable[[Any], object]] = {
        "WFDASH_DURABILITY": parse_durability,
        "WFDASH_ENCRYPTION_KEYS": encryptor_of,
        "WFDASH_HINTS": refuse_hints,
        "WFDASH_ON_ERROR": lambda given: given and load_hook(given),
        "WFDASH_KEEP_RUNS": keep_rules,
        "WFDASH_BUDGETS": lambda given: check_pairs("WFDASH_BUDGETS", given, 1),
        "WFDASH_PRICES": lambda given: check_pairs("WFDASH_PRICES", given, 2),
        "WFDASH_SIGNALS": lambda given: choose_bus(),
    }
    for name, read in readers.items():
        try:
            read(getattr(settings, name))
        except Exception as error:
            said = str(error) if name in str(error) else f"{name}: {error}"
            yield Error(said, hint=f"Correct {name} in the settings.", id="wfdash.E003")


def check_addresses() -> Messages:
    """Find out whether the dashboard and the project's sign-in have addresses."""
    try:
        reverse("wfdash:inbox")
    except NoReverseMatch:
        hint = f'Add path("people/", include("wfdash.urls")) to {settings.ROOT_URLCONF}; any prefix will do.'
        yield Error("The dashboard has no addresses.", hint=hint, id="wfdash.E004")
    try:
        url = resolve_url(settings.LOGIN_URL)
        if url.startswith("/"):
            resolve(url.partition("?")[0])
    except (NoReverseMatch, Resolver404):
        hint = 'Set LOGIN_URL to the project\'s sign-in, such as "/admin/login/" or the name of its page.'
        yield Advice(f"LOGIN_URL, {settings.LOGIN_URL!r}, leads nowhere.", hint=hint, id="wfdash.W002")


def check_databases() -> Messages:
    """Find out whether runs and people are in the database that is named for them."""
    if alias() not in connections.settings:
        return  # checkpoints.E003
    yield from _check_router()
    found = connection().settings_dict
    if connection().vendor != "sqlite":
        return
    if found.get("ATOMIC_REQUESTS"):
        hint = f"Remove ATOMIC_REQUESTS from DATABASES[{alias()!r}], or use PostgreSQL."
        yield Error("With SQLite, the project's pages and runs would wait for each other.", hint=hint, id="wfdash.E005")
    if found["OPTIONS"].get("transaction_mode") != "IMMEDIATE":
        hint = f'Set DATABASES[{alias()!r}]["OPTIONS"] = {{"transaction_mode": "IMMEDIATE", "timeout": 20}}.'
        yield Advice("With SQLite, writes can fail as locked while workflows run.", hint=hint, id="wfdash.W003")


def _check_router() -> Messages:
    where = router.db_for_write
    if where(_model("checkpoints.Run")) != alias():
        hint = 'Add "checkpoints.database.router.Router" to DATABASE_ROUTERS.'
        yield Error(f"Runs are not sent to the database {alias()!r}.", hint=hint, id="wfdash.E006")
        return
    people = set(map(_model, ("auth.Group", "auth.Permission", settings.AUTH_USER_MODEL)))
    if lost := sorted(model._meta.label for model in people if where(model) != alias()):
        hint = "Keep them together: put checkpoints.database.router.Router before other routers."
        found = f"{', '.join(lost)} must be in the database of runs, {alias()!r}: rights are found by joins."
        yield Error(found, hint=hint, id="wfdash.E007")
        return
    apart = [model for model in apps.get_models() if where(model) != alias() and _points_at(model, people)]
    for model in apart:
        app = model._meta.app_label
        hint = f'Derive a router with apps = Router.apps | {{"{app}"}}, or give the key db_constraint=False.'
        found = f"{model._meta.label} has a foreign key to people, who are in the database {alias()!r}."
        yield Advice(found, hint=hint, id="wfdash.W004")


def check_workflows() -> Messages:
    """Find workflows and engines that cannot be loaded; the dashboard serves the others."""
    for failure in catalog.failures():
        where = failure.where or "Open Workflows in the dashboard for the traceback"
        yield Advice(f"{failure.source} cannot be loaded: {failure.error}", hint=f"{where}.", id="wfdash.W005")


def check_servers() -> Messages:
    """Find out whether what serves the project serves sockets and runs workflows, too."""
    hint = "Set it to what with_dashboard(get_asgi_application()) returns; with_dashboard is in wfdash.asgi."
    path = getattr(settings, "ASGI_APPLICATION", None)
    if not path:
        yield Advice("Without ASGI_APPLICATION pages do not update automatically.", hint=hint, id="wfdash.W006")
    else:
        try:
            bare = isinstance(import_string(path), ASGIHandler)
        except ImportError as error:
            yield Error(f"ASGI_APPLICATION cannot be imported: {error}", hint=hint, id="wfdash.E008")
        else:
            if bare:
                found = f"{path} has no websockets: pages do not update automatically."
                yield Advice(found, hint=hint, id="wfdash.W006")
    if (owner := get_commands().get("runserver")) == "django.contrib.staticfiles":
        hint = f'Put "wfdash" (or "daphne") before "{owner}" in INSTALLED_APPS.'
        yield Advice("runserver has no websockets and runs no workflows.", hint=hint, id="wfdash.W007")


def check_deployment() -> Messages:
    """Find what is right on one's own machine alone."""
    if DEFAULTS["WFDASH_URL"] == settings.WFDASH_URL:
        hint = "Set WFDASH_URL to the address at which people reach the dashboard."
        yield Advice(f"Links in mails lead to {settings.WFDASH_URL}.", hint=hint, id="wfdash.W008")
    if not settings.WFDASH_AUDIT_KEY:
        hint = "Set WFDASH_AUDIT_KEY to a secret of its own, kept apart from the database."
        yield Advice("The audit is signed with SECRET_KEY.", hint=hint, id="wfdash.W009")
    if alias() != DEFAULT_DB_ALIAS and alias() in connections.settings:
        yield from _check_tables()


def _check_tables() -> Messages:
    """Find migrations that Django's own warning does not see: it looks at the default database."""
    loader = MigrationLoader(connection())
    if missing := sorted(set(loader.graph.leaf_nodes("checkpoints")) - loader.applied_migrations.keys()):
        hint = f"Run manage.py migrate --database={alias()}."
        found = f"The database {alias()!r} lacks {', '.join('.'.join(one) for one in missing)}."
        yield Advice(found, hint=hint, id="wfdash.W010")


def _listed(check: Callable[[], Iterable[CheckMessage]]) -> Any:
    def checked(app_configs: Any = None, **options: Any) -> list[CheckMessage]:
        return list(check())

    return checked


def _model(label: str) -> type[Model]:
    return apps.get_model(label)


def _points_at(model: type[Model], people: set[type[Model]]) -> bool:
    fields: Iterable[Any] = model._meta.local_fields
    return any(field.remote_field and field.remote_field.model in people and field.db_constraint for field in fields)


def _has_field(model: type[Model], name: str) -> bool:
    try:
        return bool(model._meta.get_field(name))
    except FieldDoesNotExist:
        return False


def _class_of(path: str) -> object:
    try:
        return import_string(path)
    except ImportError:
        return None
