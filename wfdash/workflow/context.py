"""``ctx``: what a step may do besides computing. Everything here is recorded, so that a step can run again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import ValidationError

from checkpoints.records import Answer, Json
from checkpoints.rules import check_label
from wfdash.workflow.answertypes import marked
from wfdash.workflow.card import Asking, Card
from wfdash.workflow.cards import Approval, Decision, make_request, prepare
from wfdash.workflow.codec import Codec, check_plain, codec_for, copy_plain, return_type
from wfdash.workflow.errors import CallStopped, InvalidCall, NotStorable
from wfdash.workflow.invoke import invoke as invoke_function
from wfdash.workflow.invoke import retrying
from wfdash.workflow.ops import Ops
from wfdash.workflow.policy import Policy
from wfdash.workflow.raised import recall_error, record_error, words_of
from wfdash.workflow.retry import Retry
from wfdash.workflow.signals import fails_after, key_prefix, waiting_for
from wfdash.workflow.stateview import StateView
from wfdash.workflow.steps import StepContext
from wfdash.workflow.ticks import CallDone
from wfdash.workflow.tools import ToolCall, ToolDecision

T = TypeVar("T")


class Context(StepContext):
    """A step's way to the world. One per activation; takes the second parameter of a step."""

    def __init__(self, ops: Ops, state: StateView, *, item: int | None, attempt: int) -> None:
        self._ops = ops
        self._answers: list[Answer] = []
        self.state: Any = state
        """The run's state: as it was when the step started, plus own writes. Mapping and attributes."""
        self.item = item
        """Index of the item inside the innermost map, None outside of maps."""
        self.attempt = attempt
        """1, 2, 3 ...: which attempt of this step this is."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._ops.host.run_id

    @property
    def step(self) -> str:
        """The step's name."""
        return self._ops.node.name

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers this step has got so far: value, by whom, when."""
        return tuple(self._answers)

    @property
    def effect_key(self) -> str:
        """A key for the next ``ctx.call``, the same whenever the step runs again: for outside idempotency keys."""
        return f"{self.run_id}:{self._ops.called}.{self._ops.act}:{self._ops.replay.upcoming()}"

    @overload
    def ask(
        self,
        card: ToolCall,
        answer: None = None,
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | timedelta | str | None = None,
        policy: Policy | None = None,
        name: str | None = None,
    ) -> Coroutine[Any, Any, ToolDecision]: ...

    @overload
    def ask(
        self,
        card: Approval,
        answer: None = None,
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | timedelta | str | None = None,
        policy: Policy | None = None,
        name: str | None = None,
    ) -> Coroutine[Any, Any, Decision]: ...

    @overload
    def ask(
        self,
        card: Card | str,
        answer: type[T],
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | timedelta | str | None = None,
        policy: Policy | None = None,
        name: str | None = None,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def ask(
        self,
        card: Card | str,
        answer: dict[str, Json] | None = None,
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | timedelta | str | None = None,
        policy: Policy | None = None,
        name: str | None = None,
    ) -> Coroutine[Any, Any, Any]: ...

    def ask(
        self,
        card: Card | str,
        answer: Any = None,
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | timedelta | str | None = None,
        policy: Policy | None = None,
        name: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Ask people and wait, for days if need be: the run parks. Returns the typed answer.

        ``Approval`` gives a ``Decision`` unless ``answer`` is given; ``Choice`` the option's name; ``ToolCall`` a
        ``ToolDecision``; ``Question`` text unless ``answer`` says otherwise; ``Form`` needs ``answer``: a type, or a
        JSON Schema as a dict. ``by``: users or groups that may answer;
        ``not_by``: users that may not (``requester``: whoever started the run). ``due``: when it is late. ``policy``
        says this and more: how many, reminder, escalation, what counts if nobody answers; what it leaves unsaid is
        the workflow's own policy.
        """
        asking, now = prepare(card, answer), self._ops.host.now()
        until = due if isinstance(due, datetime) else None
        said = _policy(policy, {"by": by, "not_by": not_by, "due": None if until else due})
        terms = said.over(self._ops.node.policy).resolved(getattr(card, "proposal", None))
        index = self._ops.issue(
            {"k": "ask", "name": name or asking.kind} | ({} if asking.seen is None else {"seen": asking.seen}),
            lambda place: make_request(
                f"{self.step}-{self._ops.act}.{place}", self.step, self._named(asking), terms, due=until, now=now
            ),
        )
        return self._await_answer(index, asking)

    @overload
    def receive(
        self, signal: str, kind: type[T], *, due: datetime | timedelta | str | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def receive(
        self, signal: str, kind: Any = None, *, due: datetime | timedelta | str | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Any]: ...

    def receive(
        self, signal: str, kind: Any = None, *, due: datetime | timedelta | str | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal: a message that somebody or something sends into the run. Returns it as ``kind``.

        The run parks. One that came earlier is received at once; each is received once, in the order they were sent.
        ``kind``: a type, or a JSON Schema as a dict; any JSON value by default. ``due``: when the run fails if none
        has come. ``name``: what it is called in the record, where that must stay the same.
        """
        asking, now = waiting_for(signal, kind), self._ops.host.now()
        index = self._ops.issue(
            {"k": "ask", "name": name or f"signal {signal}"},
            lambda place: make_request(
                f"{key_prefix(signal)}{self.step}-{self._ops.act}.{place}",
                self.step,
                self._named(asking),
                _policy(None, fails_after(due, now)),
                due=None,
                now=now,
            ),
        )
        return self._await_answer(index, asking)

    def _named(self, asking: Asking) -> Asking:
        """Return the question with its types named in its schema, so that answers are checked when they are given."""
        return replace(asking, schema=marked(asking.schema, asking.types, self._ops.node.function))

    async def _await_answer(self, index: int, asking: Asking) -> Any:
        entry = await self._ops.wait(index, people=True)
        found = entry["answer"]
        key, at = entry["request"], datetime.fromisoformat(found["at"])
        value = asking.read(found["value"], entry.get("seen"))
        self._answers.append(Answer(key=key, value=copy_plain(found["value"]), by=found["by"], at=at))
        return value

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        once: bool = False,
        name: str | None = None,
        retry: Retry | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Call a function, sync (in a thread) or async, and record its result: a finished call is never repeated.

        ``once=True``: the intent is recorded before. If it is ever unknown whether the call happened, a person
        is asked; it is never silently repeated. The result must be storable; its type is the function's.
        """
        codec = codec_for(return_type(function, get_type_hints))
        entry: dict[str, Any] = {"k": "call", "name": name or getattr(function, "__name__", type(function).__name__)}
        if once:
            entry |= {"once": True, "schema": codec.schema()}
        fresh = len(self._ops.replay.entries)
        index = self._ops.issue(entry)
        return self._call(index, index == fresh, codec, lambda: invoke_function(function, args, kwargs), retry)

    async def _call(
        self, index: int, fresh: bool, codec: Codec, invoke: Callable[[], Coroutine[Any, Any, Any]], retry: Retry | None
    ) -> Any:
        entry = self._ops.entry(index)
        if "unknown" in entry:
            entry = await self._ops.wait(index, people=True)
        if "stopped" in entry:
            raise CallStopped(f"call {entry['name']!r} was stopped: it is unknown whether it happened")
        if "raised" in entry and "result" not in entry:
            raise self._raised(index, recall_error(entry["raised"]))
        if "result" not in entry:
            entry = await self._perform(index, fresh, codec, invoke, retry)
        return codec.decode(entry["result"][1], f"result of {entry['name']!r}")

    async def _perform(
        self, index: int, fresh: bool, codec: Codec, invoke: Callable[[], Coroutine[Any, Any, Any]], retry: Retry | None
    ) -> dict[str, Any]:
        ops, entry = self._ops, self._ops.entry(index)
        once = bool(entry.get("once"))
        ops.calling += 1
        ops.calling_once += once
        try:
            if once and fresh:
                await ops.wait(index, people=False)
            ops.reopen(index)
            try:
                data = codec.encode(await retrying(invoke, retry), f"result of {entry['name']!r}")
            except Exception as error:
                await self._report_failure(index, once, self._raised(index, error))
                raise
            ops.host.post(CallDone(at=ops.host.now(), act=ops.act, index=index, result=[None, data]))
            return await ops.wait(index, people=False)
        finally:
            ops.calling -= 1
            ops.calling_once -= once
            ops.host.ring()

    def _raised(self, index: int, error: Exception) -> Exception:
        self._ops.errors[index] = error
        return error

    async def _report_failure(self, index: int, once: bool, error: Exception) -> None:
        """Have it recorded that the call raised: a step that handles it must take the same way when it runs again."""
        ops, raised = self._ops, record_error(error)
        if raised is not None:
            raised["at"] = len(ops.replay.entries)
        said = f"{type(error).__name__}: {words_of(error)}"
        ops.host.post(CallDone(at=ops.host.now(), act=ops.act, index=index, failed=said, raised=raised))
        if once:
            await ops.wait(index, people=False)
        elif raised is not None:
            ops.replay.entries[index] = {**ops.entry(index), "raised": raised}

    def sleep(
        self, duration: float | timedelta | None = None, *, until: datetime | None = None
    ) -> Coroutine[Any, Any, None]:
        """Wait for seconds or a timedelta, or until an aware datetime. Recorded: it is not slept again."""
        now = self._ops.host.now()
        if (duration is None) == (until is None):
            raise InvalidCall("ctx.sleep needs either a duration or until=")
        if until is None:
            until = now + (duration if isinstance(duration, timedelta) else timedelta(seconds=float(duration or 0)))
        if until.tzinfo is None:
            raise InvalidCall("ctx.sleep(until=...) needs an aware datetime")
        until = until.astimezone(UTC)
        save = (until - now).total_seconds() > self._ops.host.park_after
        index = self._ops.issue({"k": "sleep", "name": "sleep", "until": until.isoformat()}, save=save)
        self._ops.host.wake_at(datetime.fromisoformat(self._ops.entry(index)["until"]))
        return self._await_time(index)

    async def _await_time(self, index: int) -> None:
        await self._ops.wait(index, people=True)

    def checkpoint(self, label: str) -> Coroutine[Any, Any, None]:
        """Save here under a name; returns once it is durable. Retention keeps what has a label.

        The step's own writes to the state are not in it: they land when the step ends. It is not saved again when
        the step runs again. ``label``: text of 1 to 200 characters.
        """
        try:
            check_label(label)
        except ValueError as error:
            raise InvalidCall(f"ctx.checkpoint: {error}") from error
        return self._await_label(self._ops.issue({"k": "label", "name": "checkpoint", "label": label}))

    async def _await_label(self, index: int) -> None:
        await self._ops.wait(index, people=False)

    def emit(self, name: str, data: Json = None) -> None:
        """Add an event of your own to the run: ``name`` and JSON ``data``."""
        check_plain(data, f"event {name!r}")
        self._ops.host.event(self._ops.act, "custom", {"name": name, "data": copy_plain(data)})

    def progress(self, fraction: float | None = None, text: str = "") -> None:
        """Say how far the step is: a fraction from 0 to 1, or None if unknown."""
        if fraction is not None and not 0 <= fraction <= 1:
            raise InvalidCall(f"ctx.progress takes a fraction from 0 to 1, not {fraction!r}")
        check_plain(text, "progress")
        if type(text) is not str:
            raise NotStorable(f"ctx.progress takes text, not {type(text).__name__}")
        self._ops.host.event(self._ops.act, "progress", {"fraction": fraction, "text": text})

    def stream(self, text: str) -> None:
        """Show text while it is made. It is not stored."""
        self._ops.host.stream(self.step, text)


def _policy(policy: Policy | None, said: Mapping[str, Any]) -> Policy:
    """Return the policy with what ``ctx.ask`` says by itself. ``InvalidCall`` if it says a thing twice, or wrongly."""
    given = {name: value for name, value in said.items() if value not in ((), "", None)}
    twice = given.keys() & (policy.model_fields_set if policy else set())
    if twice:
        raise InvalidCall(f"ctx.ask got {sorted(twice)[0]}= twice: once by itself, once in policy=")
    try:
        return Policy(**given).over(policy)
    except ValidationError as error:
        raise InvalidCall(f"ctx.ask: {error.errors()[0]['msg']}") from error
