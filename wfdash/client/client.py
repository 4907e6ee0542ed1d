"""``Client`` and ``AsyncClient``: the same calls, described once; ``ask`` and ``ask_sync``: a question to people.

Two drivers perform the calls, blocking or asynchronous: all that the client does to the network.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

import httpx
from typing_extensions import Unpack

from wfdash.client.calls import administration as admin_calls
from wfdash.client.calls import requests as request_calls
from wfdash.client.calls import runs as run_calls
from wfdash.client.calls.runs import Terms, asked
from wfdash.client.errors import ClientError
from wfdash.client.script import (
    AskPatience,
    Effect,
    Emit,
    Exchange,
    NoResponse,
    Open,
    ReadClock,
    ReadLine,
    ReadPiece,
    Response,
    Script,
    Send,
    Sleep,
)
from wfdash.questions.card import Card
from wfdash.records.audit import AuditRecord
from wfdash.records.people import PersonSummary
from wfdash.records.requests import DecisionRecord, RequestSummary
from wfdash.records.runs import ActivationRecord, EventRecord, LogLineRecord, RunSummary, WorkflowEvent
from wfdash.workflow import Approval, Choice, Decision, Question

T = TypeVar("T")
AGENT = "wfdash-client"
LINE_END = re.compile(rb"\r\n|\n|\r")


def headers_for(token: str | None) -> dict[str, str]:
    """Return what every request says about who sends it."""
    return {"User-Agent": AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})


def _request(exchange: Exchange, seconds: float) -> dict[str, Any]:
    """Return the arguments of httpx for a request."""
    query = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in exchange.query.items()
        if value not in (None, "")
    }
    given = {} if exchange.body is None else {"json": exchange.body}
    timeout = httpx.Timeout(seconds, read=seconds + exchange.timeout)
    return {"params": query or None, "headers": dict(exchange.headers), "timeout": timeout, **given}


def _reply(response: httpx.Response, body: bytes = b"") -> Response:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Response(status=response.status_code, headers=headers, body=body)


def _no_reply(error: Exception) -> NoResponse:
    return NoResponse(why=str(error) or type(error).__name__)


FAILURES = (httpx.TransportError, httpx.StreamError)
"""What is no answer. An invalid address is the caller's mistake and is raised."""


class SyncDriver:
    """Performs scripts and blocks until they end."""

    def __init__(self, http: httpx.Client, *, seconds: float, patience: float) -> None:
        self._http, self._seconds, self._patience = http, seconds, patience

    def perform(self, script: Script[T]) -> T:
        """Return what a script returns."""
        result: Any = None
        stream = _Stream()
        try:
            while True:
                result = self._effect(script.send(result), stream)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            stream.close()

    def iterate(self, script: Script[None]) -> Iterator[Any]:
        """Yield what a script emits."""
        result: Any = None
        stream = _Stream()
        try:
            while True:
                effect = script.send(result)
                result = None
                if isinstance(effect, Emit):
                    yield effect.item
                else:
                    result = self._effect(effect, stream)
        except StopIteration:
            return
        finally:
            stream.close()

    def _effect(self, effect: Effect, stream: _Stream) -> Any:
        match effect:
            case Send(exchange):
                return self._sent(exchange)
            case Open(exchange):
                return self._opened(exchange, stream)
            case ReadLine():
                return stream.line()
            case ReadPiece():
                return stream.piece()
            case Sleep(seconds):
                return time.sleep(seconds)
            case ReadClock():
                return time.monotonic()
            case AskPatience():
                return self._patience
            case Emit():
                raise TypeError("a script that emits is iterated")

    def _sent(self, exchange: Exchange) -> Response | NoResponse:
        try:
            response = self._http.request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        except FAILURES as error:
            return _no_reply(error)
        return _reply(response, response.content)

    def _opened(self, exchange: Exchange, stream: _Stream) -> Response | NoResponse:
        request = self._http.build_request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        try:
            return stream.open(self._http.send(request, stream=True))
        except FAILURES as error:
            return _no_reply(error)


class _Body:
    """The lines that have arrived of an open stream."""

    def __init__(self) -> None:
        self._splitter, self._lines = LineSplitter(), deque[str]()

    def take(self, piece: bytes) -> None:
        self._lines.extend(self._splitter.feed(piece))

    def next(self) -> str | None:
        return self._lines.popleft() if self._lines else None


