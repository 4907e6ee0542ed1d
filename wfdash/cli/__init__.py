"""The ``wfdash`` command: ``up``, ``web`` and ``worker`` serve; ``signin`` and ``verify`` look after what they serve.

``runs``, ``requests``, ``checkpoints``, ``workflows``, ``schedules``, ``people`` and ``audit`` use the API: of a server
or of a data directory, whose requests Django answers in this process (``connection``). Each is a row (``commands``):
its arguments, the call of the client's table that they are given to, and what is printed of the result.
``manage`` is Django's command line; ``server`` is one process that serves and runs workflows; ``doctor`` examines an
installation, each examination a generator of findings.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from traceback import walk_tb

from checkpoints.errors import InvalidConfig
from wfdash import __version__
from wfdash.cli import administration, families, processes, upkeep
from wfdash.cli.commands import INTERRUPTED, print_error
from wfdash.cli.doctor import DOCTOR
from wfdash.cli.hook import HOOK
from wfdash.cli.new import NEW
from wfdash.cli.requests import REQUESTS
from wfdash.cli.runs import RUNS
from wfdash.cli.setup import PRIVATE_UMASK
from wfdash.installation import location
from wfdash.installation.environment import read_secret_files


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_to_end(lambda: _run(arguments))


def run_to_end(command: Callable[[], int]) -> int:
    """Run a command with all its output and return its exit status.

    A reader that closes the pipe, such as ``head``, has what it wanted: that is no failure. A setting that cannot be
    read ends it with its message alone.
    """
    try:
        status = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return print_error("", INTERRUPTED)
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the process ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, InvalidConfig) as error:
        if not (isinstance(error, InvalidConfig) or _of_settings(error)):
            raise
        return print_error(str(error))
    return status


def _of_settings(error: Exception) -> bool:
    """Return whether Django's settings raised this while they were imported."""
    module = os.environ.get("DJANGO_SETTINGS_MODULE")
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == module for frame in frames)


def _run(arguments: list[str]) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wfdash.settings")
    try:
        read_secret_files(os.environ)
    except ValueError as error:
        return print_error(str(error))
    if arguments[:1] == ["manage"]:
        return _manage(arguments[1:])
    options = _parser().parse_args(arguments)
    if getattr(options, "data", None) is not None:
        os.environ["WFDASH_DATA"] = str(options.data)
    if not getattr(options, "needs_data", True):
        return int(options.run(options))
    if missing := location.missing_data(os.environ):
        return print_error(missing)
    return _reading(options)


def _manage(command: list[str]) -> int:
    """Run one of Django's commands; only in an existing data directory, or without any."""
    from django.core.management import execute_from_command_line

    os.umask(PRIVATE_UMASK)
    missing = location.missing_data(os.environ)
    if missing and location.needs_data(command, os.environ):
        return print_error(missing)
    with location.no_data() if missing and not location.uses_data(command) else nullcontext():
        execute_from_command_line(["wfdash manage", *command])
    return 0


def _reading(options: argparse.Namespace) -> int:
    """Run a command that needs an existing database and return its exit status; a missing or older one is no
    traceback.
    """
    from django.db import DatabaseError

    try:
        return int(options.run(options))
    except DatabaseError as error:
        where = location.data_dir(os.environ)
        return print_error(
            f"The database of {where} cannot be used: {error}. Is it writable, and up to date ('wfdash up')?"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="wfdash", description="A dashboard for workflows that need people.")
    parser.add_argument("--version", action="version", version=f"wfdash {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (*processes.COMMANDS, upkeep.SIGNIN, upkeep.VERIFY):
        add(verbs)
    verbs.add_parser("manage", help="Django's management commands", add_help=False)
    for add in (upkeep.BACKUP, upkeep.CHECK, DOCTOR, NEW, RUNS, REQUESTS, HOOK, *families.COMMANDS):
        add(verbs)
    for add in (upkeep.completion(_parser), *administration.COMMANDS):
        add(verbs)
    return parser
