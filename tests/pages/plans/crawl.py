"""Everything that reads tables: pages with each of their filters, calls of the API, and what workers look for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.test import Client

from checkpoints.database import living_workers
from checkpoints.database.clock import database_now
from checkpoints.database.high_water_mark import last_id, settled_id
from checkpoints.models.user_model import User
from tests.api.document.calls import Call
from tests.pages.plans.plans import Recorder
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.retention import RunRemover
from wfdash.queries.audit import FILTER as AUDIT
from wfdash.queries.audit import read_entries
from wfdash.queries.requests.decisions import FILTER as DECISIONS
from wfdash.queries.requests.decisions import count_decisions, read_decisions
from wfdash.queries.requests.inbox import FILTER as INBOX
from wfdash.queries.requests.inbox import SORTS, TABS, count_tabs, read_inbox
from wfdash.queries.runs.filter_keys import FILTER as RUNS
from wfdash.queries.runs.listing import RUN_SORTS, read_runs
from wfdash.queries.schedules import FILTER as SCHEDULES
from wfdash.queries.schedules import read_schedules
from wfdash.queries.search import ListFilter
from wfdash.queries.statistics import gauges
from wfdash.worker import outbox, sweeps
from wfdash.worker import sweeps as due_work
from wfdash.worker.worker import cancelled_since

LISTS: dict[str, tuple[ListFilter[Any, Any], str, Callable[[Viewer, str], Any]]] = {
    "inbox": (INBOX, "kind:approval risk:high", lambda viewer, text: read_inbox(viewer, "mine", text)),
    "counts": (INBOX, "kind:approval risk:high", count_tabs),
    "answered": (INBOX, "kind:approval", lambda viewer, text: read_inbox(viewer, "answered", text)),
    "runs": (RUNS, "status:failed workflow:refund tag:eu input.amount:>5 word", read_runs),
    "decisions": (DECISIONS, "step:review outcome:rejected", read_decisions),
    "decisions counted": (DECISIONS, "step:review outcome:rejected", count_decisions),
    "audit": (AUDIT, "actor:me verb:start", read_entries),
    "schedules": (SCHEDULES, "state:paused owner:me", read_schedules),
}
"""Name -> the filter of a list, a text with several conditions, and what reads it."""
OTHERS = (
    *(f"/statistics/?{query}" for query in ("days=1", "days=30", "days=7", "workflow=expense_batch")),
    *("/operations/", "/health", "/metrics", "/readyz", "/search/?q=refund", "/search/?q=workflow:refund"),
    *("/notifications/", "/audit/1/", "/?focus=1", "/audit/export.csv"),
)


def look_through_lists(recorder: Recorder, user: User) -> None:
    """Read each list with every filter, order and tab, without drawing it."""
    viewer = viewer_for(user)
    for name, (known, several, read) in LISTS.items():
        for text in ("word", "-word", several, *(one.example.rstrip("…") for one in known.qualifiers)):
            recorder.where = f"{name}: {text}"
            read(viewer, text)
    look_at_tabs(recorder, user)
    for sort, text in itertools.product(RUN_SORTS, ("", "status:failed")):
        recorder.where = f"runs: {sort}, {text}"
        read_runs(viewer, text, sort=sort)


def look_at_tabs(recorder: Recorder, user: User) -> None:
    """Read every tab of the inbox in every order."""
    viewer = viewer_for(user)
    for tab, sort in itertools.product(TABS, SORTS):
        recorder.where = f"inbox: {tab}, {sort}"
        read_inbox(viewer, tab, sort=sort)


def look_at_pages(recorder: Recorder, client: Client, addresses: Iterable[str]) -> dict[str, int]:
    """Look at each page; returns the status of those that could not be shown."""
    refused = {}
    for address in addresses:
        recorder.where = address
        answer = client.get(address)
        if answer.streaming:
            b"".join(answer.streaming_content)
        if answer.status_code >= 400:
            refused[address] = answer.status_code
    return refused


def call_api(recorder: Recorder, client: Client, calls: dict[str, Call]) -> dict[str, int]:
    """Make each call and take it back; returns the status of those that were refused."""
    refused = {}
    for name, call in calls.items():
        recorder.where = f"API: {name}"
        with transaction.atomic():
            headers = {"If-Match": "*"} if call.method != "get" else {}
            status = call.send(client, **headers).status_code
            transaction.set_rollback(True)
        if status >= 400:
            refused[name] = status
    return refused


WAITING = {"delivery", "chat-socket"}


def do_jobs(recorder: Recorder) -> None:
    """Do what a worker does beside its runs, whether something is due or not."""
    now = database_now()
    # Without what sends notifications, whose threads would wait for this transaction, and what calls Slack.
    jobs: dict[str, Callable[[], Any]] = {job.name: job.do for job in sweeps.all_jobs() if job.name not in WAITING}
    jobs |= {
        "look": due_work.look_for_work,
        "outbox": outbox.due_bundles,
        "lateness": lambda: gauges.lateness(now),
        "other workers": lambda: living_workers.others("w"),
        "cancelled runs": lambda: cancelled_since(now - timedelta(days=1)),
        "old runs": RunRemover().remove_next,
        "last event": lambda: (last_id(), settled_id()),
    }
    for name, do in jobs.items():
        recorder.where = f"job: {name}"
        with transaction.atomic():
            do()
            transaction.set_rollback(True)
