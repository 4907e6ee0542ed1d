"""``Client`` and ``AsyncClient``: the same calls, described once."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from wfdash.client.calls import audit as audit_calls
from wfdash.client.calls import checkpoints as checkpoint_calls
from wfdash.client.calls import inbox as inbox_calls
from wfdash.client.calls import people as people_calls
from wfdash.client.calls import questions as question_calls
from wfdash.client.calls import requests as request_calls
from wfdash.client.calls import run_parts as part_calls
from wfdash.client.calls import runs as run_calls
from wfdash.client.calls import schedules as schedule_calls
from wfdash.client.calls import statistics as statistics_calls
from wfdash.client.calls import workflows as workflow_calls
from wfdash.client.drivers import AsyncDriver, SyncDriver, headers_for
from wfdash.client.errors import ClientError
from wfdash.client.methods import ApiIterator, ApiMethod, Awaiting, Blocking
from wfdash.client.script import Script
from wfdash.records.audit import AuditRecord
from wfdash.records.inbox import DecisionRecord
from wfdash.records.people import PersonSummary
from wfdash.records.requests import RequestSummary
from wfdash.records.run_parts import ActivationRecord, LogLineRecord
from wfdash.records.runs import EventRecord, RunSummary, WorkflowEvent

T = TypeVar("T")
SECONDS = 30.0
PATIENCE = 20.0


class Calls:
    """Everything that a client can do: documented with the functions of ``wfdash.client.calls``."""

    start = ApiMethod(run_calls.start)
    run = ApiMethod(run_calls.run)
    runs = ApiMethod(run_calls.runs)
    all_runs = ApiIterator(run_calls.all_runs, RunSummary)
    wait = ApiMethod(run_calls.wait)
    cancel = ApiMethod(run_calls.cancel)
    pause = ApiMethod(run_calls.pause)
    resume = ApiMethod(run_calls.resume)
    retry = ApiMethod(run_calls.retry)
    answer_again = ApiMethod(run_calls.answer_again)
    delete_run = ApiMethod(run_calls.delete_run)
    follow_up = ApiMethod(run_calls.follow_up)
    signal = ApiMethod(run_calls.signal)
    signals = ApiMethod(run_calls.signals)
    steps = ApiMethod(part_calls.steps)
    all_steps = ApiIterator(part_calls.all_steps, ActivationRecord)
    logs = ApiMethod(part_calls.logs)
    all_logs = ApiIterator(part_calls.all_logs, LogLineRecord)
    values = ApiMethod(part_calls.values)
    tag = ApiMethod(part_calls.tag)
    graph_change = ApiMethod(part_calls.graph_change)
    migrate = ApiMethod(part_calls.migrate)
    override = ApiMethod(part_calls.override)
    events = ApiIterator(run_calls.events, EventRecord)
    watch = ApiIterator(run_calls.watch, EventRecord)
    bulk = ApiMethod(run_calls.bulk)
    bulk_preview = ApiMethod(run_calls.bulk_preview)
    bulk_progress = ApiMethod(run_calls.bulk_progress)

    open_question = ApiMethod(question_calls.open_question)
    requests = ApiMethod(request_calls.requests)
    all_requests = ApiIterator(request_calls.all_requests, RequestSummary)
    request = ApiMethod(request_calls.request)
    answer = ApiMethod(request_calls.answer)
    undo = ApiMethod(request_calls.undo)
    comments = ApiMethod(request_calls.comments)
    comment = ApiMethod(request_calls.comment)
    assign = ApiMethod(request_calls.assign)
    set_deadline = ApiMethod(request_calls.set_deadline)
    amend = ApiMethod(inbox_calls.amend)
    draft = ApiMethod(inbox_calls.draft)
    save_draft = ApiMethod(inbox_calls.save_draft)
    drop_draft = ApiMethod(inbox_calls.drop_draft)
    answer_many = ApiMethod(inbox_calls.answer_many)
    assign_many = ApiMethod(inbox_calls.assign_many)
    undo_many = ApiMethod(inbox_calls.undo_many)
    decisions = ApiMethod(inbox_calls.decisions)
    all_decisions = ApiIterator(inbox_calls.all_decisions, DecisionRecord)

    checkpoints = ApiMethod(checkpoint_calls.checkpoints)
    checkpoint = ApiMethod(checkpoint_calls.checkpoint)
    compare = ApiMethod(checkpoint_calls.compare)
    preview = ApiMethod(checkpoint_calls.preview)
    editable = ApiMethod(checkpoint_calls.editable)
    replay = ApiMethod(checkpoint_calls.replay)
    restore = ApiMethod(checkpoint_calls.restore)
    fork = ApiMethod(checkpoint_calls.fork)
    label = ApiMethod(checkpoint_calls.label)
    delete_checkpoint = ApiMethod(checkpoint_calls.delete_checkpoint)

    schedules = ApiMethod(schedule_calls.schedules)
    schedule = ApiMethod(schedule_calls.schedule)
    create_schedule = ApiMethod(schedule_calls.create_schedule)
    change_schedule = ApiMethod(schedule_calls.change_schedule)
    pause_schedule = ApiMethod(schedule_calls.pause_schedule)
    resume_schedule = ApiMethod(schedule_calls.resume_schedule)
    run_schedule = ApiMethod(schedule_calls.run_schedule)
    delete_schedule = ApiMethod(schedule_calls.delete_schedule)

    workflows = ApiMethod(workflow_calls.workflows)
    workflow = ApiMethod(workflow_calls.workflow)
    code = ApiMethod(workflow_calls.code)
    workflow_events = ApiIterator(workflow_calls.workflow_events, WorkflowEvent)
    watch_workflow = ApiIterator(workflow_calls.watch_workflow, WorkflowEvent)
    check = ApiMethod(workflow_calls.check)
    me = ApiMethod(workflow_calls.me)
    statistics = ApiMethod(statistics_calls.statistics)
    operations = ApiMethod(statistics_calls.operations)

    audit = ApiMethod(audit_calls.audit)
    all_audit = ApiIterator(audit_calls.all_audit, AuditRecord)
    audit_entry = ApiMethod(audit_calls.audit_entry)
    audit_of_run = ApiMethod(audit_calls.audit_of_run)
    audit_head = ApiMethod(audit_calls.audit_head)
    export_audit = ApiIterator(audit_calls.export_audit, bytes)

    people = ApiMethod(people_calls.people)
    all_people = ApiIterator(people_calls.all_people, PersonSummary)
    person = ApiMethod(people_calls.person)
    deactivate_person = ApiMethod(people_calls.deactivate_person)
    reactivate_person = ApiMethod(people_calls.reactivate_person)
    end_sessions = ApiMethod(people_calls.end_sessions)
    groups = ApiMethod(people_calls.groups)
    group = ApiMethod(people_calls.group)
    make_group = ApiMethod(people_calls.make_group)
    rename_group = ApiMethod(people_calls.rename_group)
    delete_group = ApiMethod(people_calls.delete_group)
    add_member = ApiMethod(people_calls.add_member)
    remove_member = ApiMethod(people_calls.remove_member)
    access = ApiMethod(people_calls.access)
    grant_role = ApiMethod(people_calls.grant_role)
    revoke_role = ApiMethod(people_calls.revoke_role)


class Client(Calls, Blocking):
    """Calls wfdash over HTTP and blocks until the answer is there. Also a context manager; safe to share by threads.

    ``url`` and ``token``: by default ``WFDASH_URL`` and ``WFDASH_TOKEN`` of the environment. ``timeout``: seconds for
    one request. ``patience``: for how many seconds it tries again while the server cannot be reached.
    ``transport``: an httpx transport, as for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = SECONDS,
        patience: float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(transport=transport, **_settings(url, token))
        self._driver = SyncDriver(self._http, seconds=timeout, patience=patience)

    def perform(self, script: Script[T]) -> T:
        """Perform a script of one's own, made of those in ``wfdash.client.calls``."""
        return self._driver.perform(script)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(Calls, Awaiting):
    """The same for asyncio: every call is awaited, ``watch`` and its siblings are iterated with ``async for``."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = SECONDS,
        patience: float = PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(transport=transport, **_settings(url, token))
        self._driver = AsyncDriver(self._http, seconds=timeout, patience=patience)

    async def perform(self, script: Script[T]) -> T:
        """Perform a script of one's own, made of those in ``wfdash.client.calls``."""
        return await self._driver.perform(script)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _settings(url: str | None, token: str | None) -> dict[str, Any]:
    """Return what both clients have in common. What is no address or no token is refused at once."""
    base = (url or os.environ.get("WFDASH_URL", "")).rstrip("/") + "/"
    try:
        address = httpx.URL(base)
    except httpx.InvalidURL as error:
        raise ClientError(f"The address of wfdash is invalid: {error}. Write http://HOST:PORT") from error
    if not address.host or address.scheme not in {"http", "https"}:
        raise ClientError("The address of wfdash is missing: give url=, or set WFDASH_URL to http://HOST:PORT")
    token = token or os.environ.get("WFDASH_TOKEN") or ""
    if not (token.isascii() and token.isprintable()):
        raise ClientError("The token has characters that no token has: copy it again")
    return {"base_url": base, "headers": headers_for(token)}
