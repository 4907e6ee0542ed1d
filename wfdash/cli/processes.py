"""The commands that start a process, ``up``, ``web`` and ``worker``, and ``migrate``, which prepares their database."""

from __future__ import annotations

import argparse
import atexit
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from wfdash.cli.commands import argument, data_directory, flag, plain_command, print_error
from wfdash.cli.setup import setup
from wfdash.installation import location, workflow_sources
from wfdash.installation.environment import add_worker_options, refusal_text, refusals

MOST_NAMED = 10
"""Migrations named by ``migrate``; of more it says how many."""


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", _port(port)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds: give 0 or more")
    return seconds


def _where_data_is(run: Callable[[Namespace], int], options: Namespace) -> int:
    """Run a command that begins a PostgreSQL database, which has an address, but no data directory by mistake."""
    begins = run is _migrate and location.data_dir(os.environ).is_dir()
    if not (begins or os.environ.get("WFDASH_DATABASE")) and (missing := location.missing_data(os.environ)):
        return print_error(missing)
    return run(options)


def _source(text: str) -> str:
    if problem := workflow_sources.problem_of(text):
        raise argparse.ArgumentTypeError(problem)
    return str(Path(text).resolve()) if Path(text).exists() else text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: choose a number from 1 to 65535")
    return int(text)


def _demo(options: Namespace) -> int:
    """Serve the demo from a folder of its own, which is removed when this process ends, and open a browser.

    Settings of the environment are another installation's, maybe with its database: the demo has none of them.
    """
    for name in [name for name in os.environ if name.startswith("WFDASH_")]:
        del os.environ[name]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    folder = tempfile.mkdtemp(prefix="wfdash-demo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ |= {"WFDASH_DATA": folder, "DJANGO_SETTINGS_MODULE": "wfdash.settings"}
    with socket.create_server((options.host, 0)) as probe:
        options.data, options.port = folder, options.port or probe.getsockname()[1]
    print("Setting up a demo in a folder of its own, which is removed at the end (Ctrl-C) ...", flush=True)
    return _serve(options, role="up")


def _serve(options: Namespace, *, role: str) -> int:
    _note_options(options)
    if role == "web":
        os.environ["WFDASH_EMBED"] = "0"
    if options.demo:
        add_to("WFDASH_APPS", "wfdash.examples", separator=",")
    if options.reload:
        os.environ["WFDASH_RELOAD"] = "1"
    if found := refusals(host=options.host, demo=options.demo, env=os.environ):
        return print_error(refusal_text(found, options.host), 2)
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"http://{host}:{options.port}"
    os.environ.setdefault("WFDASH_URL", address)
    # Nothing that is imported is garbage, and looking for some takes an eighth of a start: it begins with serving.
    gc.disable()
    # Setting Django up installs Twisted's asyncio reactor (daphne is an installed app) and loads the models.
    settings = setup(role)
    print_problems(settings)
    if options.demo:
        add_to("WFDASH_REPOSITORIES", str(settings.DATA_DIR / "demo"), separator=os.pathsep)
    from wfdash.cli import server
    from wfdash.engines import catalog
    from wfdash.queries.workflows import PublishedReader
    from wfdash.worker.process import exit_process

    migrates = role == "up" and settings.WFDASH_MIGRATE
    admins: list[str] = []
    if status := _usable(
        settings, lambda: _prepare(migrates=migrates, then=lambda: admins.append(_first_admin(demo=options.demo)))
    ):
        return status
    catalog.load()
    if role == "web":
        PublishedReader().start()
    status = server.serve(
        host=options.host,
        port=options.port,
        data=settings.DATA_DIR,
        embed=settings.WFDASH_EMBED and not settings.WFDASH_HOLD,
        on_ready=partial(_announce, options, settings, admins[0], address),
    )
    exit_process(status)
    return status


def _announce(options: Namespace, settings: Any, name: str, address: str) -> None:
    """Say where the server is, and how ``name`` signs in."""
    location.note_address(settings.DATA_DIR, settings.WFDASH_URL)
    if not settings.WFDASH_EMBED or settings.WFDASH_HOLD:
        location.note_sources(settings.DATA_DIR, os.environ)
    if settings.WFDASH_LOG == "json":
        # Without the sign-in link: such a log is collected.
        _say(f"wfdash is up at {address}")
    else:
        print(f"\n  wfdash is up at {address}", flush=True)
        command = f"{typed_as(sys.argv[0])} signin NAME" + (f" --data {options.data}" if options.data else "")
        text = in_thread(lambda: sign_in_text(name, address, command, terminal=sys.stdout.isatty()))
        print(f"  {text}{provider_text(settings)}\n", flush=True)
    # Where there is one and someone at it, by a link of its own: a link works once.
    seen = sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if getattr(options, "browser", False) and seen and "CI" not in os.environ:
        threading.Thread(target=webbrowser.open, args=[in_thread(lambda: _link(name, address))], daemon=True).start()
    if settings.WFDASH_RELOAD:
        from wfdash.cli.reload import watch

        watch()


def sign_in_text(name: str, base: str, command: str = "wfdash signin NAME", *, terminal: bool) -> str:
    """Return how to sign in: a link for ``name`` where only its owner sees it, or where no one ever signed in."""
    from django.db import DatabaseError

    from checkpoints.models.user_model import User

    try:
        if terminal or not User.objects.filter(last_login__isnull=False).exists():
            return f"Sign in as {name} (works once): {_link(name, base)}\n  For others: {command}"
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0]
        words = f"No sign-in link, because the database cannot be used: {reason}"
        return f"{words}. Once it takes writes: {command.replace('NAME', name)}"
    return f"For a one-time sign-in link: {command.replace('NAME', name)}"


