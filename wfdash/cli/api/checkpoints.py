"""``wfdash checkpoints``: look at a run's checkpoints, compare them, restore and fork."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.commands import command, family
from wfdash.cli.api.output import Output

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.checkpoints import StateCounts

COLUMNS = ("n", "id", "step", "reason", "waiting", "clean", "size", "created", "label")


def add(commands: Any) -> None:
    """Add the family."""
    found = family(commands, "checkpoints", "look at a run's checkpoints, restore and fork")
    listing = _of_run(command(found, "list", _list, "list a run's checkpoints, newest first"))
    listing.add_argument("--limit", type=inputs.limit, default=50, help="maximum number (default: 50)")
    _of_checkpoint(command(found, "show", _show, "show a checkpoint with its content"))
    compare = _of_run(command(found, "compare", _compare, "show the differences from one checkpoint to another"))
    compare.add_argument("before", metavar="A", help="its number in the run, or any checkpoint's ID")
    compare.add_argument("after", metavar="B")
    preview = _of_checkpoint(command(found, "preview", _preview, "say what restoring or forking would do"))
    preview.add_argument("--fork", action="store_true", help="instead of restoring")
    for name, act, text in (
        ("restore", _restore, "make a checkpoint the head of its run again"),
        ("fork", _fork, "start a new run from a checkpoint"),
    ):
        verb = _of_checkpoint(command(found, name, act, text))
        verb.add_argument("--edits", type=inputs.json_value, help="JSON: state, messages, answers, reason; @FILE, @-")
        verb.add_argument("--seen", default="", help="the mark of a preview: refused if more would happen than that")
    label = _of_checkpoint(command(found, "label", _label, "label a checkpoint, so that it is kept"))
    label.add_argument("text", nargs="?", default="", help="default: remove the label")


def _of_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="RUN")
    return parser


def _of_checkpoint(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _of_run(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="its number in the run, or its ID")
    return parser


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.rows(client.checkpoints(options.id, limit=options.limit).items, COLUMNS)


def checkpoint_id(client: Client, options: argparse.Namespace) -> str:
    """Return a checkpoint's id; a number is one of the run."""
    given = str(options.checkpoint)
    if not (given.isascii() and given.isdigit() and len(given) < 18):
        return given
    items = client.checkpoints(options.id, after=str(int(given) + 1), limit=1).items
    return items[0].id if items and items[0].n == int(given) else given


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.checkpoint(options.id, checkpoint_id(client, options))
    output.fields(found, ("id", "n", "parent", "created", "problem", "body", "requests"))


def _compare(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = client.compare(options.id, options.before, options.after)
    if output.as_json:
        return output.data(found)
    for step in found.moved:
        output.line(f"{step.step}: {_counts(step.before)} -> {_counts(step.after)}")
    for asked in found.asked:
        output.line(f"request {asked.key}: {'closed' if asked.after is None else 'opened or changed'}")
    for change in found.patch:
        value = f" {change['value']!r}" if "value" in change else ""
        output.line(f"{change['op']} {change['path']}{value}")
    if not (found.moved or found.asked or found.patch):
        output.line(found.problem or "The same")
    return None


def _counts(counts: StateCounts) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "nothing"


def _preview(client: Client, options: argparse.Namespace, output: Output) -> None:
    verb: Any = "fork" if options.fork else "restore"
    found = client.preview(options.id, checkpoint_id(client, options), verb=verb)
    if output.as_json:
        return output.data(found)
    if found.problem:
        output.line(f"not possible: {found.problem}")
    if found.message_due:
        output.line(f"continues with its message: {json.dumps(found.message, ensure_ascii=False)}")
    for text, names in (
        ("runs again", [one.step for one in found.again]),
        ("stays done", [one.step for one in found.stays]),
        ("may run again after that", found.repeats),
        ("calls made again", [one.name for one in found.outside.repeated]),
        ("calls of unknown outcome", [one.name for one in found.outside.unknown]),
        ("opens again", [str(one.request.card.get("subject", one.request.key)) for one in found.reopens]),
        ("closes", [one.subject for one in found.closes]),
    ):
        output.line(f"{text}: {', '.join(' '.join(name.split()) for name in names) or 'nothing'}")
    output.line(f"{found.verb} exactly this with: --seen {found.mark}")
    return None


def _restore(client: Client, options: argparse.Namespace, output: Output) -> None:
    chosen = checkpoint_id(client, options)
    head = client.restore(options.id, chosen, edits=options.edits, seen=options.seen)
    result = {"run": options.id, "checkpoint": head.id, "n": head.n, "from": chosen}
    output.result(result, f"Restored checkpoint {options.checkpoint} (new checkpoint {head.n}, {head.id})")


def _fork(client: Client, options: argparse.Namespace, output: Output) -> None:
    made = client.fork(options.id, checkpoint_id(client, options), edits=options.edits, seen=options.seen)
    output.result({"run": made.id, "n": made.n}, made.id)


def _label(client: Client, options: argparse.Namespace, output: Output) -> None:
    done = client.label(options.id, checkpoint_id(client, options), options.text)
    output.result(done, f"Labelled {options.text}" if options.text else "Label removed")
