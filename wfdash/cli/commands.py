"""Commands as rows of tables: what each takes, which call of the client it makes, how the result is printed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wfdash.cli.output import Output, Shown
from wfdash.cli.setup import setup

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.runs import Callback

Add = Callable[[Any], object]
"""Adds an argument to a parser, or a command to a family."""
Act = Callable[[Any, Namespace, Output], int | None]
"""What a command does, with a client or a viewer, with what was given to it. Returns the exit status, None for 0."""
Show = Callable[[Output, Any, Namespace], None]
"""Prints what a call returned."""
SHARED = frozenset({"url", "token", "data", "person", "json", "run", "uses_api", "needs_data"})
"""Options that all commands of the API have: the others are what a call takes."""
MOST_ROWS, MOST_DAYS = 1_000, 30
CALLBACK_KEY = "WFDASH_CALLBACK_SECRET"
INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""
OK, FAILED, USAGE, NOT_FOUND, REFUSED, CONFLICT, TIMED_OUT, UNREACHABLE, UNSUCCESSFUL, REJECTED = range(10)


def family(name: str, text: str, *commands: Add) -> Add:
    """Return a family of commands, such as ``runs``."""

    def add(verbs: Any) -> None:
        below = verbs.add_parser(name, help=text, description=_sentence(text))
        below = below.add_subparsers(required=True, metavar="COMMAND")
        for one in commands:
            one(below)

    return add


def command(name: str, text: str, act: Act, *arguments: Add) -> Add:
    """Return a command that uses the API: on a server, or on a data directory. Both go through ``wfdash.client``."""

    def run(options: Namespace) -> int:
        return _perform(act, options)

    return plain_command(name, text, run, _server, *arguments, uses_api=True, needs_data=False)


def administration(name: str, text: str, act: Act, *arguments: Add, epilog: str = "") -> Add:
    """Return a command that acts on the data directory itself, as who administers the server: no sign-in, every right.

    ``act`` gets the viewer *the command line*.
    """

    def run(options: Namespace) -> int:
        setup()
        from checkpoints.database.installation_key import refuse_other_keys
        from checkpoints.errors import CheckpointsError, InvalidConfig
        from wfdash.actions.people.roles import command_line
        from wfdash.domain.errors import WfdashError

        try:
            refuse_other_keys(InvalidConfig)
            return act(command_line(), options, Output(as_json=getattr(options, "json", False))) or OK
        except (WfdashError, CheckpointsError) as error:
            named = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in getattr(error, "errors", [])]
            return print_error("; ".join(named) or str(error))

    return plain_command(name, text, run, data_directory, *arguments, epilog=epilog)


def plain_command(
    name: str,
    text: str,
    run: Callable[[Namespace], int],
    *arguments: Add,
    description: str = "",
    epilog: str = "",
    **defaults: Any,
) -> Add:
    """Return a command that does everything itself. ``needs_data=False``: it is run without a database, too."""

    def add(verbs: Any) -> None:
        words = description or _sentence(text)
        parser = verbs.add_parser(name, help=text, description=words, epilog=epilog)
        for one in arguments:
            one(parser)
        parser.set_defaults(run=run, **defaults)

    return add


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _server(parser: argparse.ArgumentParser) -> None:
    shared = parser.add_argument_group("server")
    shared.add_argument("--url", help="address of the server (default: $WFDASH_URL, if there is a token)")
    shared.add_argument("--token", help="API token (default, and safer: $WFDASH_TOKEN)")
    shared.add_argument("--data", type=Path, help="use this data directory instead (default: $WFDASH_DATA)")
    shared.add_argument("--as", dest="person", metavar="NAME", help="with a data directory: act as this person")
    parser.add_argument("--json", action="store_true", help="print JSON")


def argument(name: str, help: str | None = None, **settings: Any) -> Add:  # noqa: A002
    """Return an argument. ``name``: as it is typed, such as ``--limit``, or that of a positional one."""
    return lambda parser: parser.add_argument(name, help=help, **settings)


def flag(name: str, help: str) -> Add:  # noqa: A002
    """Return an option without a value."""
    return argument(name, help, action="store_true")


def several(name: str, help: str | None = None, **settings: Any) -> Add:  # noqa: A002
    """Return an option that may be given again: a list, empty without it."""
    return argument(name, help, action="append", default=[], **settings)


def one_of(*arguments: Add) -> Add:
    """Return options of which at most one is given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for one in arguments:
            one(group)

    return add


def words(name: str, help: str) -> Add:  # noqa: A002
    """Return an argument of any number of words, which count as one text."""
    return argument(name, help, nargs="*", action=_Joined, default="")


class _Joined(argparse.Action):
    def __call__(self, parser: Any, namespace: Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, " ".join(values))


def limit(default: int, dest: str = "most") -> Add:
    """Return the option that says how many rows of a list are printed."""
    text = f"maximum number (default: {default})"
    return argument("--limit", text, dest=dest, type=up_to(MOST_ROWS), default=default, metavar="LIMIT")


