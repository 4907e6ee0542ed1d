"""The ``wfdash`` command: ``up`` serves, ``signin`` prints a one-time link, ``verify`` checks the audit chain.

``runs``, ``requests``, ``checkpoints``, ``workflows``, ``schedules``, ``people`` and ``audit`` use the API: of a server
or of a data directory.
``manage`` is Django's command line.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from wfdash.cli import completion
from wfdash.cli.api import add_api_commands
from wfdash.cli.check import add_check_command
from wfdash.cli.ending import run_to_end
from wfdash.cli.new import add_new_command
from wfdash.cli.people import add_people_commands
from wfdash.cli.tokens import add_token_commands
from wfdash.installation import location, workflow_sources
from wfdash.installation.environment import read_secret_files
from wfdash.installation.exposure import refusal_text, refusals

PRIVATE = 0o077
"""The umask: files are readable only by their owner, such as the database, exports, and what workflows write."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_to_end(lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
    try:
        read_secret_files(os.environ)
    except ValueError as error:
        return _print_error(str(error))
    if arguments[:1] == ["manage"]:
        return _manage(arguments[1:])
    options = _parser().parse_args(arguments)
    if getattr(options, "data", None) is not None:
        os.environ["WFDASH_DATA"] = str(options.data)
    if options.run in (_up, _verify) or not getattr(options, "needs_data", True):
        return int(options.run(options))
    if missing := location.missing_data(os.environ):
        return _print_error(missing)
    return _reading(options)


def _manage(command: list[str]) -> int:
    """Run one of Django's commands; only in an existing data directory, or without any."""
    from django.core.management import execute_from_command_line

    os.umask(PRIVATE)
    missing = location.missing_data(os.environ)
    if missing and location.needs_data(command, os.environ):
        return _print_error(missing)
    with location.no_data() if missing and not location.uses_data(command) else nullcontext():
        execute_from_command_line(["wfdash manage", *command])
    return 0


def _print_error(words: str) -> int:
    print(words, file=sys.stderr)
    return 1


def _reading(options: argparse.Namespace) -> int:
    """Run a command that needs an existing database and return its exit status; a missing or older one is no
    traceback.
    """
    from django.db import DatabaseError

    try:
        return int(options.run(options))
    except DatabaseError as error:
        where = location.data_dir(os.environ)
        return _print_error(f"The database of {where} cannot be used: {error}. 'wfdash up' brings it up to date")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wfdash", description="A dashboard for workflows that need people.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    up = verbs.add_parser("up", help="set up the data directory, serve the dashboard and run workflows")
    up.add_argument("files", nargs="*", type=_source, metavar="SOURCE", help="files, folders or modules with workflows")
    up.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    up.add_argument("--port", type=_port, default=_port(os.environ.get("PORT", "8000")), help="default: $PORT or 8000")
    up.add_argument("--demo", action="store_true", help="add demo people, demo workflows and demo runs")
    up.add_argument("--reload", action="store_true", help="read workflow files again when they change (development)")
    up.set_defaults(run=_up)
    signin = verbs.add_parser("signin", help="print a one-time sign-in link for a person")
    signin.add_argument("user", help="user name")
    signin.add_argument("--base", default="", help="address of the dashboard (default: the last known one)")
    signin.set_defaults(run=_signin)
    verify = verbs.add_parser("verify", help="verify the audit chain or exported packs")
    verify.add_argument(
        "packs", nargs="*", metavar="PACK.json", help="one exported pack, or an older and a newer one to compare"
    )
    verify.add_argument("--without-key", action="store_true", help="check hashes and links of packs, no signatures")
    verify.add_argument("--head", default="", metavar="N:HASH", help="a chain head recorded elsewhere")
    verify.add_argument("--from", dest="start", default="0", metavar="N", help="skip earlier entries")
    verify.set_defaults(run=_verify)
    verbs.add_parser("manage", help="Django's management commands", add_help=False)
    add_check_command(verbs, _setup)
    add_new_command(verbs)
    add_api_commands(verbs)
    completion.add(verbs, _parser)
    add_token_commands(verbs, _setup)
    add_people_commands(verbs, _setup)
    for verb in (up, signin, verify):
        verb.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    return parser


def _source(text: str) -> str:
    if problem := workflow_sources.problem_of(text):
        raise argparse.ArgumentTypeError(problem)
    return str(Path(text).resolve()) if Path(text).exists() else text


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: choose a number from 1 to 65535")
    return int(text)


def _setup(options: argparse.Namespace) -> Any:
    os.umask(PRIVATE)
    if getattr(options, "data", None) is not None:
        os.environ["WFDASH_DATA"] = str(options.data)
    import django

    django.setup()
    from django.conf import settings

    return settings


