"""The header of all pages of a run: its status as text, the tabs, and addresses that keep the current view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from checkpoints.events import EventKind
from checkpoints.records import SIGNAL, frozen
from wfdash.access.directory import unknown_in
from wfdash.access.viewer import EVERY, Viewer
from wfdash.contract import DEFAULT_QUEUE
from wfdash.domain.labels import in_words
from wfdash.engines.catalog import limit_of, queue_of
from wfdash.installation.keep_rules import days_text
from wfdash.queries.hooks import callback_of
from wfdash.queries.requests.inbox import RequestRow, request_to_answer, requests_of
from wfdash.queries.runs.listing import RunView
from wfdash.queries.runs.logs import Intervention, course_changes
from wfdash.queries.runs.retention import REASONS
from wfdash.queries.runs.versions import graph_difference
from wfdash.queries.schedules import schedule_of
from wfdash.queries.statistics.figures import LEAST_STUCK, silences
from wfdash.records.runs import RemovalRecord, RunError
from wfdash.web.pages.runs import actions
from wfdash.web.pages.ui.event_text import STATUS_TEXTS, step_label
from wfdash.web.pages.ui.fragments import guide
from wfdash.web.pages.ui.source_lines import linked_trace
from wfdash.web.pages.ui.times import duration, number, relative, since

# A run's status at the top of its page: sentences with times that the browser keeps current. Pure.

MOST_NAMES = 3
BLOCKS = frozenset({EventKind.STEP_BLOCKING, EventKind.STEP_BLOCKED})
Busy = Mapping[str, datetime]
"""Step -> since when it runs."""
NOTHING: Busy = MappingProxyType({})
MOST_LINES, MOST_LETTERS = 4, 280
"""Of an error's message, before the rest of it is folded."""


@frozen
class SentencePart:
    """A part of a sentence: text, or a time. ``since``: shown as a duration; ``due``: red once it has passed.

    ``own``: the author's words, which may be of another direction of writing.
    """

    text: str = ""
    own: bool = False
    at: datetime | None = None
    since: bool = False
    due: bool = False


Sentence = tuple[SentencePart, ...]


def status_sentence(
    run: RunView,
    asked: Sequence[RequestRow] = (),
    course: Sequence[Intervention] = (),
    busy: Busy = NOTHING,
) -> Sentence:
    """Return what it does, what or whom it waits for, since when, until when; or how it ended.

    ``asked``: its requests; ``course``: what changed its course; ``busy``: the running steps, with when each started.
    """
    if run.awaits_program:
        return _sentence("Run by the program that started it: no worker takes it until it is handed over")
    if run.pending == "limit":
        limit = limit_of(run.workflow)
        return _sentence(f"Waiting for a free place: {limit} of {limit} runs of this workflow execute")
    if run.pending == "version":
        which = f"version {run.version[:8]} of this workflow"
        return _sentence(
            f"Waiting for a worker with {which}: none that is running has it. It is held in about a minute"
        )
    if run.pending:
        queue = queue_of(run.workflow)
        where = "" if queue == DEFAULT_QUEUE else f" of queue {queue}"
        return _sentence(f"Waiting for a worker{where}: none that is running serves this workflow")
    sentence = SENTENCES.get(run.status.value)
    return sentence(run, asked, course, busy) if sentence else _sentence(STATUS_TEXTS[run.status.value])


def plain(sentence: Iterable[SentencePart], now: datetime) -> str:
    """Return a sentence as plain text, for where no browser keeps it current."""
    return "".join(part.text or (since if part.since else relative)(part.at or now, now) for part in sentence)


def _sentence(*texts: str | SentencePart) -> Sentence:
    return tuple(text if isinstance(text, SentencePart) else SentencePart(text=text) for text in texts if text)


def removal_sentence(removal: RemovalRecord, now: datetime) -> Sentence:
    """Return when a run goes by its age, or what keeps it, with the rule."""
    if removal.at is None:
        return _sentence("Always kept, by the rule of its workflow")
    rule = f" (rule: {days_text(removal.days)})"
    if removal.kept_by:
        return _sentence(f"Kept by {' and '.join(REASONS[name] for name in removal.kept_by)}{rule}")
    if removal.at <= now:
        return _sentence(f"About to be removed{rule}")
    return _sentence("Will be removed ", SentencePart(at=removal.at), rule)


