"""Calls about runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from wfdash.client.calls.paging import pages
from wfdash.client.calls.requests import request
from wfdash.client.errors import NotAllowed, NotFound, TimedOut
from wfdash.client.script import ReadClock, Script, Sleep
from wfdash.client.sending import ROOT, delays, get, part, post
from wfdash.client.sending import delete as remove
from wfdash.client.streams import Source, follow
from wfdash.records.base import Created
from wfdash.records.bulk import BulkProgress, BulkRehearsal
from wfdash.records.runs import Callback, EventRecord, RunDetail, RunPage, RunSummary, SentSignal, SignalList

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
    made = yield from post("/runs", body, key=key, patience=patience)
    return (yield from run(str(made["id"]), patience=patience))


def run(run_id: str, *, wait: float = 0.0, patience: float | None = None) -> Script[RunDetail]:
    """Return a run. ``wait``: seconds, at most 60, that the server waits until it has ended or needs people."""
    found = yield from get(f"/runs/{part(run_id)}", wait=int(wait) or None, timeout=wait, patience=patience)
    return RunDetail.model_validate(found)


def runs(filter: str = "", *, limit: int = 30, after: str = "") -> Script[RunPage]:  # noqa: A002
    """Return a page of runs, newest first. ``filter``: as on the page, ``workflow:refund status:failed``."""
    return RunPage.model_validate((yield from get("/runs", q=filter, limit=limit, after=after)))


def all_runs(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the runs that a filter finds, newest first, page by page."""
    yield from pages("/runs", RunSummary.model_validate, {"q": filter}, most=most)


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
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/cancel", after_step=after_step or None)))


def pause(run_id: str, *, now: bool = False) -> Script[Created]:
    """Pause a run once the running steps have ended, or ``now``, which interrupts them."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/pause", now=now or None)))


def resume(run_id: str, *, force: bool = False) -> Script[Created]:
    """Resume a paused run, or hand the own run of a program (``driver``) over to workers."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/resume", force=force or None)))


def retry(run_id: str) -> Script[Created]:
    """Retry a failed run from its latest checkpoint."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/retry")))


def answer_again(run_id: str) -> Script[Created]:
    """Ask again what a run was answered last, if the step that asked has failed. ``WrongState`` if it has not."""
    return Created.model_validate((yield from post(f"/runs/{part(run_id)}/answer-again")))


def delete_run(run_id: str) -> Script[None]:
    """Delete an ended run with everything it has."""
    yield from remove(f"/runs/{part(run_id)}")


def follow_up(run_id: str, message: Any, *, key: str | None = None) -> Script[RunDetail]:
    """Follow up on a completed run: start the run that continues from its end with this message, and return it.

    The same ``key`` starts it once. ``WrongState`` while the run has not completed; ``AlreadyFollowed``
    says which run follows it already, and who started that.
    """
    made = yield from post(f"/runs/{part(run_id)}/follow-up", {"message": message}, key=key)
    return (yield from run(str(made["id"])))


def signal(run_id: str, name: str, value: Any = None, *, key: str | None = None) -> Script[SentSignal]:
    """Send a signal into a run."""
    return SentSignal.model_validate(
        (yield from post(f"/runs/{part(run_id)}/signals", {"name": name, "value": value}, key=key))
    )


def signals(run_id: str) -> Script[SignalList]:
    """Return the signals that a run waits for, and those it has stored."""
    return SignalList.model_validate((yield from get(f"/runs/{part(run_id)}/signals")))


def events(run_id: str, *, after: int = 0, most: int | None = None) -> Script[None]:
    """Emit a run's events that have happened, in order."""
    query = {"after": str(after) if after else ""}
    yield from pages(f"/runs/{part(run_id)}/events", EventRecord.model_validate, query, most=most, limit=500)


def watch(run_id: str, *, after: int = 0, patience: float | None = None) -> Script[None]:
    """Emit a run's events as they happen, each once and in order, until the run has ended.

    Begins with those that have happened (``after``: behind this ``seq``), and survives restarts of the server.
    """
    source = Source(path=f"{ROOT}/runs/{part(run_id)}/events", read=EventRecord.model_validate)
    yield from follow(source, str(after) if after else "", patience=patience)


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
    return BulkProgress.model_validate((yield from post("/runs/bulk", body)))


def bulk_preview(
    verb: Verb,
    *,
    runs: Sequence[str] = (),
    filter: str | None = None,  # noqa: A002
) -> Script[BulkRehearsal]:
    """Return what ``bulk`` would do. Changes nothing."""
    body = _bulk(verb, runs, filter, (), ()) | {"dry_run": True}
    return BulkRehearsal.model_validate((yield from post("/runs/bulk", body)))


def bulk_progress(bulk_id: str) -> Script[BulkProgress]:
    """Return how far a bulk operation is."""
    return BulkProgress.model_validate((yield from get(f"/bulk/{part(bulk_id)}")))


def _bulk(
    verb: Verb, runs: Sequence[str], text: str | None, add: Sequence[str], remove: Sequence[str]
) -> dict[str, Any]:
    chosen = {"runs": list(runs)} if text is None else {"q": text, "all": True}
    return {"verb": verb, **chosen, "add": list(add), "remove": list(remove)}