def _link(name: str, base: str) -> str:
    from checkpoints.models.user_model import User, has_name
    from wfdash.access.signin.links import create_link

    return create_link(User.objects.get(has_name(name)), base=base)


def print_problems(settings: Any) -> None:
    """Print why people cannot sign in at the provider of the settings, where that is so."""
    for words in settings.WFDASH_OIDC_PROBLEMS:
        print_error(f"Sign-in with OpenID Connect is off: {words}")


def provider_text(settings: Any) -> str:
    """Return the redirect URI that the OpenID Connect provider has to know; empty where none is set."""
    from django.urls import reverse

    from wfdash.notifications.rendering import absolute

    if settings.WFDASH_OIDC is None:
        return ""
    callback = absolute(reverse("wfdash:sign-in-callback"))
    return f"\n  People sign in with {settings.WFDASH_OIDC.name}. Its redirect URI for wfdash: {callback}"


def typed_as(path: str) -> str:
    """Return how to type this command again, from the path by which it was called."""
    if path.endswith("__main__.py"):
        return "python -m wfdash"
    found = shutil.which("wfdash")
    reached = found is not None and "UV" not in os.environ and os.path.realpath(found) == os.path.realpath(path)
    return path if Path(path).name == "wfdash" and not reached else "wfdash"


def in_thread(make: Callable[[], str]) -> str:
    """Return the result of a call that queries: the server announces itself from its event loop, where Django refuses
    to.
    """
    from concurrent.futures import ThreadPoolExecutor

    from checkpoints.database.alias import connection

    def call() -> str:
        try:
            return make()
        finally:
            connection().close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


def _work(options: Namespace) -> int:
    _note_options(options)
    settings = setup("worker")
    if status := _usable(settings, lambda: _prepare(migrates=False, then=lambda: None)):
        return status
    from wfdash.worker.process import serve_worker

    if options.health_port is not None:
        from wfdash.cli.worker_health import serve_health

        host, port = options.health_port
        try:
            serve_health(host, port)
        except OSError as error:
            return print_error(f"Cannot listen on {host}:{port} ({error.strerror}). Choose another --health-port")
    given = {"limit": options.limit, "workflows": options.workflows, "queues": options.queues}
    return _usable(settings, lambda: serve_worker(_say, **given))


def _migrate(options: Namespace) -> int:
    settings = setup("migrate")
    return _usable(settings, lambda: _migrate_and_say(new_key=options.new_secret_key))


def _note_options(options: Namespace) -> None:
    if options.drain is not None:
        os.environ["WFDASH_DRAIN"] = str(options.drain)
    if options.files:
        os.environ["WFDASH_WORKFLOWS"] = os.pathsep.join(map(str, options.files))


def add_to(variable: str, value: str, *, separator: str) -> None:
    """Append a value to a list-valued environment variable."""
    given = [part for part in os.environ.get(variable, "").split(separator) if part]
    if value not in given:
        os.environ[variable] = separator.join([*given, value])


