"""Calls about runs: their steps, log, values and checkpoints; about many at once; and questions to people as runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

from wfdash.client.calls.requests import request
from wfdash.client.errors import NotAllowed, NotAnswered, NotFound, TimedOut
from wfdash.client.script import ReadClock, Script, Sleep
from wfdash.client.sending import Source, delays, follow, get, pages, part, post, tell
from wfdash.questions.card import Given
from wfdash.questions.cards import prepare
from wfdash.records.base import Created
from wfdash.records.checkpoints import (
    CheckpointComparison,
    CheckpointDetail,
    CheckpointPage,
    CheckpointPreview,
    EditableParts,
    ReplayRecord,
)
from wfdash.records.runs import (
    ActivationRecord,
    BulkProgress,
    BulkRehearsal,
    Callback,
    EventRecord,
    GraphChange,
    LogLevel,
    LogLineRecord,
    LogRecordPage,
    RunDetail,
    RunError,
    RunPage,
    RunPart,
    RunSummary,
    SentSignal,
    SignalList,
    StepPage,
    TagList,
    ValueRecord,
)
from wfdash.workflow import Approval, Choice, Policy
from wfdash.workflow.asking import PeopleAnswer, question_of

Verb = Literal["retry", "cancel", "pause", "resume", "tag"]
ENDED = frozenset({"completed", "failed", "cancelled"})
FOREVER = float("inf")
BREATH, LONGEST_BREATH = 0.3, 2.0
"""Seconds between two looks at a run for which the server does not wait: it is paused, say."""
LONGEST_POLL = 50.0
"""Seconds that one request may wait for an answer: proxies tend to end those of a minute."""
OFTEN = 2.0
"""The same where someone watches."""


def start(
    workflow: str,
    message: Any = None,
    *,
    key: str | None = None,
    callback: Callback | None = None,
    patience: float | None = None,
) -> Script[RunDetail]:
    """Start a run. The same ``key`` starts it once, whichever process asks: the run it has started is returned.

    ``callback``: the address that is sent what becomes of the run, signed; ``verify_callback`` checks it there.
    """
    body = {"workflow": workflow, "message": message} | ({"callback": callback.model_dump()} if callback else {})
    made = yield from post("/runs", Created, body, key=key, patience=patience)
    return (yield from run(made.id, patience=patience))


def run(run_id: str, *, wait: float = 0.0, patience: float | None = None) -> Script[RunDetail]:
    """Return a run. ``wait``: seconds, at most 60, that the server waits until it has ended or needs people."""
    return get(f"/runs/{part(run_id)}", RunDetail, wait=int(wait) or None, timeout=wait, patience=patience)


def runs(filter: str = "", *, limit: int = 30, after: str = "") -> Script[RunPage]:  # noqa: A002
    """Return a page of runs, newest first. ``filter``: as on the page, ``workflow:refund status:failed``."""
    return get("/runs", RunPage, q=filter, limit=limit, after=after)


def all_runs(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the runs that a filter finds, newest first, page by page."""
    return pages("/runs", RunSummary, {"q": filter}, most=most)


def wait(
    run_id: str,
    *,
    timeout: float | None = None,
    for_people: bool = False,
    looked: Callable[[RunDetail], object] | None = None,
) -> Script[RunDetail]:
    """Wait until a run has ended and return it; with ``for_people`` until it has ended or a person is needed.

    Survives restarts of the server. ``TimedOut`` after ``timeout`` seconds; None: waits as long as it takes.
    ``looked`` is called with the run as it is, every few seconds: to show its ``progress``.
    """
    end = (yield ReadClock()) + (FOREVER if timeout is None else timeout)
    breaths = delays(BREATH)
    poll = LONGEST_POLL if looked is None else OFTEN
    while True:
        left = max(end - (yield ReadClock()), 0.0)
        found = yield from run(run_id, wait=min(poll, left), patience=max(left, 1.0))
        if looked is not None:
            looked(found)
        if found.status in ENDED or (for_people and found.status == "waiting"):
            return found
        if left <= 0:
            raise TimedOut(f"Run {run_id} has not ended in {timeout:g} s: it is {found.status}")
        began = yield ReadClock()
        yield from _answered(found, min(poll, left), patience=max(left, 1.0))
        if (yield ReadClock()) - began < BREATH:
            yield Sleep(min(next(breaths), LONGEST_BREATH, left))


def _answered(run: RunDetail, seconds: float, *, patience: float) -> Script[None]:
    """Wait until the first open request of a run is answered or closed: the run itself rests until then."""
    asked = next((one.id for one in run.requests if not one.signal), None)
    if asked is None:
        return
    try:
        yield from request(asked, wait=seconds, patience=patience)
    except (NotFound, NotAllowed):
        return


