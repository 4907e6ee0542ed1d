"""``wfdash runs watch``: a run as it happens, and its open requests to answer. ``wfdash workflows watch``: all runs."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from checkpoints.events import EventKind
from wfdash.cli.api.answers import prompt_answer
from wfdash.cli.api.output import STYLES, Output, clean, moment
from wfdash.domain.invisible import escaped

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.runs import EventRecord, RunDetail

LAST = 12
"""Events that a terminal shows below the steps."""
FOREVER = float("inf")
STATES: dict[str, str] = {
    EventKind.STEP_STARTED: "running",
    EventKind.STEP_FINISHED: "completed",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_RETRYING: "retrying",
    EventKind.STEP_WAITING: "waiting",
    EventKind.STEP_SLEEPING: "sleeping",
}
QUIET = frozenset({"stream", "progress"})


def watch(client: Client, run_id: str, output: Output, *, after: int = 0, answers: bool = True) -> RunDetail:
    """Show a run until it has ended, and return it. JSON: one event per line."""
    shown = Watched(client.run(run_id))
    live = output.is_terminal and not output.as_json
    asks = live and answers and sys.stdin.isatty()
    with _screen(shown) if live else nullcontext(_printer(output)) as show:
        for event in client.watch(run_id, after=after, patience=FOREVER):
            shown.take(event)
            show(event)
            if asks and event.kind == EventKind.REQUEST_OPENED:
                _answer(client, shown, show, str(event.data.get("request", "")))
    run = client.run(run_id)
    output.line(f"{run.workflow} {run.id}: {run.status}")
    return run


def watch_workflow(client: Client, name: str, output: Output, *, after: str) -> None:
    """Print the events of all runs of a workflow until interrupted. JSON: one event per line."""
    for event in client.watch_workflow(name, after=after, patience=FOREVER):
        _print(output, event, f"{event.run}  ")


class Watched:
    """What is known of a run: its steps in order of their first event, its last events, its open requests."""

    def __init__(self, run: RunDetail) -> None:
        self.run = run
        self.steps: dict[str, str] = {}
        self.last: deque[EventRecord] = deque(maxlen=LAST)
        self.open: dict[str, str] = {}

    def take(self, event: EventRecord) -> None:
        """Add an event."""
        if event.step and event.kind in STATES:
            self.steps[event.step] = STATES[event.kind]
        request = str(event.data.get("request", ""))
        if event.kind == EventKind.REQUEST_OPENED:
            self.open[request] = str(event.data.get("subject", ""))
        elif event.kind in {EventKind.REQUEST_ANSWERED, EventKind.REQUEST_WITHDRAWN}:
            self.open.pop(request, None)
        if event.kind not in QUIET:
            self.last.append(event)


def sentence(event: EventRecord) -> str:
    """Return an event as one line."""
    from checkpoints.events import EventKind

    kind = next((one for one in EventKind if one.value == event.kind), None)
    if kind is None:
        return f"{event.kind} {event.step or ''}".strip()
    known = {"by": "the deadline", "past": f"answered {event.data.get('verdict', '')}".strip(), **event.data}
    return clean(kind.text.format_map(_EventFields({**known, "step": event.step or ""}))).replace("\n", " ")


class _EventFields(dict[str, Any]):
    """Fields of an event; those that one may not read are dots."""

    def __missing__(self, name: str) -> str:
        return "..."


def _printer(output: Output) -> Any:
    return lambda event: _print(output, event)


def _print(output: Output, event: EventRecord, run: str = "") -> None:
    if output.as_json:
        sys.stdout.write(escaped(event.model_dump_json()) + "\n")
        sys.stdout.flush()
    elif event.kind not in QUIET:
        output.line(f"{moment(event.at.isoformat())}  {run}{sentence(event)}")


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


def _answer(client: Client, shown: Watched, show: Any, request_id: str) -> None:
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
