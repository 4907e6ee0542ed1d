"""What the commands of the API have in common: their options, the exit status, errors as text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.output import Output
from wfdash.cli.ending import INTERRUPTED

if TYPE_CHECKING:
    from wfdash.client import Client

Act = Callable[["Client", argparse.Namespace, Output], int | None]
OK, FAILED, USAGE, NOT_FOUND, REFUSED, CONFLICT, TIMED_OUT, UNREACHABLE, UNSUCCESSFUL, REJECTED = range(10)
STATUSES = {
    OK: "it was done",
    FAILED: "it failed: the server has an error, or something unexpected happened",
    USAGE: "wrong arguments, or a value that is not valid. Nothing was changed",
    NOT_FOUND: "not found, or you do not have access",
    REFUSED: "not signed in, or not allowed",
    CONFLICT: "the state does not allow it: someone answered first, the run has ended",
    TIMED_OUT: "what was waited for did not happen within --timeout",
    UNREACHABLE: "the server cannot be reached",
    UNSUCCESSFUL: "the run that was waited for failed or was cancelled",
    REJECTED: "the people who were asked said no",
    INTERRUPTED: "interrupted by Ctrl-C",
}
"""What each exit status means."""


def family(commands: Any, name: str, text: str) -> Any:
    """Add a family of commands, such as ``runs``, and return what its commands are added to."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    return parser.add_subparsers(required=True, metavar="COMMAND")


def command(family: Any, name: str, act: Act, text: str) -> argparse.ArgumentParser:
    """Add a command with the options that all have, and return its parser."""
    parser: argparse.ArgumentParser = family.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    shared = parser.add_argument_group("server")
    shared.add_argument("--url", help="address of the server (default: $WFDASH_URL, if there is a token)")
    shared.add_argument("--token", help="API token (default, and safer: $WFDASH_TOKEN)")
    shared.add_argument("--data", type=Path, help="use this data directory instead (default: $WFDASH_DATA)")
    shared.add_argument("--as", dest="person", metavar="NAME", help="with a data directory: act as this person")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=lambda options: perform(act, options), uses_api=True, needs_data=False)
    return parser


def perform(act: Act, options: argparse.Namespace) -> int:
    """Run a command and return its exit status. An error is text on stderr, never a traceback."""
    from wfdash.cli.api.connection import NoConnection, connect
    from wfdash.client import ClientError

    output = Output(as_json=options.json)
    try:
        with connect(options) as client:
            return act(client, options, output) or OK
    except NoConnection as error:
        return _say(str(error), FAILED)
    except ClientError as error:
        return _say(str(error), status_of(error))
    except ValueError as error:
        return _say(str(error), USAGE)


def status_of(error: Exception) -> int:
    """Return the exit status of an error of the client."""
    from wfdash import client

    table: list[tuple[Any, int]] = [
        (client.Unauthorized, REFUSED),
        (client.NotAllowed, REFUSED),
        (client.NotFound, NOT_FOUND),
        (client.Invalid, USAGE),
        (client.Conflict, CONFLICT),
        (client.TimedOut, TIMED_OUT),
        (client.Unreachable, UNREACHABLE),
        (client.NotAnswered, UNSUCCESSFUL),
    ]
    return next((status for kind, status in table if isinstance(error, kind)), FAILED)


def _say(text: str, status: int) -> int:
    sys.stderr.write(f"{text}\n")
    return status
