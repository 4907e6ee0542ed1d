"""``ctx``: what a step can do besides computing. Everything is recorded, so that the step can run again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from itertools import takewhile
from operator import is_
from typing import Any, Generic, Literal, Self, TypeAlias, TypedDict, Unpack, overload

from typing_extensions import TypeVar

from checkpoints.errors import InvalidValue
from checkpoints.events import EventKind
from checkpoints.records import Answer, Json, JsonObject, Request
from checkpoints.rules import check_label, usage_of
from wfdash.contract import Message, pack_transcript, unpack_transcript
from wfdash.domain.search_attributes import cleaned
from wfdash.questions.card import Asking, Card, Given
from wfdash.questions.cards import Approval, Decision, Question, make_request, prepare
from wfdash.questions.choices import Choice, fails_after, key_prefix, waiting_for
from wfdash.questions.policy import Duration, Policy, policy_of, refuse_unknown, span_of
from wfdash.questions.tools import ToolCall, ToolDecision
from wfdash.values.codec import Codec, check_plain, codec_for, copy_plain, is_large, replaced, return_type
from wfdash.values.display import to_display
from wfdash.values.errors import message_of
from wfdash.values.fingerprints import MOST_AGAIN, digest, identify, parts_to_keep
from wfdash.workflow.answers import marked
from wfdash.workflow.authoring import Retry, StepContext
from wfdash.workflow.errors import CallStopped, InvalidCall, NotStorable, ReplayMismatch, WrongType
from wfdash.workflow.reducer.ticks import CallDiffers, CallDone, ModelUsed, TranscriptGrown
from wfdash.workflow.runtime.invoke import RecordedCall, chosen, name_of, retrying
from wfdash.workflow.runtime.invoke import invoke as invoke_function
from wfdash.workflow.runtime.step_ops import ARGUMENTS, CLOSED, PendingQuestion, StepOps
from wfdash.workflow.stored import CallIntent, JournalEntry, decode_exception, encode_exception, intent

T = TypeVar("T")
S = TypeVar("S", default=Any)
"""The type of a run's state. Only checkers and editors see it."""
Invoke: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]


class AskTerms(TypedDict, total=False):
    """How a question is asked: the named arguments of ``ctx.ask``."""

    by: str | Sequence[str]
    not_by: str | Sequence[str]
    due: datetime | Duration | None
    policy: Policy | None
    name: str | None
    same: str | Sequence[str] | None


