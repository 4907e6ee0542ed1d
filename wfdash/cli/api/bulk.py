"""``wfdash runs bulk``: the same action on many runs, with a preview and a progress bar."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from wfdash.cli.api.commands import FAILED, command
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.bulk import BulkProgress

LOOK_SECONDS = 0.5


def add_bulk(runs: Any) -> None:
    """Add the command."""
    bulk = command(runs, "bulk", _bulk, "retry, cancel, pause, resume or tag many runs")
    bulk.add_argument("verb", choices=["retry", "cancel", "pause", "resume", "tag"])
    bulk.add_argument("ids", nargs="*", metavar="RUN")
    bulk.add_argument("--filter", metavar="TEXT", help="all runs that this filter finds, instead of RUN")
    bulk.add_argument("--add", action="append", default=[], metavar="TAG", help="with tag: a tag to add")
    bulk.add_argument("--remove", action="append", default=[], metavar="TAG", help="with tag: a tag to remove")
    bulk.add_argument("--dry-run", action="store_true", help="only say what would happen")
    bulk.add_argument("--yes", action="store_true", help="do not ask")


def _bulk(client: Client, options: argparse.Namespace, output: Output) -> int:
    if bool(options.ids) == (options.filter is not None):
        raise ValueError("Name the runs, or use --filter")
    chosen = {"runs": options.ids} if options.ids else {"filter": options.filter}
    shown = client.bulk_preview(options.verb, **chosen)
    unchanged = [f"{one.count} unchanged: {one.why}" for one in shown.stays]
    sentence = "; ".join([f"{options.verb}: {shown.acts} runs", *unchanged])
    if options.dry_run:
        output.result(shown, sentence)
        return 0
    if not options.yes and not _confirmed(sentence):
        output.note("Nothing was changed. Use --yes to do it without a question")
        return FAILED
    done = _finished(client, client.bulk(options.verb, **chosen, add=options.add, remove=options.remove), output)
    output.result(done, f"{done.acted} of {done.runs} runs: {options.verb}")
    for one in done.stayed:
        output.line(f"  unchanged: {one.run} {one.title}: {one.why}")
    return 0


def _confirmed(sentence: str) -> bool:
    if not sys.stdin.isatty():
        return False
    return input(f"{sentence}. Continue? [y/N] ").strip().lower() in {"y", "yes"}


def _finished(client: Client, begun: BulkProgress, output: Output) -> BulkProgress:
    """Return the result once the last run was looked at."""
    with output.progress(begun.verb, begun.runs) as advance:
        while not begun.finished:
            advance(begun.done)
            time.sleep(LOOK_SECONDS)
            begun = client.bulk_progress(begun.id)
    return begun