def _usable(settings: Any, prepare: Callable[[], None]) -> int:
    """Prepare the database and return 0; if that cannot be done, print why and return the exit status."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError

    from checkpoints.database.alias import connection

    try:
        prepare()
    except ImproperlyConfigured as error:
        return print_error(str(error))
    except OperationalError as error:
        has_server = connection().vendor != "sqlite"
        where = "its server there" if has_server else f"the data directory {settings.DATA_DIR} writable"
        reason = str(error).strip().partition("\n")[0]
        return print_error(f"The database cannot be used: {reason}. Is {where}, and is there room?")
    return 0


def _prepare(*, migrates: bool, then: Callable[[], object]) -> None:
    """Migrate the database, or wait until another process has; then see that the keys are the installation's, and go
    on. A server that goes away in the meantime is waited for.
    """
    from checkpoints.database import schema
    from checkpoints.database.high_water_mark import refuse_hidden_writers
    from checkpoints.database.installation_key import check_keys

    _refuse_settings()
    if migrates and schema.missing_migrations():
        schema.migrate(_say)
        gc.collect()  # 80 MB
    schema.await_schema(_say, lambda: [step() for step in (check_keys, refuse_hidden_writers, then)])


def _migrate_and_say(*, new_key: bool) -> None:
    """Migrate the database and say what that did."""
    from checkpoints.database import schema
    from checkpoints.database.installation_key import check_keys

    _refuse_settings()
    applied = schema.migrate(_say)
    count = f"{len(applied)} migration{'' if len(applied) == 1 else 's'} applied"
    names = f": {', '.join(applied)}" if len(applied) <= MOST_NAMED else ""
    _say(f"The database is up to date; {count}{names}" if applied else "The database was up to date")
    if check_keys(new=new_key):
        _say("Its secret key is this one from now on: restart servers and workers that have another")


def _refuse_settings() -> None:
    """Raise ``ImproperlyConfigured`` for a database, or a hook for errors, that cannot be used."""
    from django.core.exceptions import ImproperlyConfigured

    from checkpoints.database.schema import refuse_database
    from wfdash.telemetry.error_hook import refuse_broken_hook

    if words := location.other_owners():
        raise ImproperlyConfigured(words)
    refuse_database()
    refuse_broken_hook()


def _first_admin(*, demo: bool) -> str:
    """Return the name of an administrator, who is created if there is none; add the demo."""
    from django.core.management import call_command
    from django.db import IntegrityError

    from checkpoints.models.user_model import User

    if demo:
        call_command("demo", verbosity=0)
    admins = User.objects.filter(is_superuser=True, is_active=True).order_by("pk")
    try:
        admin = admins.first() or User.objects.create_superuser("admin")
    except IntegrityError:  # Another server has just created it.
        admin = admins[0]
    return str(admin.get_username())


def _say(words: str) -> None:
    from django.conf import settings

    if settings.WFDASH_LOG == "json":
        logging.getLogger(__name__).info("%s", words)
    else:
        print(words, flush=True)


def _listening(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    port = os.environ.get("PORT", "8000")
    parser.add_argument("--port", type=_port, default=port, help="default: $PORT or 8000")


def _health_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--health-port",
        type=_address,
        default=os.environ.get("WFDASH_HEALTH_PORT") or None,
        metavar="[HOST:]PORT",
        help="answer /livez, /readyz and /metrics there: $WFDASH_HEALTH_PORT (default host: loopback only)",
    )


PROCESS = (
    argument("files", "files, folders or modules with workflows", nargs="*", type=_source, metavar="SOURCE"),
    argument("--drain", "for running steps to end when it stops: $WFDASH_DRAIN", type=_seconds, metavar="SECONDS"),
)
UP = plain_command(
    "up",
    "set up the data directory, serve the dashboard and run workflows",
    partial(_serve, role="up"),
    data_directory,
    _listening,
    flag("--demo", "add demo people, demo workflows and demo runs"),
    flag("--reload", "read workflow files again when they change (development)"),
    *PROCESS,
    needs_data=False,
)
DEMO = plain_command(
    "demo",
    "try wfdash: demo workflows in a folder of its own, which is removed at the end",
    _demo,
    argument("--port", "default: one that is free", type=_port),
    argument("--no-browser", "open none", dest="browser", action="store_false"),
    needs_data=False,
    host="127.0.0.1",
    demo=True,
    reload=False,
    drain=None,
    files=(),
)
WEB = plain_command(
    "web",
    "serve the dashboard; workers beside it run workflows",
    partial(_where_data_is, partial(_serve, role="web")),
    data_directory,
    _listening,
    *PROCESS,
    needs_data=False,
    demo=False,
    reload=False,
)
WORKER = plain_command(
    "worker",
    "run workflows and serve no pages; on PostgreSQL several may at once",
    partial(_where_data_is, _work),
    data_directory,
    _health_port,
    add_worker_options,
    *PROCESS,
    needs_data=False,
)
MIGRATE = plain_command(
    "migrate",
    "bring the database up to date; several at once take turns",
    partial(_where_data_is, _migrate),
    data_directory,
    flag("--new-secret-key", "let this secret key be the installation's, where the former one is lost"),
    needs_data=False,
)
COMMANDS = (UP, DEMO, WEB, WORKER, MIGRATE)