def up_to(most: int) -> Callable[[str], int]:
    """Return what reads a number from 1 to ``most``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10) or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {most}")
        return int(text)

    return read


def seconds(text: str) -> float:
    """Return a duration in seconds from ``90``, ``90s``, ``5m``, ``2h`` or ``1d``."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        found = float(number) * units[unit]
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no duration: write 90s, 5m, 2h or 1d")
    return found


def json_or_text(text: str) -> Any:
    """Return JSON where it is some, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def json_value(text: str) -> Any:
    """Return the value of JSON; ``@FILE`` reads a file, ``@-`` standard input."""
    try:
        source = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text() if text.startswith("@") else text
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read: {error}") from error
    try:
        return json.loads(source)
    except ValueError as error:
        shown = text if len(text) < 40 else f"{text[:40]}..."
        raise argparse.ArgumentTypeError(f"{shown} is no JSON: {error}") from error


def field(text: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``; a value that is JSON counts as that."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, json_or_text(value)


TIMEOUT = argument("--timeout", "wait at most so long: 90s, 5m, 2h", type=seconds, metavar="TIME")
INPUT = argument("--input", "JSON; @FILE reads a file, @- standard input", type=json_value)
CALLBACK = argument("--callback", f"is sent the result, signed with ${CALLBACK_KEY}", metavar="URL")
data_directory = argument("--data", "data directory (default: $WFDASH_DATA or ./wfdash-data)", type=Path)


def moment(text: str) -> datetime:
    """Return the time that a text names, by the clock here unless it has an offset, or a duration from now."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        return datetime.now(UTC) + timedelta(seconds=seconds(text))


def callback_of(given: Namespace) -> Callback | None:
    """Return the callback that was named. Its secret is in the environment: others see a command's options."""
    from wfdash.records.runs import Callback

    if not given.callback:
        return None
    if not (secret := os.environ.get(CALLBACK_KEY, "")):
        raise ValueError(f"--callback needs a secret in {CALLBACK_KEY}: whsec_ followed by base64")
    return Callback(url=given.callback, secret=secret)


def call(name: str, show: Show) -> Act:
    """Return what makes a call of the client's table with all that the command takes, and shows what it returns."""

    def act(client: Client, given: Namespace, output: Output) -> None:
        show(output, getattr(client, name)(**vars(given)), given)

    return act


def listed(name: str, columns: str, *, narrow: str = "a filter", shown: Shown | None = None) -> Act:
    """Return what prints the first rows of a list of the client, and how to see the others if there are more.

    The client reads page by page as far as the limit, also where a page of the API has looked through a part only.
    """

    def act(client: Client, given: Namespace, output: Output) -> None:
        found = list(getattr(client, name)(**{**vars(given), "most": given.most + 1}))
        output.rows(found[: given.most], columns, shown=shown)
        if len(found) > given.most:
            output.hint(f"There are more than {given.most}: use --limit, or {narrow}")

    return act


def rows(columns: str, *, shown: Shown | None = None) -> Show:
    """Return what prints records as a table."""
    return lambda output, found, given: output.rows(list(found), columns, shown=shown)


def fields(names: str, *, shown: Shown | None = None) -> Show:
    """Return what prints these fields of one record."""
    return lambda output, found, given: output.fields(found, names, shown=shown)


def in_words(show: Show) -> Show:
    """Return what prints something in words of its own; JSON: what the call returned."""
    return lambda output, found, given: output.data(found) if output.as_json else show(output, found, given)


def says(text: str | Callable[[Any, Namespace], str], **facts: Any) -> Show:
    """Return what prints a sentence. JSON: what the call returned; the subject and ``facts`` if that is nothing."""

    def show(output: Output, found: Any, given: Namespace) -> None:
        # The API calls ``id`` what a call takes as ``run_id``.
        subject = {name.rpartition("_")[2]: value for name, value in vars(given).items()}
        sentence = text if isinstance(text, str) else text(found, given)
        output.result({**subject, **facts} if found is None else found, sentence)

    return show


def _perform(act: Act, options: Namespace) -> int:
    """Run a command of the API and return its exit status. An error is text on stderr, never a traceback."""
    from wfdash.cli.connection import NoConnection, connect
    from wfdash.client import ClientError

    given = Namespace(**{name: value for name, value in vars(options).items() if name not in SHARED})
    try:
        with connect(options) as client:
            return act(client, given, Output(as_json=options.json)) or OK
    except NoConnection as error:
        return print_error(str(error))
    except ClientError as error:
        return print_error(str(error), status_of(error))
    except ValueError as error:
        return print_error(str(error), USAGE)


def status_of(error: Exception) -> int:
    """Return the exit status of an error of the client."""
    from wfdash import client

    table: list[tuple[Any, int]] = [
        ((client.Unauthorized, client.NotAllowed), REFUSED),
        (client.NotFound, NOT_FOUND),
        (client.Invalid, USAGE),
        (client.Conflict, CONFLICT),
        (client.TimedOut, TIMED_OUT),
        (client.Unreachable, UNREACHABLE),
        (client.NotAnswered, UNSUCCESSFUL),
    ]
    return next((status for kind, status in table if isinstance(error, kind)), FAILED)


def print_error(text: str, status: int = FAILED) -> int:
    """Print why a command has failed, and return its exit status."""
    sys.stderr.write(f"{text}\n")
    return status
