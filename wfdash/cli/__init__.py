"""The ``wfdash`` command: ``up``, ``web`` and ``worker`` serve; ``signin`` and ``verify`` look after what they serve.

``runs``, ``requests``, ``checkpoints``, ``workflows``, ``schedules``, ``people`` and ``audit`` use the API: of a server
or of a data directory.
``manage`` is Django's command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from wfdash.cli import completion
from wfdash.cli.api import add_api_commands
from wfdash.cli.backup import add_backup_command
from wfdash.cli.check import add_check_command
from wfdash.cli.doctor import add_doctor_command
from wfdash.cli.ending import run_to_end
from wfdash.cli.new import add_new_command
from wfdash.cli.people import add_people_commands
from wfdash.cli.processes import PRIVATE_UMASK, add_process_commands, setup
from wfdash.cli.retention import add_retention_commands
from wfdash.cli.sign_in_texts import sign_in_link
from wfdash.cli.tokens import add_token_commands
from wfdash.installation import location
from wfdash.installation.environment import read_secret_files


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
    if options.run is _verify or not getattr(options, "needs_data", True):
        return int(options.run(options))
    if missing := location.missing_data(os.environ):
        return _print_error(missing)
    return _reading(options)


def _manage(command: list[str]) -> int:
    """Run one of Django's commands; only in an existing data directory, or without any."""
    from django.core.management import execute_from_command_line

    os.umask(PRIVATE_UMASK)
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
    add_process_commands(verbs)
    signin = verbs.add_parser("signin", help="print a one-time sign-in link for a person")
    signin.add_argument("user", help="user name")
    signin.add_argument("--base", default="", help="address of the dashboard (default: the last known one)")
    signin.set_defaults(run=_signin)
    verify = verbs.add_parser("verify", help="verify the audit log, or packs: parts of it that were exported")
    verify.add_argument(
        "packs", nargs="*", metavar="PACK.json", help="one exported pack, or an older and a newer one to compare"
    )
    verify.add_argument("--without-key", action="store_true", help="check hashes and links of packs, no signatures")
    verify.add_argument("--head", default="", metavar="N:HASH", help="a chain head recorded elsewhere")
    verify.add_argument("--from", dest="start", default="0", metavar="N", help="skip earlier entries")
    verify.set_defaults(run=_verify)
    verbs.add_parser("manage", help="Django's management commands", add_help=False)
    add_backup_command(verbs)
    add_check_command(verbs, setup)
    add_doctor_command(verbs, setup)
    add_new_command(verbs)
    add_api_commands(verbs)
    completion.add(verbs, _parser)
    add_token_commands(verbs, setup)
    add_people_commands(verbs, setup)
    add_retention_commands(verbs, setup)
    for verb in (signin, verify):
        verb.add_argument("--data", type=Path, help="data directory (default: $WFDASH_DATA or ./wfdash-data)")
    return parser


def _signin(options: argparse.Namespace) -> int:
    settings = setup(options)
    from checkpoints.database.installation_key import refuse_other_keys
    from checkpoints.errors import InvalidConfig
    from checkpoints.models.user_model import User, has_name

    refuse_other_keys(InvalidConfig)

    if not User.objects.filter(has_name(options.user), is_active=True).exists():
        remedy = f"'wfdash person list' names those there are, 'wfdash person add {options.user}' adds one"
        print(f"There is no active person named {options.user!r}: {remedy}", file=sys.stderr)
        return 1
    print(sign_in_link(options.user, options.base or location.noted_address(settings.DATA_DIR, os.environ)))
    return 0


def _verify(options: argparse.Namespace) -> int:
    """Verify the audit of the database, or packs: those need no data where their key is given, or none is needed."""
    missing = location.missing_data(os.environ)
    keyed = options.without_key or "WFDASH_AUDIT_KEY" in os.environ
    if missing and not (options.packs and keyed):
        more = ", or check exported packs with --without-key" if options.packs else ""
        return _print_error(missing + more)
    if not missing:
        return _proven(options)
    options.data = None
    with location.no_data():
        return _proven(options)


def _proven(options: argparse.Namespace) -> int:
    setup(options)
    from django.core.management import CommandError, call_command

    try:
        flags = ["--without-key"] * options.without_key + [f"--head={options.head}", f"--from={options.start}"]
        call_command("verify", *flags, *options.packs)
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.returncode
    return 0
