"""``wfdash runs``: list, start, watch and steer runs. ``wfdash workflows watch`` follows those of a workflow."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from wfdash.cli.commands import (
    CALLBACK,
    CONFLICT,
    FAILED,
    INPUT,
    TIMEOUT,
    UNSUCCESSFUL,
    argument,
    call,
    callback_of,
    command,
    family,
    field,
    fields,
    flag,
    json_or_text,
    json_value,
    limit,
    listed,
    rows,
    says,
    several,
    words,
)
from wfdash.cli.output import STYLES, Output, clean, moment
from wfdash.cli.requests import prompt_answer
from wfdash.domain.labels import escaped

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.runs import BulkProgress, EventRecord, RunDetail

DETAILS = (
    "id workflow title status pending driver created finished created_by tags waiting_for failure "
    "input_tokens output_tokens cost origin_run origin_checkpoint follows thread input output error"
)
FAILURES = frozenset({"failed", "cancelled"})
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
PARTS = ("state", "input", "output", "inputs", "transcript", "transcript.md")
"""``LogLevel`` and ``RunPart`` of the records, which no command imports before it runs."""
LOOK_SECONDS = 0.5
AGREED = {"y", "yes"}
LAST_EVENTS = 12
"""Events that a terminal shows below the steps."""
FOREVER = float("inf")
STATES = {
    "started": "running",
    "finished": "completed",
    "failed": "failed",
    "retrying": "retrying",
    "waiting": "waiting",
    "sleeping": "sleeping",
}
"""What a step does after ``step.started`` and so on."""
QUIET = frozenset({"stream", "progress"})

RUN = argument("run_id", metavar="RUN")
STEP = argument("--step", "of this step", default="")
AFTER = argument("--after", "begin behind event N", type=int, default=0, metavar="N")
MOST = argument("--limit", "maximum number (default: all)", dest="most", type=int, metavar="LIMIT")
KEY = argument("--key", "start it once: the same key returns the run that it has started")
WAIT = flag("--wait", "wait until it has ended, and print its output")


def _start(client: Client, given: Namespace, output: Output) -> int:
    run = client.start(given.workflow, _message(given), key=given.key, callback=callback_of(given))
    return _started(client, run, given, output)


def _message(given: Namespace) -> Any:
    """Return the input: what was given as JSON, with single fields over it."""
    if not given.set:
        return given.input
    if not isinstance(given.input, dict | None):
        raise ValueError("--set needs an --input that is an object")
    return {**(given.input or {}), **dict(given.set)}


def _follow_up(client: Client, given: Namespace, output: Output) -> int:
    return _started(client, client.follow_up(given.run_id, given.message, key=given.key), given, output)


def _started(client: Client, run: RunDetail, given: Namespace, output: Output) -> int:
    if given.wait:
        return _wait(client, Namespace(run_id=run.id, timeout=given.timeout, for_people=False), output)
    output.result(run, run.id)
    return 0


def _wait(client: Client, given: Namespace, output: Output) -> int:
    """Wait for a run, with its progress before people who watch."""
    with output.progress(given.run_id, 1.0, counted=False) as advance:
        looked = (lambda run: advance(*_progress(run))) if output.is_watched else None
        run = client.wait(**vars(given), looked=looked)
    output.fields(run, "id status waiting_for output failure error")
    return UNSUCCESSFUL if run.status in FAILURES else 0


def _progress(run: RunDetail) -> tuple[float, str]:
    """Return how far a run is, from 0 to 1, and what it does."""
    said = [run.workflow, run.status, *run.waiting_for, str(run.progress.get("text") or "")]
    return float(run.progress.get("fraction") or 0), " · ".join(word for word in said if word)


def _logs(client: Client, given: Namespace, output: Output) -> None:
    found = client.all_logs(**vars(given))
    if output.as_json:
        return output.data(list(found))
    for line in found:
        text = "(not for you to read)" if line.text is None else clean(line.text)
        output.line(f"{moment(line.at.isoformat())}  {line.level:<8}  {line.step}  {text}")
    return None


def _values(client: Client, given: Namespace, output: Output) -> int:
    found = client.values(given.run_id, given.part)
    if found.problem and not output.as_json:
        output.note(found.problem)
    elif given.part == PARTS[-1] and not output.as_json:
        output.line(clean(found.value))
    else:
        output.data(found if output.as_json else found.value)
    return CONFLICT if found.problem else 0


def _tag(client: Client, given: Namespace, output: Output) -> None:
    tags = client.tag(**vars(given)) if given.add or given.remove else client.run(given.run_id).tags
    output.result({"tags": tags}, ", ".join(tags) or "(none)")


def _migrate(client: Client, given: Namespace, output: Output) -> None:
    if not given.dry_run:
        done = client.override(given.run_id) if given.override else client.migrate(given.run_id)
        return output.result(done, "Continues with the loaded version of the workflow")
    found = client.graph_change(given.run_id, override=given.override)
    lines = [*found.changes, *found.words] or ["The workflow has not changed since the run started"]
    lines += [f"not possible: {found.refusal}"] * bool(found.refusal)
    return output.result(found, "\n".join(lines))


def _bulk(client: Client, given: Namespace, output: Output) -> int:
    if bool(given.runs) == (given.filter is not None):
        raise ValueError("Name the runs, or use --filter")
    chosen = {"runs": given.runs} if given.runs else {"filter": given.filter}
    shown = client.bulk_preview(given.verb, **chosen)
    unchanged = [f"{one.count} unchanged: {one.why}" for one in shown.stays]
    sentence = "; ".join([f"{given.verb}: {shown.acts} runs", *unchanged])
    if given.dry_run:
        output.result(shown, sentence)
        return 0
    if not given.yes and not (sys.stdin.isatty() and input(f"{sentence}. Continue? [y/N] ").strip().lower() in AGREED):
        output.note("Nothing was changed. Use --yes to do it without a question")
        return FAILED
    done = _finished(client, client.bulk(given.verb, **chosen, add=given.add, remove=given.remove), output)
    output.result(done, f"{done.acted} of {done.runs} runs: {given.verb}")
    for one in done.stayed:
        output.line(f"  unchanged: {one.run} {one.title}: {one.why}")
    return 0


def _finished(client: Client, begun: BulkProgress, output: Output) -> BulkProgress:
    """Return the result once the last run was looked at."""
    with output.progress(begun.verb, begun.runs) as advance:
        while not begun.finished:
            advance(begun.done)
            time.sleep(LOOK_SECONDS)
            begun = client.bulk_progress(begun.id)
    return begun


def _watch(client: Client, given: Namespace, output: Output) -> int:
    """Show a run until it has ended. JSON: one event per line."""
    shown = Watched(client.run(given.run_id))
    live = output.is_terminal and not output.as_json
    asks = live and not given.no_answers and sys.stdin.isatty()
    with _screen(shown) if live else nullcontext(lambda event: _print_event(output, event)) as show:
        for event in client.watch(given.run_id, after=given.after, patience=FOREVER):
            shown.take(event)
            show(event)
            if asks and event.kind.endswith(".opened"):
                _answer(client, str(event.data.get("request", "")), show)
    run = client.run(given.run_id)
    output.line(f"{run.workflow} {run.id}: {run.status}")
    return UNSUCCESSFUL if run.status in FAILURES else 0


def watch_workflow(client: Client, given: Namespace, output: Output) -> None:
    """Print the events of all runs of a workflow until interrupted. JSON: one event per line."""
    after = "" if given.after == "start" else given.after
    for event in client.watch_workflow(given.name, after=after, patience=FOREVER):
        _print_event(output, event, f"{event.run}  ")


class Watched:
    """What is known of a run: its steps in order of their first event, its last events, its open requests."""

    def __init__(self, run: RunDetail) -> None:
        self.run = run
        self.steps: dict[str, str] = {}
        self.last: deque[EventRecord] = deque(maxlen=LAST_EVENTS)
        self.open: dict[str, str] = {}

    def take(self, event: EventRecord) -> None:
        """Add an event."""
        subject, _, verb = event.kind.partition(".")
        if event.step and subject == "step" and verb in STATES:
            self.steps[event.step] = STATES[verb]
        request = str(event.data.get("request", ""))
        if (subject, verb) == ("request", "opened"):
            self.open[request] = str(event.data.get("subject", ""))
        elif subject == "request" and verb in {"answered", "withdrawn"}:
            self.open.pop(request, None)
        if event.kind not in QUIET:
            self.last.append(event)


def _print_event(output: Output, event: EventRecord, run: str = "") -> None:
    if output.as_json:
        sys.stdout.write(escaped(event.model_dump_json()) + "\n")
        sys.stdout.flush()
    elif event.kind not in QUIET:
        output.line(f"{moment(event.at.isoformat())}  {run}{sentence(event)}")


def sentence(event: EventRecord) -> str:
    """Return an event as one line."""
    from checkpoints.events import EventKind

    kind = next((one for one in EventKind if one.value == event.kind), None)
    if kind is None:
        return f"{event.kind} {event.step or ''}".strip()
    known = {"by": "the deadline", "past": f"answered {event.data.get('verdict', '')}".strip(), **event.data}
    return clean(kind.text.format_map(_EventFields({**known, "step": event.step or ""}))).replace("\n", " ")


class _EventFields(dict[str, Any]):
    """Fields of an event; those that may not be read are dots."""

    def __missing__(self, name: str) -> str:
        return "..."


@contextmanager
def _screen(shown: Watched) -> Iterator[Any]:
    """Give a function that draws the run in place, and can pause for a question."""
    from rich.live import Live

    with Live(_drawn(shown), refresh_per_second=8) as live:

        def show(event: EventRecord | None = None, *, pause: bool = False) -> None:
            if pause:
                live.stop()
            else:
                live.start()
                live.update(_drawn(shown))

        yield show


def _drawn(shown: Watched) -> Any:
    from rich.console import Group
    from rich.text import Text

    run = shown.run
    parts = [Text(clean(f"{run.workflow}  {run.title}  {run.id}"), style="bold")]
    parts += [Text(f"  {state:<10} {clean(step)}", style=STYLES.get(state, "")) for step, state in shown.steps.items()]
    parts += [Text(f"  waiting for people: {clean(subject)}", style="yellow") for subject in shown.open.values()]
    parts += [Text(f"{moment(event.at.isoformat())}  {sentence(event)}", style="dim") for event in shown.last]
    return Group(*parts)


def _answer(client: Client, request_id: str, show: Any) -> None:
    """Ask the person at the terminal for the answer to a request, if it is theirs to give."""
    from wfdash.client import ApiError

    try:
        request = client.request(request_id)
        if request.state != "open" or request.refusal:
            return
        show(pause=True)
        prompt_answer(client, request)
    except ApiError as error:
        sys.stderr.write(f"{clean(str(error))}\n")
    finally:
        show()


RUNS = family(
    "runs",
    "list, start, watch and steer runs",
    command(
        "list",
        "list runs, newest first",
        listed("all_runs", "id workflow status created title"),
        words("filter", "same syntax as in the dashboard: workflow:refund status:waiting text"),
        limit(30),
    ),
    command("show", "show a run", call("run", fields(DETAILS)), RUN),
    command(
        "start",
        "start a run",
        _start,
        argument("workflow"),
        INPUT,
        several("--set", "one field of the input", type=field, metavar="NAME=VALUE"),
        KEY,
        CALLBACK,
        WAIT,
        TIMEOUT,
    ),
    command(
        "wait",
        "wait until a run has ended",
        _wait,
        RUN,
        flag("--for-people", "or until a person is needed"),
        TIMEOUT,
    ),
    command(
        "watch",
        "follow a run live: its steps, events and open requests",
        _watch,
        RUN,
        AFTER,
        flag("--no-answers", "do not ask for answers"),
    ),
    command("events", "list the events of a run, in order", call("events", rows("seq at kind step")), RUN, AFTER, MOST),
    command(
        "cancel",
        "cancel a run",
        call(
            "cancel",
            says(lambda _, given: "Will be cancelled after the running step" if given.after_step else "Cancelled"),
        ),
        RUN,
        flag("--after-step", "once the running step has ended"),
    ),
    command(
        "pause",
        "pause a run once its running steps have ended",
        call("pause", says(lambda _, given: "Paused" if given.now else "Will be paused after the running steps")),
        RUN,
        flag("--now", "at once: running steps are interrupted"),
    ),
    command(
        "resume",
        "resume a paused run, or hand a program's own run over to workers",
        call("resume", says("Resumed")),
        RUN,
        flag("--force", "although functions of it still run elsewhere"),
    ),
    command("retry", "retry a failed run from its latest checkpoint", call("retry", says("Retried")), RUN),
    command(
        "answer-again",
        "ask again what a step was answered that failed with it",
        call("answer_again", says("Asked again")),
        RUN,
    ),
    command(
        "follow-up",
        "send a completed run its next message",
        _follow_up,
        RUN,
        argument("message", "JSON, or a text", type=json_or_text),
        KEY,
        WAIT,
        TIMEOUT,
    ),
    command(
        "signal",
        "send a signal into a run",
        call(
            "signal",
            says(lambda sent, _: "Received by a step" if sent.request else "Stored until a step waits for it"),
        ),
        RUN,
        argument("name"),
        argument("value", "JSON; @FILE, @- for standard input", nargs="?", type=json_value),
    ),
    command(
        "delete",
        "delete an ended run with everything it has",
        call("delete_run", says("Deleted", deleted=True)),
        RUN,
    ),
    command(
        "steps",
        "list what a run's steps did, in the order in which they started",
        call("all_steps", rows("step state began ended attempts label")),
        RUN,
        STEP,
        MOST,
    ),
    command(
        "logs",
        "print what a run logged, oldest first",
        _logs,
        RUN,
        argument("text", "lines with this text", nargs="?", default=""),
        STEP,
        argument("--level", "of this level and above", choices=LEVELS, default=""),
        MOST,
    ),
    command(
        "values",
        "print a part of a run's present values as JSON",
        _values,
        RUN,
        argument("part", "default: state", nargs="?", choices=PARTS, default="state"),
    ),
    command(
        "tag",
        "add tags to a run and remove others; without any, print them",
        _tag,
        RUN,
        several("--add", metavar="TAG"),
        several("--remove", metavar="TAG"),
    ),
    command(
        "migrate",
        "continue a held run with the loaded version of its workflow",
        _migrate,
        RUN,
        flag("--override", "without the migration that its author declares"),
        flag("--dry-run", "only say what has changed, and what would happen"),
    ),
    command(
        "bulk",
        "retry, cancel, pause, resume or tag many runs",
        _bulk,
        argument("verb", choices=["retry", "cancel", "pause", "resume", "tag"]),
        argument("runs", nargs="*", metavar="RUN"),
        argument("--filter", "all runs that this filter finds, instead of RUN", metavar="TEXT"),
        several("--add", "with tag: a tag to add", metavar="TAG"),
        several("--remove", "with tag: a tag to remove", metavar="TAG"),
        flag("--dry-run", "only say what would happen"),
        flag("--yes", "do not ask"),
    ),
)