def cancel(run_id: str, *, after_step: bool = False) -> Script[Created]:
    """Cancel a run at once, or once the running step has ended."""
    return post(f"/runs/{part(run_id)}/cancel", Created, after_step=after_step or None)


def pause(run_id: str, *, now: bool = False) -> Script[Created]:
    """Pause a run once the running steps have ended, or ``now``, which interrupts them."""
    return post(f"/runs/{part(run_id)}/pause", Created, now=now or None)


def resume(run_id: str, *, force: bool = False) -> Script[Created]:
    """Resume a paused run, or hand the own run of a program (``driver``) over to workers."""
    return post(f"/runs/{part(run_id)}/resume", Created, force=force or None)


def retry(run_id: str) -> Script[Created]:
    """Retry a failed run from its latest checkpoint."""
    return post(f"/runs/{part(run_id)}/retry", Created)


def answer_again(run_id: str) -> Script[Created]:
    """Ask again what a run was answered last, if the step that asked has failed. ``WrongState`` if it has not."""
    return post(f"/runs/{part(run_id)}/answer-again", Created)


def delete_run(run_id: str) -> Script[None]:
    """Delete an ended run with everything it has."""
    return tell("DELETE", f"/runs/{part(run_id)}")


def follow_up(run_id: str, message: Any, *, key: str | None = None) -> Script[RunDetail]:
    """Follow up on a completed run: start the run that continues from its end with this message, and return it.

    The same ``key`` starts it once. ``WrongState`` while the run has not completed; ``AlreadyFollowed``
    says which run follows it already, and who started that.
    """
    made = yield from post(f"/runs/{part(run_id)}/follow-up", Created, {"message": message}, key=key)
    return (yield from run(made.id))


def signal(run_id: str, name: str, value: Any = None, *, key: str | None = None) -> Script[SentSignal]:
    """Send a signal into a run."""
    return post(f"/runs/{part(run_id)}/signals", SentSignal, {"name": name, "value": value}, key=key)


def signals(run_id: str) -> Script[SignalList]:
    """Return the signals that a run waits for, and those it has stored."""
    return get(f"/runs/{part(run_id)}/signals", SignalList)


def events(run_id: str, *, after: int = 0, most: int | None = None) -> Script[None]:
    """Emit a run's events that have happened, in order."""
    query = {"after": str(after) if after else ""}
    return pages(f"/runs/{part(run_id)}/events", EventRecord, query, most=most, limit=500)


def watch(run_id: str, *, after: int = 0, patience: float | None = None) -> Script[None]:
    """Emit a run's events as they happen, each once and in order, until the run has ended.

    Begins with those that have happened (``after``: behind this ``seq``), and survives restarts of the server.
    """
    source = Source(path=f"/runs/{part(run_id)}/events", record=EventRecord)
    return follow(source, str(after) if after else "", patience=patience)