def _waiting(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    waiting = [row for row in asked if row.open]
    settling = [row.settles for row in asked if row.settles and row.answered is None and not row.closed_as]
    if not waiting:
        decided = _sentence("Decided; applied ", SentencePart(at=min(settling))) if settling else _sentence("Waiting")
        return decided + _timer(run)
    begun = SentencePart(at=min(row.created for row in waiting), since=True)
    names = dict.fromkeys(name for row in waiting for name in ([row.assignee] if row.assignee else row.by))
    does = "No one can answer: waiting" if any(row.stuck for row in waiting) else "Waiting"
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    if run.signal and waiting[0].kind == SIGNAL:
        sentence = _sentence(f"Waiting for signal {run.signal!r}{more} for ", begun)
    else:
        whom = in_words([*names], most=MOST_NAMES) or "an answer"
        subject = SentencePart(text=waiting[0].subject, own=True)
        sentence = _sentence(f"{does} for {whom} for ", begun, ": “", subject, f"”{more}")
    dues = [row.due for row in waiting if row.due]
    return sentence + (_sentence(", due ", SentencePart(at=min(dues), due=True)) if dues else ()) + _timer(run)


def _timer(run: RunView) -> Sentence:
    return _sentence("; another step resumes ", SentencePart(at=run.wake_at)) if run.wake_at else ()


def _sleeping(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    step = f" in {step_label(run.step, run.workflow)}" if run.step else ""
    return (
        _sentence(f"Sleeping{step}, wakes ", SentencePart(at=run.wake_at))
        if run.wake_at
        else _sentence(f"Sleeping{step}")
    )


def _retrying(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    which = run.retry or {}
    attempt = f": attempt {which['attempt']} of {which['attempts']} " if which.get("attempts") else ", again "
    step = f"Retrying {step_label(run.step, run.workflow)}" if run.step else "Retrying a failed step"
    return (
        _sentence(f"{step}{attempt}", SentencePart(at=run.wake_at))
        if run.wake_at
        else _sentence(f"{step}{attempt}soon")
    )


def _failed(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    error = run.error or RunError()
    at = _last_at(course, EventKind.RUN_FAILED) or run.finished or run.updated
    place = f" in {step_label(error.step, run.workflow)}" if error.step else ""
    return _sentence("Failed ", SentencePart(at=at), place)


def _running(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    names = in_words([step_label(step, run.workflow) for step in busy], most=MOST_NAMES)
    ending = _asked(course)
    text = f"Running {names}, for " if names else "Running for "
    doing = _sentence(text, SentencePart(at=min(busy.values(), default=run.created), since=True), f".{ending}")
    return doing + _blocking(course)


def _silence(run: RunView, now: datetime) -> Sentence:
    """Return that a step went silent, by the measure of *Stuck*, and what helps (two queries, if it was for long)."""
    if run.status != "running" or now - run.updated <= LEAST_STUCK:
        return ()
    since, usual = silences({run.id: run.workflow}, now).get(run.id, (None, 0.0))
    if since is None:
        return ()
    often = f", steps of this workflow take {duration(usual)}" if usual else ""
    remedy = "Pause it now and resume it" if run.operate else "Ask an operator"
    heard = SentencePart(at=since, since=True)
    return _sentence(" No sign of life for ", heard, f"{often}. {remedy} to begin the step again.")


def _asked(course: Sequence[Intervention]) -> str:
    """Return what will happen once the running step has ended."""
    last = next((change.kind for change in reversed(course) if change.kind.startswith("run.")), "")
    texts: Mapping[str, str] = {EventKind.RUN_ENDING: "is cancelled", EventKind.RUN_PAUSING: "pauses"}
    return f" It {texts[last]} after the running steps." if last in texts else ""


def _blocking(course: Sequence[Intervention]) -> Sentence:
    """Return the sentence about a step that blocks its worker now."""
    last = next((change for change in reversed(course) if change.kind in BLOCKS), None)
    if last is None or last.kind != EventKind.STEP_BLOCKING:
        return ()
    place = f" ({last.data['where']})" if last.data.get("where") else ""
    text = f" {step_label(last.step or '')}{place} has been blocking its worker for "
    return _sentence(text, SentencePart(at=last.at, since=True), ". No other run can continue on that worker.")


def _stopped(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    status = run.status.value
    at = _last_at(course, f"run.{status}")
    by = f" by {run.acted_by}" if run.acted_by else ""
    later = ". Answers are kept." if status == "paused" else ""
    later += f". One of its functions is still running in worker {run.worker}" if run.lingers else ""
    return _sentence(f"{status.capitalize()}{by} ", SentencePart(at=at or run.updated), later)


def _completed(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    if run.finished is None:
        return _sentence("Completed")
    return _sentence("Completed ", SentencePart(at=run.finished), f" in {duration(run.lasted)}")


def _queued(run: RunView, asked: Sequence[RequestRow], course: Sequence[Intervention], busy: Busy) -> Sentence:
    sentence = _sentence("Queued for ", SentencePart(at=run.updated, since=True))
    if run.lingers:
        return sentence + _sentence(f": starts once its previous attempt in worker {run.worker} has ended")
    return sentence


SENTENCES = {
    "waiting": _waiting,
    "sleeping": _sleeping,
    "retrying": _retrying,
    "failed": _failed,
    "running": _running,
    "paused": _stopped,
    "cancelled": _stopped,
    "completed": _completed,
    "queued": _queued,
}
ALTERED: Mapping[str, str] = {
    EventKind.RUN_RESTORED: "Restored from an earlier checkpoint by {by} ",
    EventKind.RUN_EDITED: "Edited by {by} ",
    EventKind.RUN_OVERRIDDEN: "Continued on a new version by {by} ",
}


def intervention_sentences(course: Iterable[Intervention], altered: str = "") -> tuple[tuple[int, Sentence], ...]:
    """Return the permanent marks of how people changed the run's course: (seq of the event, sentence).

    ``altered``: everything that was done to it, comma-separated; what has no event in this run was done before a fork
    (0).
    """
    sentences: list[tuple[int, Sentence]] = []
    seen = {change.kind.removeprefix("run.") for change in course}
    if before := [word for word in altered.split(",") if word and word not in seen]:
        sentences.append((0, _sentence(f"Forked from a run that was {in_words(before, most=MOST_NAMES)}")))
    for change in course:
        if change.kind in ALTERED:
            words = ALTERED[change.kind].format(by=change.by or "someone")
            n = f", as checkpoint {change.data['n']}" if change.data.get("n") else ""
            sentences.append((change.seq, _sentence(words, SentencePart(at=change.at), n)))
    return tuple(sentences)


def _last_at(course: Sequence[Intervention], kind: str) -> datetime | None:
    return next((change.at for change in reversed(course) if change.kind == kind), None)


DRIVEN = frozenset({"running"})
PASSING = ("fragment", "before", "after", "seq", "older")
"""Parameters of an address that are not kept when another one changes."""


def tabs(run: RunView, here: str) -> tuple[tuple[str, str, str, str, bool], ...]:
    """Return the pages of a run: (name, label, address, count, whether this is it)."""
    pages = (
        ("run", "Overview", "run", ""),
        ("events", "Events", "run-events", number(run.seq)),
        ("logs", "Log", "run-logs", ""),
        ("state", "State", "run-state", ""),
        ("history", "History", "run-history", number(run.n)),
    )
    return tuple(
        (name, label, reverse(f"wfdash:{url}", args=[run.id]), count, name == here) for name, label, url, count in pages
    )


def head(
    viewer: Viewer,
    run: RunView,
    here: str,
    asked: Sequence[Any] = (),
    busy: Busy = NOTHING,
) -> dict[str, Any]:
    """Return the context of ``runs/header/header.html``. ``asked``: its requests, where the page has read them."""
    course = course_changes(run.id)
    waits = run.status == "waiting" and not asked
    requests = requests_of(viewer, run.id) if waits else asked
    buttons = actions.action_buttons(run)
    asks = any(row.open for row in requests)
    trace, message = (run.error.traceback, run.error.message) if run.error else ("", "")
    now, stranded = timezone.now(), [row for row in requests if row.open and row.stuck]
    lead = actions.next_action(run, buttons, request_to_answer(viewer, run.id) if asks else "")
    return {
        "run": run,
        "lead": lead,
        "where": status_sentence(run, requests, course, busy) + _silence(run, now),
        "stranded": stranded[:1],
        "missing": unknown_in(stranded[0].by) if stranded and viewer.may("admin", EVERY) else (),
        "marks": intervention_sentences(course, run.altered),
        "hint": hint(run.error, reloads=settings.WFDASH_RELOAD) if run.error else "",
        "guide": guide(*section_about(run.error)) if run.error else "",
        "long_error": len(message) > MOST_LETTERS or message.count("\n") >= MOST_LINES,
        "trace": linked_trace(viewer, run.workflow, trace) if trace else [],
        "verbs": [button for button in buttons if not lead or button.verb.name != lead.verb.name],
        "behind": graph_difference(run),
        "schedule": schedule_of(viewer, run.id),
        "removal": removal_sentence(run.removal, now) if run.removal else (),
        "callback": callback_of(viewer, run.id, run.workflow),
        "tabs": tabs(run, here),
    }


def address(request: HttpRequest, **changes: str) -> str:
    """Return the current page's query with parts of it changed, removed where empty; ``?`` alone for none."""
    query = request.GET.copy()
    for name in (*PASSING, *changes):
        query.pop(name, None)
    for name, value in changes.items():
        if value:
            query[name] = value
    return f"?{query.urlencode()}"


# Hints for a failed run: by the class of its error, or general ones. Pure.

HINTS: dict[str, str] = {
    "InvalidWorkflow": "The workflow is inconsistent; the message names the steps. Fix the code, then retry.",
    "NotStorable": (
        "A value cannot be stored without loss. Return a storable type (JSON, dataclass, pydantic model, "
        "datetime, Decimal) or declare how to store it, then retry."
    ),
    "WrongType": (
        "A step or an answer returned a value its type does not allow. Fix the step or its annotation and "
        "retry; if a stored value is wrong, fork with edits."
    ),
    "StateConflict": (
        "Two parallel steps wrote the same state key. Declare a reducer for it or make one step wait for the "
        "other, then retry."
    ),
    "ReplayMismatch": (
        "The step's code no longer matches what it recorded. Restore the old code and retry, or restore a "
        "checkpoint from before the step."
    ),
    "StepTimeout": (
        "The step exceeded its timeout. Retry if the delay was temporary; otherwise raise the timeout or "
        "split the step."
    ),
    "Runaway": (
        "A loop ran many times without an answer from a person. If intended, raise max_steps; otherwise fix "
        "its exit condition and restore a checkpoint from before the loop."
    ),
    "CallStopped": (
        "The outcome of a call was unknown and a person stopped the run. Check the external system, then "
        "fork with edits or restore a checkpoint from before the call."
    ),
    "CallFailed": "A recorded call raised an exception whose class no longer exists. Restore the class, or restore a "
    "checkpoint from before the call.",
    "Damaged": "A checkpoint is damaged. Restore an earlier checkpoint that is not marked as damaged.",
    "Locked": "Stored data is encrypted with a key this server does not have. Add it to WFDASH_ENCRYPTION_KEYS.",
    "NotEncrypted": (
        "Stored data was not written with your keys. If it predates encryption, add plain to "
        "WFDASH_ENCRYPTION_KEYS, run rotate_keys and remove plain again; otherwise restore it from a backup."
    ),
    "Incompatible": "The workflow changed and no migration is defined. Migrate the run or run the old code.",
    "ValidationError": (
        "A value does not match its model; the message names the field. If the input is wrong, fork with an "
        "edited input."
    ),
    "KeyError": "A lookup failed. Check the input of the step, then fork with edits.",
    "ModuleNotFoundError": "A package is missing. Install it in the worker's environment, then retry.",
    "ImportError": "The workflow's code could not be loaded. See the workflow's page, fix it, then retry.",
    "PermissionError": "The worker lacks permission. Fix its permissions, then retry.",
    "MemoryError": "The worker ran out of memory. Add memory or split the work into smaller pieces, then retry.",
}
SECTIONS: dict[str, tuple[str, str]] = {
    "NotStorable": ("steps", "what-can-be-stored"),
    "ReplayMismatch": ("workflows", "when-a-question-changes"),
    "Incompatible": ("versions", "a-run-that-is-held"),
    "Damaged": ("checkpointing", "recovery"),
    "Locked": ("encryption", "keys"),
    "NotEncrypted": ("encryption", "keys"),
    "ImportError": ("projects", "while-you-write"),
    "ModuleNotFoundError": ("projects", "while-you-write"),
}
"""Page and section of the documentation about an error."""
ERRORS = ("steps", "what-can-go-wrong")
TIMEOUTS = ("Timeout", "TimedOut")
NETWORK = ("Connection", "Connect", "SSL", "Network", "gaierror", "HTTPError", "Unreachable", "RemoteProtocol")
TRANSIENT = "The external service did not respond. Retry; consider a Retry policy for this step."
ANY = (
    "Retry runs only failed and interrupted steps; recorded calls are not repeated. If the input or state is "
    "wrong, fork with edits. "
)
CHANGED = "If you changed the code, restart the worker first."
SAVED = "If the code is wrong, save the file, then retry."
"""Where files are read again when they change."""


def hint(error: RunError | None, *, reloads: bool = False) -> str:
    """Return what usually helps with an error, as one or two sentences; never empty. ``reloads``: whether the process
    that executes the run reads files again when they change.
    """
    kind = _class_of(error)
    if kind in HINTS:
        return HINTS[kind]
    if any(part in kind for part in (*TIMEOUTS, *NETWORK)):
        return TRANSIENT
    return ANY + (SAVED if reloads else CHANGED)


def section_about(error: RunError | None) -> tuple[str, str]:
    """Return page and section of the documentation that an error is explained in."""
    return SECTIONS.get(_class_of(error), ERRORS)


def _class_of(error: RunError | None) -> str:
    return error.type.rpartition(".")[2] if error else ""
