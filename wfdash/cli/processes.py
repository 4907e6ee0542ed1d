"""The commands that start a process, ``up``, ``web`` and ``worker``, and ``migrate``, which prepares their database."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from wfdash.cli.sign_in_texts import in_thread, print_problems, provider_text, sign_in_text, typed_as
from wfdash.installation import location, workflow_sources
from wfdash.installation.environment import env_flag
from wfdash.installation.exposure import refusal_text, refusals
from wfdash.installation.worker_options import add_worker_options

PRIVATE_UMASK = 0o077
"""Files are readable only by their owner, such as the database, exports, and what workflows write."""
MOST_NAMED = 10
"""Migrations named by ``migrate``; of more it says how many."""


def add_process_commands(verbs: Any) -> None:
    """Add the commands to the parser."""
    up = _command(verbs, "up", "set up the data directory, serve the dashboard and run workflows")
    web = _command(verbs, "web", "serve the dashboard; workers beside it run workflows")
    for server in (up, web):
        server.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
        port = _port(os.environ.get("PORT", "8000"))
        server.add_argument("--port", type=_port, default=port, help="default: $PORT or 8000")
    up.add_argument("--demo", action="store_true", help="add demo people, demo workflows and demo runs")
    up.add_argument("--reload", action="store_true", help="read workflow files again when they change (development)")
    up.set_defaults(run=partial(_serve, role="up"), needs_data=False)
    web.set_defaults(
        run=partial(_where_data_is, partial(_serve, role="web")), needs_data=False, demo=False, reload=False
    )
    worker = _command(verbs, "worker", "run workflows and serve no pages; on PostgreSQL several may at once")
    worker.add_argument(
        "--health-port",
        type=_address,
        default=os.environ.get("WFDASH_HEALTH_PORT") or None,
        metavar="[HOST:]PORT",
        help="answer /livez, /readyz and /metrics there: $WFDASH_HEALTH_PORT (default host: loopback only)",
    )
    add_worker_options(worker)
    worker.set_defaults(run=partial(_where_data_is, _work), needs_data=False)
    for process in (up, web, worker):
        process.add_argument(
            "files", nargs="*", type=_source, metavar="SOURCE", help="files, folders or modules with workflows"
        )
        process.add_argument(
            "--drain", type=_seconds, metavar="SECONDS", help="for running steps to end when it stops: $WFDASH_DRAIN"
        )
    migrate = _command(verbs, "migrate", "bring the database up to date; several at once take turns")
    migrate.add_argument(
        "--new-secret-key",
        action="store_true",
        help="let this secret key be the installation's, where the former one is lost",
    )
    migrate.set_defaults(run=partial(_where_data_is, _migrate), needs_data=False)


def _command(verbs: Any, name: str, words: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=words)
    parser.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    return parser


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


def _where_data_is(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command that begins a PostgreSQL database, which has an address, but no data directory by mistake."""
    begins = run is _migrate and location.data_dir(os.environ).is_dir()
    if not (begins or os.environ.get("WFDASH_DATABASE")) and (missing := location.missing_data(os.environ)):
        print(missing, file=sys.stderr)
        return 1
    return run(options)


def _source(text: str) -> str:
    if problem := workflow_sources.problem_of(text):
        raise argparse.ArgumentTypeError(problem)
    return str(Path(text).resolve()) if Path(text).exists() else text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: choose a number from 1 to 65535")
    return int(text)


def setup(options: argparse.Namespace, role: str = "command") -> Any:
    """Set Django up and return the settings. ``role``: what this process does, for the names of its connections."""
    os.umask(PRIVATE_UMASK)
    raise_open_files()
    if getattr(options, "data", None) is not None:
        os.environ["WFDASH_DATA"] = str(options.data)
    import django

    django.setup()
    from django.conf import settings

    from checkpoints.database.direct import name_connections

    name_connections(role)
    if role == "command":
        shorten_failures()
    return settings


