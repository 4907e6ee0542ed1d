"""Values that people give to commands: JSON, files, fields, numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfdash.records.runs import Callback

MOST, MOST_DAYS = 1_000, 30
CALLBACK_KEY = "WFDASH_CALLBACK_SECRET"


def limit(text: str) -> int:
    """Return how many rows to list."""
    return _number(text, MOST)


def days(text: str) -> int:
    """Return how many days to look at."""
    return _number(text, MOST_DAYS)


def _number(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10) or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {most}")
    return int(text)


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
    source = text
    if text.startswith("@"):
        source = sys.stdin.read() if text == "@-" else _read(text[1:])
    try:
        return json.loads(source)
    except ValueError as error:
        shown = text if len(text) < 40 else f"{text[:40]}..."
        raise argparse.ArgumentTypeError(f"{shown} is no JSON: {error}") from error


def add_callback(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a callback."""
    parser.add_argument("--callback", metavar="URL", help=f"is sent the result, signed with ${CALLBACK_KEY}")


def callback_of(options: argparse.Namespace) -> Callback | None:
    """Return the callback that the options name. Its secret is in the environment: others see a command's options."""
    from wfdash.records.runs import Callback

    if not options.callback:
        return None
    if not (secret := os.environ.get(CALLBACK_KEY, "")):
        raise ValueError(f"--callback needs a secret in {CALLBACK_KEY}: whsec_ followed by base64")
    return Callback(url=options.callback, secret=secret)


def field(text: str) -> tuple[str, Any]:
    """Return name and value of ``NAME=VALUE``; a value that is JSON counts as that."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, json_or_text(value)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error}") from error