def bulk(
    verb: Verb,
    *,
    runs: Sequence[str] = (),
    filter: str | None = None,  # noqa: A002
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> Script[BulkProgress]:
    """Do the same to many runs, named by id or found by a filter. Ask ``bulk_progress`` how far it is."""
    body = _bulk(verb, runs, filter, add, remove)
    return post("/runs/bulk", BulkProgress, body)


def bulk_preview(
    verb: Verb,
    *,
    runs: Sequence[str] = (),
    filter: str | None = None,  # noqa: A002
) -> Script[BulkRehearsal]:
    """Return what ``bulk`` would do. Changes nothing."""
    body = _bulk(verb, runs, filter, (), ()) | {"dry_run": True}
    return post("/runs/bulk", BulkRehearsal, body)


def bulk_progress(bulk_id: str) -> Script[BulkProgress]:
    """Return how far a bulk operation is."""
    return get(f"/bulk/{part(bulk_id)}", BulkProgress)


def _bulk(
    verb: Verb, runs: Sequence[str], text: str | None, add: Sequence[str], remove: Sequence[str]
) -> dict[str, Any]:
    chosen = {"runs": list(runs)} if text is None else {"q": text, "all": True}
    return {"verb": verb, **chosen, "add": list(add), "remove": list(remove)}


# Calls about the parts of a run: its steps, log, values and tags; and about a run whose workflow has changed.


def steps(run_id: str, *, step: str = "", state: str = "", limit: int = 100, after: str = "") -> Script[StepPage]:
    """Return a page of the executions of a run's steps, or of one step, in the order in which they started."""
    query: dict[str, Any] = {"step": step, "state": state, "limit": limit, "after": after}
    return get(f"/runs/{part(run_id)}/steps", StepPage, **query)


def all_steps(run_id: str, *, step: str = "", state: str = "", most: int | None = None) -> Script[None]:
    """Emit the executions of a run's steps, page by page."""
    query = {"step": step, "state": state}
    return pages(f"/runs/{part(run_id)}/steps", ActivationRecord, query, most=most)


def logs(
    run_id: str,
    *,
    text: str = "",
    step: str = "",
    activation: str = "",
    level: Literal["", LogLevel] = "",
    limit: int = 300,
    after: str = "",
) -> Script[LogRecordPage]:
    """Return a page of what a run logged, oldest first. ``level``: of this level and above.

    ``next`` of the last page is where what is logged later will begin.
    """
    query: dict[str, Any] = {
        "q": text,
        "step": step,
        "activation": activation,
        "level": level,
        "limit": limit,
        "after": after,
    }
    return get(f"/runs/{part(run_id)}/logs", LogRecordPage, **query)


def all_logs(
    run_id: str, *, text: str = "", step: str = "", level: Literal["", LogLevel] = "", most: int | None = None
) -> Script[None]:
    """Emit what a run has logged, page by page."""
    query = {"q": text, "step": step, "level": level}
    return pages(f"/runs/{part(run_id)}/logs", LogLineRecord, query, most=most, limit=300)


def values(run_id: str, of: RunPart = "state") -> Script[ValueRecord]:
    """Return a part of a run's present values. ``NotAllowed`` for people who may not inspect them."""
    return get(f"/runs/{part(run_id)}/values/{part(of)}", ValueRecord)


def tag(run_id: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Script[list[str]]:
    """Add tags to a run and remove others. Returns the tags that it has then."""
    body = {"add": list(add), "remove": list(remove)}
    return (yield from post(f"/runs/{part(run_id)}/tags", TagList, body)).tags


def graph_change(run_id: str, *, override: bool = False) -> Script[GraphChange]:
    """Return what has changed in the workflow since a run started, and what migrating the run would do.

    ``override``: what continuing without a declared migration would do.
    """
    return get(f"/runs/{part(run_id)}/skew", GraphChange, override=override or None)


def migrate(run_id: str) -> Script[Created]:
    """Migrate a run to the loaded graph as its author declared. ``Conflict`` with the reason if that cannot be."""
    return post(f"/runs/{part(run_id)}/migrate", Created)


def override(run_id: str) -> Script[Created]:
    """Resume a run under the loaded graph without a declared migration. ``Conflict`` if it is not valid there."""
    return post(f"/runs/{part(run_id)}/override", Created)


# Calls about checkpoints: look at them, compare, restore, fork.

Edits = dict[str, Any]
"""``state``, ``messages``, ``answers`` and ``reason``, as docs/time-machine.md describes them."""


def checkpoints(run_id: str, *, limit: int = 50, after: str = "") -> Script[CheckpointPage]:
    """Return a page of a run's checkpoints, newest first, without their content."""
    return get(f"/runs/{part(run_id)}/checkpoints", CheckpointPage, limit=limit, after=after)


def checkpoint(run_id: str, checkpoint_id: str) -> Script[CheckpointDetail]:
    """Return a checkpoint with its content."""
    return get(_at(run_id, checkpoint_id), CheckpointDetail)


def compare(run_id: str, a: str, b: str) -> Script[CheckpointComparison]:
    """Return the differences from checkpoint ``a`` to ``b``: each a number in this run, or any checkpoint's id."""
    return get(f"/runs/{part(run_id)}/compare", CheckpointComparison, a=a, b=b)


def preview(
    run_id: str, checkpoint_id: str, *, verb: Literal["restore", "fork"] = "restore", edits: Edits | None = None
) -> Script[CheckpointPreview]:
    """Return what restoring or forking would do. Changes nothing. ``mark`` in it is what ``seen`` takes."""
    body = {"verb": verb, "edits": edits}
    return post(f"{_at(run_id, checkpoint_id)}/preview", CheckpointPreview, body)


def editable(run_id: str, checkpoint_id: str) -> Script[EditableParts]:
    """Return what ``edits`` may change of a checkpoint: state, messages in progress, requests; or why nothing may."""
    return get(f"{_at(run_id, checkpoint_id)}/edits", EditableParts)


def replay(run_id: str, seq: int) -> Script[ReplayRecord]:
    """Return a run as it was after event ``seq``. Nothing runs."""
    return get(f"/runs/{part(run_id)}/at/{part(seq)}", ReplayRecord)


def restore(run_id: str, checkpoint_id: str, *, edits: Edits | None = None, seen: str = "") -> Script[Created]:
    """Make a checkpoint the run's head again, and continue the run from there. Returns the new head.

    No one has to resume it: where a question was open, it is open again and the run waits for its answer.
    """
    body = {"edits": edits, "seen": seen}
    return post(f"{_at(run_id, checkpoint_id)}/restore", Created, body)


def fork(run_id: str, checkpoint_id: str, *, edits: Edits | None = None, seen: str = "") -> Script[Created]:
    """Start a new run from a checkpoint and return its id."""
    body = {"edits": edits, "seen": seen}
    return post(f"{_at(run_id, checkpoint_id)}/fork", Created, body)


def label(run_id: str, checkpoint_id: str, text: str) -> Script[Created]:
    """Set a checkpoint's label, or remove it with an empty one."""
    return post(f"{_at(run_id, checkpoint_id)}/label", Created, {"label": text})


def delete_checkpoint(run_id: str, checkpoint_id: str) -> Script[None]:
    """Delete a checkpoint that is not needed."""
    return tell("DELETE", _at(run_id, checkpoint_id))


def _at(run_id: str, checkpoint_id: str) -> str:
    return f"/runs/{part(run_id)}/checkpoints/{part(checkpoint_id)}"


# Questions of a program to people: each is a run of ``ask_people``, its answer typed as it was asked for.

WORKFLOW = "ask_people"
FOREVER = float("inf")
MISSING = "{detail}. To ask people, an installation needs the workflow ask_people, and you the right to start it"


class QuestionTerms(TypedDict, total=False):
    """How a question is asked. ``by``, ``not_by``, ``due`` and ``policy`` as in ``ctx.ask``.

    ``ref``: your own name for the question. The same ref finds the same question again, after a restart or from another
    process; each person who asks has refs of their own. ``callback``: where the answer is delivered besides, once it is
    there; ``verify_callback`` reads it.
    """

    by: str | Sequence[str]
    not_by: str | Sequence[str]
    due: str | datetime | None
    policy: Policy | None
    ref: str | None
    callback: Callback | None


class Terms(QuestionTerms, total=False):
    """How a question is asked and waited for. ``timeout``: seconds after which ``TimedOut`` is raised; the question
    stays open.
    """

    timeout: float | None


def open_question(card: Any, answer: Any = None, **terms: Unpack[QuestionTerms]) -> Script[RunDetail]:
    """Ask people, and return the run that waits for their answer: ``ask`` with the same ``ref`` waits for it.

    ``card`` and ``answer`` as in ``ask``.
    """
    return (yield from _opened(*card_of(card, answer), patience=None, **terms))


def asked(
    card: Any, answer: Any = None, *, timeout: float | None = None, **terms: Unpack[QuestionTerms]
) -> Script[Any]:
    """Open the question unless it is known by its ref, wait, and return the answer."""
    card, answer = card_of(card, answer)
    run = yield from _opened(card, answer, patience=FOREVER if timeout is None else timeout, **terms)
    ended = yield from wait(run.id, timeout=timeout)
    if ended.status != "completed":
        raise NotAnswered(_why(ended.status, ended.error, ended.id), run=ended.id, status=ended.status)
    return read_answer(card, answer, PeopleAnswer.model_validate(ended.output or {}))


def _opened(
    card: Any,
    answer: Any,
    *,
    patience: float | None,
    ref: str | None = None,
    callback: Callback | None = None,
    **terms: Any,
) -> Script[RunDetail]:
    question = question_of(card, answer, **terms)
    key = f"ask:{ref}" if ref else None
    try:
        return (yield from start(WORKFLOW, question, key=key, callback=callback, patience=patience))
    except (NotFound, NotAllowed) as error:
        error.detail = MISSING.format(detail=error.detail.rstrip("."))
        raise


def card_of(card: Any, answer: Any) -> tuple[Any, Any]:
    """Return card and answer, for a subject with what it may be answered with."""
    if isinstance(card, str) and isinstance(answer, type) and issubclass(answer, Approval):
        return answer(subject=card), None
    if isinstance(card, str) and isinstance(answer, list):
        return Choice(subject=card, options=answer), None
    return card, answer


def read_answer(card: Any, answer: Any, given: PeopleAnswer) -> Any:
    """Return what people answered as what the question asks for; a decision with who gave it and when."""
    value = prepare(card, answer).read(given.value, None)
    if isinstance(value, Given):
        return value.model_copy(update={"by": given.by, "at": given.at, "lapsed": given.lapsed})
    return value


def _why(status: str, error: RunError | None, run: str) -> str:
    reason = error.message if error else ""
    return f"The question ended without an answer: its run {run} is {status}" + (f" ({reason})" if reason else "")