class Context(StepContext, Generic[S]):
    """A step's way to the world. One per activation; takes the second parameter of a step.

    ``Context[Model]`` says the type of ``ctx.state`` where the workflow has ``state=Model``.
    """

    def __init__(self, ops: StepOps, state: Any, *, attempt: int) -> None:
        self._ops = ops
        self._answers: list[Answer] = []
        self.state: S = state
        """The run's state: as it was when the step started, plus own writes. Mapping and attributes."""
        self.item = ops.item
        """Index of the item inside the innermost map, None outside of maps."""
        self.attempt = attempt
        """1, 2, 3 ...: which attempt of this step this is."""

    def __class_getitem__(cls, _state: Any) -> type[Self]:
        """Return the class itself: what stands in brackets is for checkers and editors."""
        return cls

    @property
    def step(self) -> str:
        """The step's name."""
        return self._ops.node.name

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._ops.host.run_id

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers this step has got so far: value, by whom, when, and everyone who voted (``voters``)."""
        return tuple(self._answers)

    @property
    def effect_key(self) -> str:
        """A key for the next ``ctx.call``, the same whenever the step runs again: for outside idempotency keys."""
        return f"{self.run_id}:{self._ops.called}.{self._ops.activation}:{self._ops.replay.upcoming()}"

    @overload
    def ask(
        self, card: ToolCall, answer: None = None, **terms: Unpack[AskTerms]
    ) -> Coroutine[Any, Any, ToolDecision]: ...

    @overload
    def ask(
        self, card: Approval[T], answer: None = None, **terms: Unpack[AskTerms]
    ) -> Coroutine[Any, Any, Decision[T]]: ...

    @overload
    def ask(
        self, card: Choice | Question | str, answer: None = None, **terms: Unpack[AskTerms]
    ) -> Coroutine[Any, Any, str]: ...

    @overload
    def ask(
        self, card: Choice[Literal[True]], answer: None = None, **terms: Unpack[AskTerms]
    ) -> Coroutine[Any, Any, list[str]]: ...

    @overload
    def ask(self, card: Card | str, answer: type[T], **terms: Unpack[AskTerms]) -> Coroutine[Any, Any, T]: ...

    @overload
    def ask(self, card: Card | str, answer: JsonObject, **terms: Unpack[AskTerms]) -> Coroutine[Any, Any, Any]: ...

    def ask(
        self,
        card: Card | str,
        answer: Any = None,
        *,
        by: str | Sequence[str] = (),
        not_by: str | Sequence[str] = (),
        due: datetime | Duration | None = None,
        policy: Policy | None = None,
        name: str | None = None,
        same: str | Sequence[str] | None = None,
        **unknown: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Ask people and wait, for days if need be: the run parks. Returns the typed answer.

        ``Approval`` gives a ``Decision`` unless ``answer`` is given; ``Choice`` the option's name; ``ToolCall`` a
        ``ToolDecision``; ``Question`` text unless ``answer`` says otherwise; ``Form`` needs ``answer``: a type, or a
        JSON Schema as a dict. ``by``: users or groups that may answer; ``not_by``: users or groups that may not
        (``requester``: the person who started the run, or edited it). ``due``: when it is late. ``policy`` says this
        and more: how many, reminder, escalation, what counts if no answer comes in time; what it leaves out is the
        workflow's own policy.

        The step runs again from its top once it is answered. ``same``: the parts of the card that must then be what
        they were when it was asked; ``("subject", "body", "proposal", "consequence", "undo")`` by default, and
        ``evidence`` where nothing is proposed. If one is not, people are asked again, or it is a ``ReplayMismatch``
        where later operations rest on it. What the answer must be, the actions and the tool's name always count.
        """
        RecordedCall.refuse(self._ops, "ctx.ask")
        refuse_unknown(unknown)
        asking = prepare(card, answer)
        until = due if isinstance(due, datetime) else None
        said = policy_of(policy, {"by": by, "not_by": not_by, "due": None if until else due})
        terms = said.over(self._ops.node.policy).resolved(getattr(card, "proposal", None))
        keep = parts_to_keep(asking.card, same, asking.same)
        identity = identify(asking.card, asking.schema if asking.form is None else asking.form, keep)
        entry: JournalEntry = {"k": "ask", "name": name or asking.kind}
        if asking.seen is not None:
            entry["seen"] = asking.seen
        elif "proposal" not in keep and "proposal" in asking.card:
            entry["seen"] = {"proposal": asking.card["proposal"]}
        asked = self._asked(asking, entry, terms, until)
        index = self._ops.issue(entry, asked.request, identity=identity)
        return self._ops.expect(index, "ask", self._await_answer(index, asked))

    @overload
    def receive(
        self, signal: str, kind: type[T], *, due: datetime | Duration | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def receive(
        self, signal: str, kind: Any = None, *, due: datetime | Duration | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Any]: ...

    def receive(
        self, signal: str, kind: Any = None, *, due: datetime | Duration | None = None, name: str | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal: a message that a person or a program sends into the run. Returns it as ``kind``.

        The run parks. One that came earlier is received at once; each is received once, in the order they were sent.
        ``kind``: a type, or a JSON Schema as a dict; any JSON value by default. ``due``: when the run fails if none
        has come. ``name``: what it is called in the record, where that must stay the same.
        """
        RecordedCall.refuse(self._ops, "ctx.receive")
        terms = policy_of(None, fails_after(due, self._ops.host.now()))
        entry: JournalEntry = {"k": "ask", "name": name or f"signal {signal}"}
        asked = self._asked(waiting_for(signal, kind), entry, terms, prefix=key_prefix(signal))
        index = self._ops.issue(entry, asked.request)
        return self._ops.expect(index, "receive", self._await_answer(index, asked))

    def _asked(
        self, asking: Asking, entry: JournalEntry, terms: Policy, due: datetime | None = None, prefix: str = ""
    ) -> PendingQuestion:
        """Return a question with its types named in its schema, so that answers are checked when they are given."""
        now, key = self._ops.host.now(), f"{prefix}{self.step}-{self._ops.activation}"

        def request(place: int) -> Request:
            named = replace(asking, schema=marked(asking.schema, asking.types, self._ops.node.function))
            return make_request(f"{key}.{place}", self.step, named, terms, due=due, now=now)

        return PendingQuestion(asking, entry, request)

    async def _await_answer(self, index: int, asked: PendingQuestion) -> Any:
        entry = await self._ops.wait(index, people=True)
        found = entry["answer"]
        key, at = entry["request"], datetime.fromisoformat(found["at"])
        try:
            value = asked.asking.read(found["value"], entry.get("seen"))
        except WrongType as error:
            if not self._ops.ask_again(index, asked, str(error)):
                raise
            return await self._await_answer(index, asked)
        given = {"by": found["by"], "at": at, "acting_for": found.get("acting_for"), "others": found.get("others", ())}
        self._answers.append(Answer(key=key, value=copy_plain(found["value"]), **given))
        if isinstance(value, Given):
            return value.model_copy(update={"by": found["by"], "at": at, "lapsed": bool(found.get("lapsed"))})
        return value

    @overload
    def call(
        self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, once: bool = False, **kwargs: Any
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self, function: Callable[..., T], *args: Any, once: bool = False, **kwargs: Any
    ) -> Coroutine[Any, Any, T]: ...

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
        codec = codec_for(return_type(function))
        entry: JournalEntry = {"k": "call", "name": name or name_of(function)}
        if once:
            kept = intent(function, args, kwargs, self._ops.host.now())
            entry |= {"once": True, "schema": codec.schema(), "args": kept["args"], "at": kept["at"]}
        if key := self.effect_key if self._ops.replay.has_guessed() else "":
            entry["keyed"] = True
        if not self._ops.replay.is_alone() and not is_large([args, kwargs]):
            shown = json.dumps(to_display([args, kwargs]), sort_keys=True)
            entry["prints"] = {ARGUMENTS: digest(shown.replace(key, "") if key else shown)}
            if self._ops.replay.is_another(("call", entry["name"]), entry["prints"]):
                again = partial(self.call, function, *args, once=once, name=name, retry=retry, **kwargs)
                return self._once_found(entry, again)
        fresh = len(self._ops.replay.entries)
        index, called = self._ops.issue(entry), chosen(entry["name"], function)
        was = self._ops.entry(index)
        if key and not CLOSED & was.keys() and key != (own := f"{key.rpartition(':')[0]}:{was['t']}.0"):
            args, kwargs, kept = replaced([args, kwargs, entry.get("args", {})], key, own)
            entry |= {"args": kept} if once else {}
        made = self._call(
            index, index == fresh, entry, codec, lambda: self._invoke(entry["name"], called, args, kwargs), retry
        )
        return self._ops.expect(index, "call", made)

    async def _once_found(self, entry: JournalEntry, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self._ops.others_found(entry["name"], entry["prints"])
        return await call()

    async def _invoke(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        ops = self._ops
        with ops.counted(waits=1):
            await ops.host.confirm()
        made = RecordedCall(ops, name)
        with ops.counted(works=1), made.underway():
            return await invoke_function(function, args, kwargs, name), made.facts()

    async def _pause(self, seconds: float) -> None:
        with self._ops.counted(waits=1):
            await asyncio.sleep(seconds)

    async def _call(
        self, index: int, fresh: bool, now: JournalEntry, codec: Codec, invoke: Invoke, retry: Retry | None
    ) -> Any:
        entry = await await_decision(self._ops, index, now)
        if "stopped" in entry:
            raise CallStopped(f"call {entry['name']!r} was stopped: its outcome is unknown")
        if "raised" in entry and "result" not in entry:
            raise self._raised(index, decode_exception(entry["raised"], self._ops.home))
        if "result" not in entry:
            entry = await self._perform(index, fresh, codec, invoke, retry)
        return codec.decode(entry["result"][1], f"result of {entry['name']!r}")

    async def _perform(
        self, index: int, fresh: bool, codec: Codec, invoke: Invoke, retry: Retry | None
    ) -> JournalEntry:
        ops, entry = self._ops, self._ops.entry(index)
        once = bool(entry.get("once"))
        ops.calling += 1
        ops.calling_once += once
        try:
            if fresh and (once or "keyed" in entry):
                await ops.wait(index, people=False)
            ops.reopen(index)
            try:
                value, facts = await retrying(invoke, retry, self._pause)
                data = codec.encode(value, f"result of {entry['name']!r}")
            except Exception as error:
                await self._report_failure(index, once, self._raised(index, error))
                raise
            now = ops.host.now()
            ops.host.post(CallDone(at=now, activation=ops.activation, index=index, result=[None, data], facts=facts))
            return await ops.wait(index, people=False)
        finally:
            ops.calling -= 1
            ops.calling_once -= once
            ops.host.recheck_idle()

    def _raised(self, index: int, error: Exception) -> Exception:
        self._ops.errors[index] = error
        return error

    async def _report_failure(self, index: int, once: bool, error: Exception) -> None:
        """Have it recorded that the call raised: a step that handles it must take the same way when it runs again."""
        ops, raised = self._ops, encode_exception(error, self._ops.home)
        if raised is not None:
            raised["at"] = len(ops.replay.entries)
        said = f"{type(error).__name__}: {message_of(error)}"
        ops.host.post(CallDone(at=ops.host.now(), activation=ops.activation, index=index, failed=said, raised=raised))
        if once:
            await ops.wait(index, people=False)
        elif raised is not None:
            ops.replay.entries[index] = {**ops.entry(index), "raised": raised}

    def sleep(self, duration: Duration | None = None, *, until: datetime | None = None) -> Coroutine[Any, Any, None]:
        """Wait: ``"4h"``, ``"1d 12h"``, seconds or a timedelta, or until an aware datetime. Recorded: it is not slept
        again.
        """
        now = self._ops.host.now()
        if (duration is None) == (until is None):
            raise InvalidCall("ctx.sleep needs either a duration or until=")
        try:
            until = now + span_of(duration) if duration is not None else until
        except ValueError as error:
            raise InvalidCall(f"ctx.sleep: {error}") from error
        if until is None or until.tzinfo is None:
            raise InvalidCall("ctx.sleep(until=...) needs an aware datetime")
        until = until.astimezone(UTC)
        save = (until - now).total_seconds() > self._ops.host.park_after
        index = self._ops.issue({"k": "sleep", "name": "sleep", "until": until.isoformat()}, save=save)
        self._ops.host.wake_at(datetime.fromisoformat(self._ops.entry(index)["until"]))
        return self._ops.expect(index, "sleep", self._await_end(index, people=True))

    async def _await_end(self, index: int, *, people: bool) -> None:
        await self._ops.wait(index, people=people)

    def checkpoint(self, label: str) -> Coroutine[Any, Any, None]:
        """Save here under a name; returns once it is durable. Retention keeps what has a label.

        The step's own writes to the state are not in it: they land when the step ends. It is not saved again when
        the step runs again. ``label``: text of 1 to 200 characters.
        """
        try:
            check_label(label)
        except ValueError as error:
            raise InvalidCall(f"ctx.checkpoint: {error}") from error
        index = self._ops.issue({"k": "label", "name": "checkpoint", "label": label})
        return self._ops.expect(index, "checkpoint", self._await_end(index, people=False))

    def emit(self, name: str, data: Json = None) -> None:
        """Add an event of your own to the run: ``name`` and JSON ``data``."""
        check_plain(data, f"event {name!r}")
        self._ops.host.event(self._ops.activation, EventKind.CUSTOM, {"name": name, "data": copy_plain(data)})

    def progress(self, fraction: float | None = None, text: str = "") -> None:
        """Say how far the step is: a fraction from 0 to 1, or None if unknown."""
        if fraction is not None and not 0 <= fraction <= 1:
            raise InvalidCall(f"ctx.progress takes a fraction from 0 to 1, not {fraction!r}")
        check_plain(text, "progress")
        if type(text) is not str:
            raise NotStorable(f"ctx.progress takes text, not {type(text).__name__}")
        self._ops.host.event(self._ops.activation, EventKind.PROGRESS, {"fraction": fraction, "text": text})

    def title(self, text: str) -> None:
        """Say what the run is called, to everyone who sees it: one line, at most 120 characters are kept.

        The last one said counts. It replaces the workflow's ``run_title``, and stays when the run is restored.
        """
        check_plain(text, "title")
        line = cleaned(text) if type(text) is str else ""
        if not line:
            raise InvalidCall("ctx.title takes a text that can be read")
        if not self._ops.replay.is_behind():
            self._ops.host.event(self._ops.activation, EventKind.RUN_TITLED, {"title": line})

    def usage(
        self,
        *,
        model: str,
        input: int = 0,  # noqa: A002
        output: int = 0,
        cost: Decimal | float | str | None = None,
        provider: str | None = None,
    ) -> None:
        """Say what a model has used: tokens in and out, and what that cost, in the currency of the dashboard.

        Without ``cost`` the operator's prices say it (``WFDASH_PRICES``); for a model without one, tokens are counted
        and the cost is unknown. ``input`` and ``output``: 0 to 1,000,000,000 tokens; ``cost``: 0 to 10,000, counted to
        the billionth; ``provider``: who runs the model, for traces. ``run_agent`` says it by itself.

        Inside of a ``ctx.call``, where it belongs, it counts each time the call is really made, one that fails
        included. Elsewhere it counts once, however often the step runs again after an answer or a crash; another
        attempt after a failure counts again, but not right behind a recorded call whose result it is given.
        ``InvalidCall`` names the argument that is wrong.
        """
        try:
            used = usage_of(model, input, output, cost, provider)
        except InvalidValue as error:
            raise InvalidCall(f"ctx.usage: {error}") from error
        ops = self._ops
        if made := RecordedCall.made_by(ops):
            ops.host.event(ops.activation, EventKind.USAGE, {**used, "ms": made.ms()})
        elif (place := ops.place_of_usage()) is not None:
            ops.host.tell(ModelUsed(at=ops.host.now(), activation=ops.activation, place=place, used=used))

    def transcript(self, messages: Sequence[Message | Mapping[str, Any]]) -> None:
        """Say what the step's conversation with a model is by now: all messages, from the first.

        It is in the checkpoints that follow, and shown on the run's page. Said again while the step is replayed, it
        changes nothing.
        """
        try:
            read = unpack_transcript([one if isinstance(one, Message) else dict(one) for one in messages])
        except (ValueError, TypeError) as error:
            raise InvalidCall(f"ctx.transcript takes messages: {error}") from error
        ops = self._ops
        said, packed = ops.said
        same = sum(takewhile(bool, map(is_, said, read)))
        # A message that was said before stays as it was packed: the same object.
        ops.said = read, [*packed[:same], *to_display(pack_transcript(read[same:]))]
        ops.host.tell(TranscriptGrown(at=ops.host.now(), activation=ops.activation, messages=ops.said[1]))

    def stream(self, text: str) -> None:
        """Show text while it is made. It is not stored."""
        self._ops.host.stream(self.step, text)


async def await_decision(ops: StepOps, index: int, now: JournalEntry) -> JournalEntry:
    """Return a call's journal entry once its outcome is decided. ``now``: what the code passes this time.

    People are asked again where that is not what they were shown; ``ReplayMismatch`` if it differs each time.
    """
    entry = ops.begin(index)
    while True:
        if "unknown" in entry:
            entry = await ops.wait(index, people=True)
        if not _differs(entry, now):
            return entry
        if entry.get("differed", 0) >= MOST_AGAIN:
            raise ReplayMismatch(
                f"step {ops.node.name!r} passed other arguments to {entry['name']!r} each time it ran: get what"
                " changes through ctx.call, so that it is recorded"
            )
        ops.reopen(index)
        at = ops.host.now()
        intent: CallIntent = {"args": now["args"], "at": now["at"]}
        ops.host.post(CallDiffers(at=at, activation=ops.activation, index=index, intent=intent))
        entry = await ops.wait(index, people=True)


def _differs(entry: JournalEntry, now: JournalEntry) -> bool:
    """Say whether a call is to be made again that is not the one that was shown; older ones showed no arguments."""
    if not entry.get("again") or "args" not in entry:
        return False
    return json.dumps(entry["args"], sort_keys=True) != json.dumps(now.get("args"), sort_keys=True)
