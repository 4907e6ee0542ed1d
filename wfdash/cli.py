"""The ``wfdash`` command: ``up`` serves, ``signin`` prints a one-time link, ``verify`` proves the audit chain.

``manage`` is Django's command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
    if arguments[:1] == ["manage"]:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["wfdash manage", *arguments[1:]])
        return 0
    options = _parser().parse_args(arguments)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wfdash", description="A dashboard for workflows that need people.")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    up = verbs.add_parser("up", help="set up what is missing, then serve the dashboard and drive runs")
    up.add_argument("files", nargs="*", type=_workflow_file, metavar="FILE.py", help="Python files with workflows")
    up.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
    up.add_argument("--port", type=_port, default=_port(os.environ.get("PORT", "8000")), help="default: $PORT or 8000")
    up.add_argument("--demo", action="store_true", help="add demo people, demo workflows and demo runs")
    up.set_defaults(run=_up)
    signin = verbs.add_parser("signin", help="print a one-time sign-in link for a person")
    signin.add_argument("user", help="user name")
    signin.add_argument("--base", default="http://127.0.0.1:8000", help="address of the dashboard")
    signin.set_defaults(run=_signin)
    verify = verbs.add_parser("verify", help="prove that the audit chain, or an exported pack, was not altered")
    verify.add_argument(
        "pack", nargs="?", type=Path, metavar="PACK.json", help="an exported pack (default: the database)"
    )
    verify.set_defaults(run=_verify)
    verbs.add_parser("manage", help="Django's management commands", add_help=False)
    for verb in (up, signin, verify):
        verb.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    return parser


def _workflow_file(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".py" or not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a Python file")
    return path.resolve()


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port: choose a number from 1 to 65535")
    return int(text)


def _setup(options: argparse.Namespace) -> Any:
    if options.data is not None:
        os.environ["WFDASH_DATA"] = str(options.data)
    import django

    django.setup()
    from django.conf import settings

    return settings


def _up(options: argparse.Namespace) -> int:
    if options.files:
        os.environ["WFDASH_WORKFLOWS"] = os.pathsep.join(map(str, options.files))
        if not options.demo:
            os.environ.setdefault("WFDASH_APPS", "")
    if options.host not in {"127.0.0.1", "localhost", "::1"} and "WFDASH_HOSTS" not in os.environ:
        print("To listen beyond loopback, set WFDASH_HOSTS to the host names people will use", file=sys.stderr)
        return 2
    address = f"http://{_in_url(options.host)}:{options.port}"
    os.environ.setdefault("WFDASH_URL", address)
    # Setting Django up installs Twisted's asyncio reactor (daphne is an app of ours) and loads the models.
    settings = _setup(options)
    from django.db import OperationalError

    from wfdash import catalog, server

    try:
        name = _prepare(demo=options.demo)
    except OperationalError as error:
        where = f"the data directory {settings.DATA_DIR} writable" if not _has_server() else "its server there"
        print(f"The database cannot be used: {error}. Is {where}, and is there room?", file=sys.stderr)
        return 1
    catalog.load()

    def announce() -> None:
        print(f"\n  wfdash is up at {address}", flush=True)
        print(f"  Sign in as {name} (works once): {_link(name, address)}\n", flush=True)

    status = server.serve(
        host=options.host, port=options.port, data=settings.DATA_DIR, embed=settings.WFDASH_EMBED, on_ready=announce
    )
    server.leave(status)
    return status


def _has_server() -> bool:
    from django.db import connection

    return connection.vendor != "sqlite"


def _prepare(*, demo: bool) -> str:
    """Bring the database up to date and return the name of an administrator."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
    if demo:
        call_command("demo", verbosity=0)
    users = get_user_model().objects
    admin = users.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if admin is None:
        admin = users.create_superuser("admin")
    return str(admin.get_username())


def _signin(options: argparse.Namespace) -> int:
    _setup(options)
    from django.contrib.auth import get_user_model

    if not get_user_model().objects.filter(username=options.user, is_active=True).exists():
        print(f"There is no active person named {options.user!r}", file=sys.stderr)
        return 1
    print(_link(options.user, options.base))
    return 0


def _verify(options: argparse.Namespace) -> int:
    _setup(options)
    from django.core.management import CommandError, call_command

    try:
        call_command("verify", *([str(options.pack)] if options.pack else []))
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _link(name: str, base: str) -> str:
    from concurrent.futures import ThreadPoolExecutor

    from django.contrib.auth import get_user_model
    from django.db import connection

    from wfdash.signin import create_link

    def make() -> str:
        try:
            return create_link(get_user_model().objects.get(username=name), base=base)
        finally:
            connection.close()

    # The server announces itself from inside its event loop, where Django refuses to query.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(main())
