"""``wfdash runs``: list, start, watch and steer runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from wfdash.cli.api import inputs
from wfdash.cli.api.bulk import add_bulk
from wfdash.cli.api.commands import UNSUCCESSFUL, command, family
from wfdash.cli.api.output import Output
from wfdash.cli.api.run_parts import add_parts
from wfdash.cli.api.watch import watch

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.runs import RunDetail

COLUMNS = ("id", "workflow", "status", "created", "title")
DETAILS = (
    *(
        "id",
        "workflow",
        "title",
        "status",
        "pending",
        "driver",
        "created",
        "finished",
        "created_by",
        "tags",
        "waiting_for",
        "failure",
    ),
    *("origin_run", "origin_checkpoint", "follows", "thread", "input", "output", "error"),
)
FAILURES = frozenset({"failed", "cancelled"})


def add(commands: Any) -> None:
    """Add the family."""
    runs = family(commands, "runs", "list, start, watch and steer runs")
    listing = command(runs, "list", _list, "list runs, newest first")
    listing.add_argument(
        "filter", nargs="*", help="same syntax as in the dashboard: workflow:refund status:waiting text"
    )
    listing.add_argument("--limit", type=inputs.limit, default=30, help="maximum number (default: 30)")
    _of_run(command(runs, "show", _show, "show a run"))
    _add_start(command(runs, "start", _start, "start a run"))
    waiting = _of_run(command(runs, "wait", _wait, "wait until a run has ended"))
    waiting.add_argument("--for-people", action="store_true", help="or until a person is needed")
    _timeout(waiting)
    watching = _of_run(command(runs, "watch", _watch, "follow a run live: its steps, events and open requests"))
    watching.add_argument("--after", type=int, default=0, metavar="N", help="begin behind event N")
    watching.add_argument("--no-answers", action="store_true", help="do not ask for answers")
    events = _of_run(command(runs, "events", _events, "list the events of a run, in order"))
    events.add_argument("--after", type=int, default=0, metavar="N", help="begin behind event N")
    events.add_argument("--limit", type=int, default=None, help="maximum number (default: all)")
    _add_verbs(runs)
    _add_follow_up(_of_run(command(runs, "follow-up", _follow_up, "send a completed run its next message")))
    signal = _of_run(command(runs, "signal", _signal, "send a signal into a run"))
    signal.add_argument("name")
    signal.add_argument("value", nargs="?", type=inputs.json_value, help="JSON; @FILE, @- for standard input")
    _of_run(command(runs, "delete", _delete, "delete an ended run with everything it has"))
    add_parts(runs)
    add_bulk(runs)


def _add_start(start: argparse.ArgumentParser) -> None:
    start.add_argument("workflow")
    start.add_argument("--input", type=inputs.json_value, help="JSON; @FILE reads a file, @- standard input")
    start.add_argument(
        "--set", type=inputs.field, action="append", default=[], metavar="NAME=VALUE", help="one field of the input"
    )
    start.add_argument("--key", help="start it once: the same key returns the run that it has started")
    inputs.add_callback(start)
    start.add_argument("--wait", action="store_true", help="wait until it has ended, and print its output")
    _timeout(start)


def _add_follow_up(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("message", type=inputs.json_or_text, help="JSON, or a text")
    parser.add_argument("--key", help="start it once: the same key returns the run that it has started")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended, and print its output")
    _timeout(parser)


def _add_verbs(runs: Any) -> None:
    cancel = _of_run(command(runs, "cancel", _cancel, "cancel a run"))
    cancel.add_argument("--after-step", action="store_true", help="once the running step has ended")
    pause = _of_run(command(runs, "pause", _pause, "pause a run once its running steps have ended"))
    pause.add_argument("--now", action="store_true", help="at once: running steps are interrupted")
    resume = _of_run(
        command(runs, "resume", _resume, "resume a paused run, or hand a program's own run over to workers")
    )
    resume.add_argument("--force", action="store_true", help="although functions of it still run elsewhere")
    _of_run(command(runs, "retry", _retry, "retry a failed run from its latest checkpoint"))
    _of_run(command(runs, "answer-again", _answer_again, "ask again what a step was answered that failed with it"))


def _of_run(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("id", metavar="RUN")
    return parser


def _timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=inputs.seconds, metavar="TIME", help="wait at most so long: 90s, 5m, 2h")


def _list(client: Client, options: argparse.Namespace, output: Output) -> None:
    # As far as the limit, also where a page of the API has looked through a part only.
    found = list(client.all_runs(" ".join(options.filter), most=options.limit + 1))
    output.page(found[: options.limit], COLUMNS, options.limit, more=len(found) > options.limit)


def _show(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.fields(client.run(options.id), DETAILS)


def _start(client: Client, options: argparse.Namespace, output: Output) -> int:
    callback = inputs.callback_of(options)
    run = client.start(options.workflow, _message(options), key=options.key, callback=callback)
    if options.wait:
        return _ended(_waited(client, run.id, options, output), output)
    output.result(run, run.id)
    return 0


def _message(options: argparse.Namespace) -> Any:
    """Return the input: what was given as JSON, with single fields over it."""
    if not options.set:
        return options.input
    if not isinstance(options.input, dict | None):
        raise ValueError("--set needs an --input that is an object")
    return {**(options.input or {}), **dict(options.set)}


def _wait(client: Client, options: argparse.Namespace, output: Output) -> int:
    return _ended(_waited(client, options.id, options, output), output)


def _waited(client: Client, run_id: str, options: argparse.Namespace, output: Output) -> RunDetail:
    """Wait for a run, with its progress before people who watch."""
    for_people = bool(getattr(options, "for_people", False))
    with output.progress(run_id, 1.0, counted=False) as advance:
        return client.wait(
            run_id,
            timeout=options.timeout,
            for_people=for_people,
            looked=(lambda run: advance(*_state_of(run))) if output.is_watched else None,
        )


def _state_of(run: RunDetail) -> tuple[float, str]:
    """Return how far a run is, from 0 to 1, and what it does."""
    words = [run.workflow, run.status, *run.waiting_for, str(run.progress.get("text") or "")]
    return float(run.progress.get("fraction") or 0), " · ".join(word for word in words if word)


def _ended(run: RunDetail, output: Output) -> int:
    output.fields(run, ("id", "status", "waiting_for", "output", "failure", "error"))
    return UNSUCCESSFUL if run.status in FAILURES else 0


def _watch(client: Client, options: argparse.Namespace, output: Output) -> int:
    run = watch(client, options.id, output, after=options.after, answers=not options.no_answers)
    return UNSUCCESSFUL if run.status in FAILURES else 0


def _events(client: Client, options: argparse.Namespace, output: Output) -> None:
    found = list(client.events(options.id, after=options.after, most=options.limit))
    output.rows(found, ("seq", "at", "kind", "step"))


def _cancel(client: Client, options: argparse.Namespace, output: Output) -> None:
    done = client.cancel(options.id, after_step=options.after_step)
    output.result(done, "Cancelled" if not options.after_step else "Will be cancelled after the running step")


def _pause(client: Client, options: argparse.Namespace, output: Output) -> None:
    done = client.pause(options.id, now=options.now)
    output.result(done, "Paused" if options.now else "Will be paused after the running steps")


def _resume(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.result(client.resume(options.id, force=options.force), "Resumed")


def _answer_again(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.result(client.answer_again(options.id), "Asked again")


def _retry(client: Client, options: argparse.Namespace, output: Output) -> None:
    output.result(client.retry(options.id), "Retried")


def _follow_up(client: Client, options: argparse.Namespace, output: Output) -> int:
    run = client.follow_up(options.id, options.message, key=options.key)
    if options.wait:
        return _ended(_waited(client, run.id, options, output), output)
    output.result(run, run.id)
    return 0


def _signal(client: Client, options: argparse.Namespace, output: Output) -> None:
    sent = client.signal(options.id, options.name, options.value)
    output.result(sent, "Received by a step" if sent.request else "Stored until a step waits for it")


def _delete(client: Client, options: argparse.Namespace, output: Output) -> None:
    client.delete_run(options.id)
    output.result({"id": options.id, "deleted": True}, "Deleted")