class LineSplitter:
    """Gives the lines of a text that arrives in pieces of bytes, wherever they are cut.

    A line ends at LF, CR or CRLF alone, as in event streams: ``str.splitlines`` knows eight more ends, such as U+2028,
    which are part of what a person wrote.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that a piece completes, without their ends."""
        if not piece:
            return []
        ends_with_cr, piece = piece.endswith(b"\r"), piece.removeprefix(b"\n") if self._after_cr else piece
        *lines, self._rest = LINE_END.split(self._rest + piece)
        self._after_cr = ends_with_cr
        return [line.decode("utf-8", "replace") for line in lines]


class _Stream:
    """The one open stream of a script."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._body = _Body()

    def open(self, response: httpx.Response) -> Response:
        self.close()
        self._response, self._body = response, _Body()
        good = _reply(response)
        if not good.good:
            return _reply(response, response.read())
        self._pieces = response.iter_bytes()
        return good

    def line(self) -> str | NoResponse | None:
        while (line := self._body.next()) is None:
            piece = self.piece()
            if not isinstance(piece, bytes):
                return piece
            self._body.take(piece)
        return line

    def piece(self) -> bytes | NoResponse | None:
        try:
            return next(self._pieces, None)
        except FAILURES as error:
            return _no_reply(error)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()


class AsyncDriver:
    """Performs scripts in an event loop."""

    def __init__(self, http: httpx.AsyncClient, *, seconds: float, patience: float) -> None:
        self._http, self._seconds, self._patience = http, seconds, patience

    async def perform(self, script: Script[T]) -> T:
        """Return what a script returns."""
        result: Any = None
        stream = _AsyncStream()
        try:
            while True:
                try:
                    effect = script.send(result)
                except StopIteration as end:
                    value: T = end.value
                    return value
                result = await self._effect(effect, stream)
        finally:
            await stream.close()

    async def iterate(self, script: Script[None]) -> AsyncIterator[Any]:
        """Yield what a script emits."""
        result: Any = None
        stream = _AsyncStream()
        try:
            while True:
                try:
                    effect = script.send(result)
                except StopIteration:
                    return
                result = None
                if isinstance(effect, Emit):
                    yield effect.item
                else:
                    result = await self._effect(effect, stream)
        finally:
            await stream.close()

    async def _effect(self, effect: Effect, stream: _AsyncStream) -> Any:
        match effect:
            case Send(exchange):
                return await self._sent(exchange)
            case Open(exchange):
                return await self._opened(exchange, stream)
            case ReadLine():
                return await stream.line()
            case ReadPiece():
                return await stream.piece()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case ReadClock():
                return time.monotonic()
            case AskPatience():
                return self._patience
            case Emit():
                raise TypeError("a script that emits is iterated")

    async def _sent(self, exchange: Exchange) -> Response | NoResponse:
        try:
            response = await self._http.request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        except FAILURES as error:
            return _no_reply(error)
        return _reply(response, response.content)

    async def _opened(self, exchange: Exchange, stream: _AsyncStream) -> Response | NoResponse:
        request = self._http.build_request(exchange.method, exchange.path, **_request(exchange, self._seconds))
        try:
            return await stream.open(await self._http.send(request, stream=True))
        except FAILURES as error:
            return _no_reply(error)


class _AsyncStream:
    """The one open stream of a script."""

    def __init__(self) -> None:
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._body = _Body()

    async def open(self, response: httpx.Response) -> Response:
        await self.close()
        self._response, self._body = response, _Body()
        good = _reply(response)
        if not good.good:
            return _reply(response, await response.aread())
        self._pieces = response.aiter_bytes()
        return good

    async def line(self) -> str | NoResponse | None:
        while (line := self._body.next()) is None:
            piece = await self.piece()
            if not isinstance(piece, bytes):
                return piece
            self._body.take(piece)
        return line

    async def piece(self) -> bytes | NoResponse | None:
        try:
            return await anext(self._pieces, None) if self._pieces is not None else None
        except FAILURES as error:
            return _no_reply(error)

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()


P = ParamSpec("P")
SECONDS = 30.0
PATIENCE = 20.0


class Blocking:
    """What has a driver that blocks."""

    _driver: SyncDriver


class Awaiting:
    """What has an asynchronous driver."""

    _driver: AsyncDriver


class ApiMethod(Generic[P, T]):
    """A method that performs a script and returns what it returns."""

    def __init__(self, script: Callable[P, Script[T]]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> ApiMethod[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        return self if owner is None else _bound(owner._driver.perform, self._script)


class ApiIterator(Generic[P, T]):
    """A method that performs a script and yields what it emits."""

    def __init__(self, script: Callable[P, Script[None]], of: type[T]) -> None:
        self._script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> ApiIterator[P, T]: ...
    @overload
    def __get__(self, owner: Blocking, kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, owner: Blocking | Awaiting | None, kind: type) -> Any:
        return self if owner is None else _bound(owner._driver.iterate, self._script)


def _bound(run: Callable[[Any], Any], script: Callable[P, Any]) -> Callable[P, Any]:
    @functools.wraps(script)
    def method(*args: P.args, **kwargs: P.kwargs) -> Any:
        return run(script(*args, **kwargs))

    return method


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
    steps = ApiMethod(run_calls.steps)
    all_steps = ApiIterator(run_calls.all_steps, ActivationRecord)
    logs = ApiMethod(run_calls.logs)
    all_logs = ApiIterator(run_calls.all_logs, LogLineRecord)
    values = ApiMethod(run_calls.values)
    tag = ApiMethod(run_calls.tag)
    graph_change = ApiMethod(run_calls.graph_change)
    migrate = ApiMethod(run_calls.migrate)
    override = ApiMethod(run_calls.override)
    events = ApiIterator(run_calls.events, EventRecord)
    watch = ApiIterator(run_calls.watch, EventRecord)
    bulk = ApiMethod(run_calls.bulk)
    bulk_preview = ApiMethod(run_calls.bulk_preview)
    bulk_progress = ApiMethod(run_calls.bulk_progress)

    open_question = ApiMethod(run_calls.open_question)
    requests = ApiMethod(request_calls.requests)
    all_requests = ApiIterator(request_calls.all_requests, RequestSummary)
    request = ApiMethod(request_calls.request)
    answer = ApiMethod(request_calls.answer)
    undo = ApiMethod(request_calls.undo)
    comments = ApiMethod(request_calls.comments)
    comment = ApiMethod(request_calls.comment)
    assign = ApiMethod(request_calls.assign)
    set_deadline = ApiMethod(request_calls.set_deadline)
    snooze = ApiMethod(request_calls.snooze)
    amend = ApiMethod(request_calls.amend)
    draft = ApiMethod(request_calls.draft)
    save_draft = ApiMethod(request_calls.save_draft)
    drop_draft = ApiMethod(request_calls.drop_draft)
    answer_many = ApiMethod(request_calls.answer_many)
    assign_many = ApiMethod(request_calls.assign_many)
    undo_many = ApiMethod(request_calls.undo_many)
    decisions = ApiMethod(request_calls.decisions)
    all_decisions = ApiIterator(request_calls.all_decisions, DecisionRecord)
    rules = ApiMethod(request_calls.rules)
    rule = ApiMethod(request_calls.rule)
    move_rule = ApiMethod(request_calls.move_rule)
    export_decisions = ApiIterator(request_calls.export_decisions, bytes)

    checkpoints = ApiMethod(run_calls.checkpoints)
    checkpoint = ApiMethod(run_calls.checkpoint)
    compare = ApiMethod(run_calls.compare)
    preview = ApiMethod(run_calls.preview)
    editable = ApiMethod(run_calls.editable)
    replay = ApiMethod(run_calls.replay)
    restore = ApiMethod(run_calls.restore)
    fork = ApiMethod(run_calls.fork)
    label = ApiMethod(run_calls.label)
    delete_checkpoint = ApiMethod(run_calls.delete_checkpoint)

    schedules = ApiMethod(admin_calls.schedules)
    schedule = ApiMethod(admin_calls.schedule)
    create_schedule = ApiMethod(admin_calls.create_schedule)
    change_schedule = ApiMethod(admin_calls.change_schedule)
    pause_schedule = ApiMethod(admin_calls.pause_schedule)
    resume_schedule = ApiMethod(admin_calls.resume_schedule)
    run_schedule = ApiMethod(admin_calls.run_schedule)
    delete_schedule = ApiMethod(admin_calls.delete_schedule)

    workflows = ApiMethod(admin_calls.workflows)
    workflow = ApiMethod(admin_calls.workflow)
    code = ApiMethod(admin_calls.code)
    workflow_events = ApiIterator(admin_calls.workflow_events, WorkflowEvent)
    watch_workflow = ApiIterator(admin_calls.watch_workflow, WorkflowEvent)
    check = ApiMethod(admin_calls.check)
    me = ApiMethod(admin_calls.me)
    statistics = ApiMethod(admin_calls.statistics)
    operations = ApiMethod(admin_calls.operations)

    audit = ApiMethod(admin_calls.audit)
    all_audit = ApiIterator(admin_calls.all_audit, AuditRecord)
    audit_entry = ApiMethod(admin_calls.audit_entry)
    audit_of_run = ApiIterator(admin_calls.audit_of_run, AuditRecord)
    audit_head = ApiMethod(admin_calls.audit_head)
    export_audit = ApiIterator(admin_calls.export_audit, bytes)

    people = ApiMethod(admin_calls.people)
    all_people = ApiIterator(admin_calls.all_people, PersonSummary)
    person = ApiMethod(admin_calls.person)
    deactivate_person = ApiMethod(admin_calls.deactivate_person)
    reactivate_person = ApiMethod(admin_calls.reactivate_person)
    end_sessions = ApiMethod(admin_calls.end_sessions)
    groups = ApiMethod(admin_calls.groups)
    group = ApiMethod(admin_calls.group)
    make_group = ApiMethod(admin_calls.make_group)
    rename_group = ApiMethod(admin_calls.rename_group)
    delete_group = ApiMethod(admin_calls.delete_group)
    add_member = ApiMethod(admin_calls.add_member)
    remove_member = ApiMethod(admin_calls.remove_member)
    access = ApiMethod(admin_calls.access)
    grant_role = ApiMethod(admin_calls.grant_role)
    revoke_role = ApiMethod(admin_calls.revoke_role)


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

    def __exit__(self, *_: object) -> None:
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

    async def __aexit__(self, *_: object) -> None:
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


@overload
async def ask(
    card: Approval[T], answer: None = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Decision[T]: ...
@overload
async def ask(
    card: str, answer: type[Approval], *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
async def ask(
    card: Choice | Question | str,
    answer: list[str] | None = None,
    *,
    client: AsyncClient | None = None,
    **terms: Unpack[Terms],
) -> str: ...
@overload
async def ask(card: Card | str, answer: type[T], *, client: AsyncClient | None = None, **terms: Unpack[Terms]) -> T: ...
@overload
async def ask(
    card: Card, answer: dict[str, Any], *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Any: ...
async def ask(card: Any, answer: Any = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]) -> Any:
    """Ask people through wfdash, wait for their answer, and return it typed.

    ``card``: a card as in ``ctx.ask``, or its subject; then ``answer`` says more: ``Approval`` for approve or reject, a
    list to choose from, a type. A text alone is answered with text. Survives restarts of the server, and with ``ref``
    of this program. ``NotAnswered`` if the question ended without an answer, ``TimedOut`` after ``timeout``.
    """
    if client is not None:
        return await client.perform(asked(card, answer, **terms))
    async with AsyncClient() as own:
        return await own.perform(asked(card, answer, **terms))


@overload
def ask_sync(
    card: Approval[T], answer: None = None, *, client: Client | None = None, **terms: Unpack[Terms]
) -> Decision[T]: ...
@overload
def ask_sync(
    card: str, answer: type[Approval], *, client: Client | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
def ask_sync(
    card: Choice | Question | str,
    answer: list[str] | None = None,
    *,
    client: Client | None = None,
    **terms: Unpack[Terms],
) -> str: ...
@overload
def ask_sync(card: Card | str, answer: type[T], *, client: Client | None = None, **terms: Unpack[Terms]) -> T: ...
@overload
def ask_sync(card: Card, answer: dict[str, Any], *, client: Client | None = None, **terms: Unpack[Terms]) -> Any: ...
def ask_sync(card: Any, answer: Any = None, *, client: Client | None = None, **terms: Unpack[Terms]) -> Any:
    """Do the same as ``ask``, and block until the answer is there."""
    if client is not None:
        return client.perform(asked(card, answer, **terms))
    with Client() as own:
        return own.perform(asked(card, answer, **terms))
