"""The system checks: each finds what it is about, and none finds anything in what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.utils.module_loading import import_string

import wfdash.asgi  # noqa: F401 (under the settings of the suite, before a test changes them)
from wfdash.engines import catalog
from wfdash.web.pages.site import embedding

SESSIONS, AUTH, MESSAGES = embedding.MIDDLEWARE
HERE = "tests.embedding.test_checks"
Change = Callable[[Any], None]
urlpatterns: list[Any] = []
"""What a project without the dashboard has."""
handler = ASGIHandler.__new__(ASGIHandler)


class Elsewhere:
    """A router that sends some apps to the default database, and the others to wfdash's."""

    apps: tuple[str, ...] = ()

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default" if model._meta.app_label in self.apps else "workflows"

    db_for_read = db_for_write


class PeopleElsewhere(Elsewhere):
    apps = ("auth",)


class AdminElsewhere(Elsewhere):
    apps = ("admin",)


def setting(**values: Any) -> Change:
    def change(settings: Any) -> None:
        for name, value in values.items():
            setattr(settings, name, value)

    return change


def without(middleware: str) -> Change:
    def change(settings: Any) -> None:
        removed = import_string(middleware)
        settings.MIDDLEWARE = [path for path in settings.MIDDLEWARE if not _is(path, removed)]

    return change


def _is(path: str, removed: type) -> bool:
    """Return whether a middleware is this one, or derived from it."""
    found = import_string(path)
    return isinstance(found, type) and issubclass(found, removed)


def own_database(router: str) -> Change:
    """Return the change to a database of one's own, by a router of this module."""
    return setting(WFDASH_DATABASE_ALIAS="workflows", DATABASE_ROUTERS=[f"{HERE}.{router}"] if router else [])


@pytest.fixture(autouse=True)
def workflows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another database, and a catalogue that is read again."""
    monkeypatch.setitem(connections.settings, "workflows", connections.settings["default"])
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()
    if hasattr(connections._connections, "workflows"):
        del connections["workflows"]


def found() -> list[str]:
    return [message.id or "" for message in run_checks(tags=["wfdash"])]


def test_nothing_is_found_in_an_installation_of_its_own() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("id_", "change"),
    [
        ("wfdash.E001", without(SESSIONS)),
        ("wfdash.E001", without(AUTH)),
        ("wfdash.E001", without(MESSAGES)),
        ("wfdash.E002", setting(USE_TZ=False)),
        ("wfdash.E003", setting(WFDASH_DURABILITY="maybe")),
        ("wfdash.E003", setting(WFDASH_ENCRYPTION_KEYS="short")),
        ("wfdash.E003", setting(WFDASH_KEEP_RUNS={"payments": "long"})),
        ("wfdash.W005", setting(WFDASH_ENGINES=["tests.embedding.engines.Ours"])),
        ("wfdash.E004", setting(ROOT_URLCONF=HERE, LOGIN_URL="https://sign-in.example")),
        ("wfdash.E006", own_database("")),
        ("wfdash.E007", own_database("PeopleElsewhere")),
        ("wfdash.E008", setting(ASGI_APPLICATION="tests.embedding.nothing.application")),
        ("wfdash.W011", without(embedding.CSRF)),
        ("wfdash.W002", setting(LOGIN_URL="/enter/")),
        ("wfdash.W002", setting(LOGIN_URL="enter")),
        ("wfdash.W004", own_database("AdminElsewhere")),
        ("wfdash.W005", setting(WFDASH_WORKFLOWS=["tests/embedding/missing.py"])),
        ("wfdash.W006", setting(ASGI_APPLICATION=None)),
        ("wfdash.W006", setting(ASGI_APPLICATION=f"{HERE}.handler")),
    ],
)
def test_what_is_missing_is_found_with_its_remedy(id_: str, change: Change, settings: Any) -> None:
    change(settings)
    (message,) = run_checks(tags=["wfdash"])
    assert (message.id, bool(message.hint)) == (id_, True)


@pytest.mark.parametrize(
    ("id_", "values"), [("wfdash.E005", {"ATOMIC_REQUESTS": True}), ("wfdash.W003", {"OPTIONS": {"timeout": 20}})]
)
def test_options_of_the_database_that_hold_runs_up_are_found(
    id_: str, values: dict[str, Any], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "NAME": "runs.sqlite3"}
    given = {**sqlite, "OPTIONS": {"transaction_mode": "IMMEDIATE"}, **values}
    monkeypatch.setitem(connections.settings, "workflows", given)
    own_database("Elsewhere")(settings)
    assert found() == [id_]


def test_a_development_server_without_sockets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "get_commands", lambda: {"runserver": "django.contrib.staticfiles"})
    assert found() == ["wfdash.W007"]


def test_what_is_right_for_one_s_own_machine_alone_is_found_before_deployment(settings: Any) -> None:
    settings.WFDASH_AUDIT_KEY = ""
    assert [message.id for message in embedding.check_deployment()] == ["wfdash.W008", "wfdash.W009"]
    setting(WFDASH_AUDIT_KEY="a" * 40, WFDASH_URL="https://flows.example")(settings)
    assert list(embedding.check_deployment()) == []


def test_a_project_without_what_the_models_need_is_refused_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding.apps, "is_installed", lambda app: app != "checkpoints")
    with pytest.raises(ImproperlyConfigured, match="add checkpoints to INSTALLED_APPS"):
        embedding.refuse_incomplete()


def test_people_without_groups_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "get_user_model", lambda: embedding.apps.get_model("sessions.Session"))
    with pytest.raises(ImproperlyConfigured, match="lacks groups, is_active, is_superuser, user_permissions: derive"):
        embedding.refuse_incomplete()