def raise_open_files() -> None:
    """Let this process open as many files, connections among them, as it may: the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # systems that say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def shorten_failures() -> None:
    """Say in one line that workflows could not be loaded: to a command that reads data they matter little."""
    said: list[str] = []

    def first(record: logging.LogRecord) -> bool:
        source, *_ = record.args or ("workflows.py",)
        said.append(str(source))
        record.msg, record.args, record.exc_info = "Could not load workflows: see 'wfdash check %s'", (source,), None
        return len(said) == 1

    logging.getLogger("wfdash.catalog").addFilter(first)


def _serve(options: argparse.Namespace, *, role: str) -> int:
    _note_options(options)
    if role == "web":
        os.environ["WFDASH_EMBED"] = "0"
    if options.demo:
        add_to("WFDASH_APPS", "wfdash.examples", separator=",")
    if options.reload:
        os.environ["WFDASH_RELOAD"] = "1"
    if found := refusals(host=options.host, demo=options.demo, env=os.environ):
        print(refusal_text(found, options.host), file=sys.stderr)
        return 2
    address = f"http://{_in_url(options.host)}:{options.port}"
    os.environ.setdefault("WFDASH_URL", address)
    # Setting Django up installs Twisted's asyncio reactor (daphne is an installed app) and loads the models.
    with loading():
        settings = setup(options, role)
    print_problems(settings)
    if options.demo:
        add_to("WFDASH_REPOSITORIES", str(settings.DATA_DIR / "demo"), separator=os.pathsep)
    with loading():
        from wfdash import catalog, server
        from wfdash.queries.workflows.published import PublishedReader
        from wfdash.worker.shutdown import exit_process

    migrates = role == "up" and env_flag("WFDASH_MIGRATE", True)
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


@contextmanager
def loading() -> Iterator[None]:
    """Return a context manager in which code is imported and the garbage collector rests: nothing of it is garbage, and
    looking for some takes an eighth of a start. Not for migrations, which leave 80 MB behind.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _announce(options: argparse.Namespace, settings: Any, name: str, address: str) -> None:
    """Say where the server is, and how ``name`` signs in."""
    location.note_address(settings.DATA_DIR, settings.WFDASH_URL)
    location.note_sources(settings.DATA_DIR, os.environ)
    if settings.WFDASH_LOG == "json":
        # Without the sign-in link: such a log is collected.
        _say(f"wfdash is up at {address}")
    else:
        print(f"\n  wfdash is up at {address}", flush=True)
        command = f"{typed_as(sys.argv[0])} signin NAME" + (f" --data {options.data}" if options.data else "")
        text = in_thread(lambda: sign_in_text(name, address, command, terminal=sys.stdout.isatty()))
        print(f"  {text}{provider_text(settings)}\n", flush=True)
    if settings.WFDASH_RELOAD:
        from wfdash.cli.reload import watch

        watch()


def _work(options: argparse.Namespace) -> int:
    _note_options(options)
    settings = setup(options, "worker")
    if status := _usable(settings, lambda: _prepare(migrates=False, then=lambda: None)):
        return status
    from wfdash.worker.process import serve_worker

    if options.health_port is not None:
        from wfdash.cli.worker_health import serve_health

        host, port = options.health_port
        try:
            serve_health(host, port)
        except OSError as error:
            print(f"Cannot listen on {host}:{port} ({error.strerror}). Choose another --health-port", file=sys.stderr)
            return 1
    given = {"limit": options.limit, "workflows": options.workflows, "queues": options.queues}
    return _usable(settings, lambda: serve_worker(_say, **given))


def _migrate(options: argparse.Namespace) -> int:
    settings = setup(options, "migrate")
    return _usable(settings, lambda: _migrate_and_say(new_key=options.new_secret_key))


def _note_options(options: argparse.Namespace) -> None:
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
        print(error, file=sys.stderr)
        return 1
    except OperationalError as error:
        has_server = connection().vendor != "sqlite"
        where = "its server there" if has_server else f"the data directory {settings.DATA_DIR} writable"
        reason = str(error).strip().partition("\n")[0]
        print(f"The database cannot be used: {reason}. Is {where}, and is there room?", file=sys.stderr)
        return 1
    return 0


def _prepare(*, migrates: bool, then: Callable[[], object]) -> None:
    """Migrate the database, or wait until another process has; then see that the keys are the installation's, and go
    on. A server that goes away in the meantime is waited for.
    """
    from checkpoints.database import schema
    from checkpoints.database.installation_key import check_keys

    _refuse_settings()
    if migrates:
        schema.migrate(_say)
    schema.await_schema(_say, lambda: (check_keys(), then()))


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
    from checkpoints.checks import refuse_database
    from wfdash.telemetry.error_hook import refuse_broken_hook

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


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