def _up(options: argparse.Namespace) -> int:
    if options.files:
        os.environ["WFDASH_WORKFLOWS"] = os.pathsep.join(map(str, options.files))
    if options.demo:
        _add_to("WFDASH_APPS", "wfdash.examples", separator=",")
    if options.reload:
        os.environ["WFDASH_RELOAD"] = "1"
    if found := refusals(host=options.host, demo=options.demo, env=os.environ):
        print(refusal_text(found, options.host), file=sys.stderr)
        return 2
    address = f"http://{_in_url(options.host)}:{options.port}"
    os.environ.setdefault("WFDASH_URL", address)
    # Setting Django up installs Twisted's asyncio reactor (daphne is an installed app) and loads the models.
    settings = _setup(options)
    _print_problems(settings)
    if options.demo:
        _add_to("WFDASH_REPOSITORIES", str(settings.DATA_DIR / "demo"), separator=os.pathsep)
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError

    from wfdash import catalog, server
    from wfdash.worker.shutdown import exit_process

    try:
        name = _prepare(demo=options.demo)
    except ImproperlyConfigured as error:
        return _print_error(str(error))
    except OperationalError as error:
        where = f"the data directory {settings.DATA_DIR} writable" if not _has_server() else "its server there"
        print(f"The database cannot be used: {error}. Is {where}, and is there room?", file=sys.stderr)
        return 1
    catalog.load()

    def announce() -> None:
        location.note_address(settings.DATA_DIR, settings.WFDASH_URL)
        location.note_sources(settings.DATA_DIR, os.environ)
        print(f"\n  wfdash is up at {address}", flush=True)
        command = f"{_typed_as(sys.argv[0])} signin NAME" + (f" --data {options.data}" if options.data else "")
        sign_in_text = _in_thread(lambda: _sign_in_text(name, address, command, terminal=sys.stdout.isatty()))
        print(f"  {sign_in_text}{_provider_text(settings)}\n", flush=True)
        if settings.WFDASH_RELOAD:
            from wfdash.cli.reload import watch

            watch()

    status = server.serve(
        host=options.host, port=options.port, data=settings.DATA_DIR, embed=settings.WFDASH_EMBED, on_ready=announce
    )
    exit_process(status)
    return status


def _add_to(variable: str, value: str, *, separator: str) -> None:
    """Append a value to a list-valued environment variable."""
    given = [part for part in os.environ.get(variable, "").split(separator) if part]
    if value not in given:
        os.environ[variable] = separator.join([*given, value])


def _has_server() -> bool:
    from checkpoints.database.alias import connection

    return connection().vendor != "sqlite"


def _prepare(*, demo: bool) -> str:
    """Migrate the database and return the name of an administrator."""
    from django.core.management import call_command

    from checkpoints.checks import refuse_database
    from checkpoints.models.user_model import User

    refuse_database()
    call_command("migrate", verbosity=0, interactive=False)
    if demo:
        call_command("demo", verbosity=0)
    admin = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if admin is None:
        admin = User.objects.create_superuser("admin")
    return str(admin.get_username())


def _signin(options: argparse.Namespace) -> int:
    settings = _setup(options)
    from checkpoints.models.user_model import User, has_name

    if not User.objects.filter(has_name(options.user), is_active=True).exists():
        print(f"There is no active person named {options.user!r}", file=sys.stderr)
        return 1
    print(_link(options.user, options.base or location.noted_address(settings.DATA_DIR, os.environ)))
    return 0


def _verify(options: argparse.Namespace) -> int:
    """Verify the audit of the database, or packs: those need no data where their key is given, or none is needed."""
    missing = location.missing_data(os.environ)
    keyed = options.without_key or "WFDASH_AUDIT_KEY" in os.environ
    if missing and not (options.packs and keyed):
        more = ", or check packs --without-key" if options.packs else ""
        return _print_error(missing + more)
    if not missing:
        return _proven(options)
    options.data = None
    with location.no_data():
        return _proven(options)


def _proven(options: argparse.Namespace) -> int:
    _setup(options)
    from django.core.management import CommandError, call_command

    try:
        flags = ["--without-key"] * options.without_key + [f"--head={options.head}", f"--from={options.start}"]
        call_command("verify", *flags, *options.packs)
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _sign_in_text(name: str, base: str, command: str = "wfdash signin NAME", *, terminal: bool) -> str:
    """Return how to sign in: a link for ``name`` where only its owner sees it, or where no one ever signed in."""
    from checkpoints.models.user_model import User

    if terminal or not User.objects.filter(last_login__isnull=False).exists():
        return f"Sign in as {name} (works once): {_link(name, base)}\n  For others: {command}"
    return f"For a one-time sign-in link: {command.replace('NAME', name)}"


def _print_problems(settings: Any) -> None:
    """Print why people cannot sign in at the provider of the settings, where that is so."""
    for words in settings.WFDASH_OIDC_PROBLEMS:
        print(f"Sign-in with OpenID Connect is off: {words}", file=sys.stderr)


def _provider_text(settings: Any) -> str:
    """Return the redirect URI that the OpenID Connect provider has to know; empty where none is set."""
    from django.urls import reverse

    from wfdash.rendering.addresses import absolute

    if settings.WFDASH_OIDC is None:
        return ""
    callback = absolute(reverse("wfdash:sign-in-callback"))
    return f"\n  People sign in with {settings.WFDASH_OIDC.name}. Its redirect URI for wfdash: {callback}"


def _typed_as(path: str) -> str:
    """Return how to type this command again, from the path by which it was called."""
    if path.endswith("__main__.py"):
        return "python -m wfdash"
    found = shutil.which("wfdash")
    reached = found is not None and os.path.realpath(found) == os.path.realpath(path)
    return path if Path(path).name == "wfdash" and not reached else "wfdash"


def _link(name: str, base: str) -> str:
    from checkpoints.models.user_model import User, has_name
    from wfdash.signin.links import create_link

    return create_link(User.objects.get(has_name(name)), base=base)


def _in_thread(make: Callable[[], str]) -> str:
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


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
