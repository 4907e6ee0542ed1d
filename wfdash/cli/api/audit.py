"""``wfdash audit``: read and export who did what."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wfdash.cli.api import inputs
from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client

COLUMNS = ("n", "at", "actor", "right", "verb", "workflow", "run")
DETAILS = (*COLUMNS, "request", "facts", "card", "prev", "hash", "signature")
STANDARD_OUTPUT = "-"


def add(commands: Any) -> None:
    """Add the family."""
    audit = family(commands, "audit", "read and export the audit log")
    listing = command(audit, "list", _list, "list entries, newest first")
    _filter(listing)
    listing.add_argument("--limit", type=inputs.limit, default=50, help="maximum number (default: 50)")
    show = command(audit, "show", _show, "show an entry with what the person was shown")
    show.add_argument("n", type=int, metavar="N", help="its number")
    command(audit, "head", _head, "print number and hash of the newest entry: 'wfdash verify --head' takes them")
    export = command(audit, "export", _export, "export entries as one document that 'wfdash verify' checks")
    export.add_argument("file", metavar="FILE", help="a new file; - for standard output")
    _filter(export)


def _filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", nargs="*", help="same syntax as on the page: actor:ana verb:restore after:2026-01-01")


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    # As far as the limit, also where a page of the API has looked through a part only.
    found = list(client.all_audit(" ".join(options.filter), most=options.limit + 1))
    output.page(found[: options.limit], COLUMNS, options.limit, more=len(found) > options.limit)


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.audit_entry(options.n), DETAILS)


def _head(client: Client, options: argparse.Namespace, output: Output) -> None:
    head = client.audit_head()
    output.result(head, f"{head.n}:{head.hash}")


def _export(client: Client, options: argparse.Namespace, output: Output) -> None:
    pieces = client.export_audit(" ".join(options.filter))
    if options.file == STANDARD_OUTPUT:
        _copy(pieces, sys.stdout.buffer, output)
        sys.stdout.flush()
        return
    target = Path(options.file)
    if target.exists():
        raise ValueError(f"{target} exists: an export never replaces a file")
    size = _write_whole(pieces, target, output)
    output.result({"file": str(target), "bytes": size}, f"Wrote {target} ({size:,} bytes)")


def _write_whole(pieces: Iterable[bytes], target: Path, output: Output) -> int:
    """Write a new file, which only its owner reads, and return its size. A part of an export never has its name."""
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            try:
                size = _copy(pieces, file, output)
                os.link(file.name, target)
            finally:
                with suppress(OSError):
                    os.unlink(file.name)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror}") from error
    return size


def _copy(pieces: Iterable[bytes], file: BinaryIO | Any, output: Output) -> int:
    done = 0
    with output.progress("Export", None, bytes_of=True) as advance:
        for piece in pieces:
            file.write(piece)
            done += len(piece)
            advance(done)
    file.flush()
    return done
