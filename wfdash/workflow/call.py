"""One call of ``run``: which arguments go together, and the drive they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.errors import Incompatible
from checkpoints.ids import RequestKey, RunId, WorkflowId, new_run_id
from checkpoints.records import Answer, Checkpoint, Commit, EventDraft, Request
from checkpoints.storage import Recorder
from wfdash.contract import InvalidInput, Outcome
from wfdash.schema import problems_of
from wfdash.skew import facts_of, migrated_checkpoint
from wfdash.workflow.answertypes import check_answer
from wfdash.workflow.book import Book
from wfdash.workflow.carry import carry
from wfdash.workflow.draft import new_moment
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.graph import Graph
from wfdash.workflow.inputs import pack_input
from wfdash.workflow.loop import Drive
from wfdash.workflow.migration import Way
from wfdash.workflow.recorders import Tap, recorder_for
from wfdash.workflow.ticks import Answered, Began, Moment, Resumed, Tick, TimeCame


class Unset:
    """The message was not given (None is a message)."""


UNSET = Unset()

Show = Callable[[EventDraft, Checkpoint | None], None]


@dataclass(frozen=True, slots=True)
class Ready:
    """A drive with its first ticks."""

    drive: Drive
    ticks: tuple[Tick, ...]

    async def go(self) -> Outcome:
        """Drive it."""
        return await self.drive.go(*self.ticks)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    message: Any
    answers: Mapping[Any, Any] | None
    checkpoint: Checkpoint | str | None
    storage: object
    run_id: RunId | None
    park_after: float

    async def prepare(self, name: str, graph: Graph, show: Show | None = None, *, hooks: tuple[Way, ...] = ()) -> Ready:
        """Refuse what does not go together, then make the drive. Nothing has run yet."""
        self._refuse_nonsense()
        recorder = recorder_for(self.storage)
        if show is not None:
            recorder = Tap(recorder, show)
        if self.message is not UNSET:
            return self._begin(name, graph, recorder)
        found = await self._find()
        refuse_foreign(name, found)
        migrated = None if found.version == graph.version else migrate(graph, hooks, found, recorder.now())
        current = migrated.checkpoint if migrated is not None and migrated.checkpoint is not None else found
        answers = read_answers(graph, current, self.answers or {})
        if migrated is not None:
            await recorder.commit(migrated)
        return self._resume(name, graph, recorder, current, answers)

    def _refuse_nonsense(self) -> None:
        starts = self.message is not UNSET
        if starts and self.checkpoint is not None:
            raise InvalidCall("message= starts a run and checkpoint= continues one: give one of them")
        if starts and self.answers:
            raise InvalidCall("message= starts a run, which has no requests to give answers= to")
        if starts:
            return
        if isinstance(self.checkpoint, str) and (self.storage is None or self.run_id is None):
            raise InvalidCall("checkpoint= as an id needs storage= and run_id= to load it from")
        if self.checkpoint is None and (self.storage is None or self.run_id is None):
            raise InvalidCall(
                "give message= to start, checkpoint= to continue, or run_id= and storage= to find the latest"
            )

    async def _find(self) -> Checkpoint:
        if isinstance(self.checkpoint, Checkpoint):
            if self.run_id is not None and self.run_id != self.checkpoint.run:
                raise InvalidCall(f"checkpoint= belongs to run {self.checkpoint.run}, not to run_id= {self.run_id}")
            return self.checkpoint
        method = "load" if isinstance(self.checkpoint, str) else "get_latest"
        load = getattr(self.storage, method, None)
        if load is None:
            raise InvalidCall(f"storage= has no {method}(): give checkpoint= as a record")
        found = await (load(self.run_id, self.checkpoint) if self.checkpoint else load(self.run_id))
        if found is None:
            raise InvalidCall(f"run_id= {self.run_id}: the storage has no checkpoint of this run")
        return found  # type: ignore[no-any-return]

    def _begin(self, name: str, graph: Graph, recorder: Recorder) -> Ready:
        routes = pack_input(graph, self.message)
        book = Book(self.run_id or new_run_id(), WorkflowId(name), graph.version, None)
        rule = graph.state
        state = {key: rule.codecs[key].encode(make(), f"state.{key}") for key, make in rule.defaults.items()}
        began = Began(at=recorder.now(), routes=routes, state=state)
        return Ready(Drive(graph, recorder, book, new_moment(graph), self.park_after), (began,))

    def _resume(
        self, name: str, graph: Graph, recorder: Recorder, checkpoint: Checkpoint, answers: dict[RequestKey, Answer]
    ) -> Ready:
        moment = Moment(
            state=checkpoint.body["state"],
            position=checkpoint.body["position"],
            requests={request.key: request for request in checkpoint.requests},
        )
        book = Book(checkpoint.run, WorkflowId(name), graph.version, checkpoint)
        now = recorder.now()
        ticks: tuple[Tick, ...] = (Resumed(at=now), Answered(at=now, answers=answers), TimeCame(at=now))
        return Ready(Drive(graph, recorder, book, moment, self.park_after), ticks)


def refuse_foreign(name: str, checkpoint: Checkpoint) -> None:
    """Raise ``Incompatible`` for a checkpoint of another workflow or engine."""
    if checkpoint.engine != "native" or checkpoint.workflow != name:
        raise Incompatible(
            f"the checkpoint belongs to workflow {checkpoint.workflow!r} ({checkpoint.engine}), not to {name!r}"
        )


def migrate(graph: Graph, hooks: tuple[Way, ...], old: Checkpoint, now: datetime) -> Commit:
    """Return what takes a checkpoint of an older graph to this one; ``Incompatible`` if nothing leads here."""
    carried = carry(graph, hooks, old, None)
    fresh = migrated_checkpoint(old, carried, version=graph.version, created=now)
    event = EventDraft(kind="run.migrated", data=facts_of(carried, old.version, graph.version))
    return Commit(run=old.run, checkpoint=fresh, events=(event, *carried.events), closed=carried.closed)


def read_answers(graph: Graph, checkpoint: Checkpoint, given: Mapping[Any, Any]) -> dict[RequestKey, Answer]:
    """Return the answers as records; unknown keys and values that do not fit their request are refused."""
    pending = {request.key: request for request in checkpoint.requests}
    unknown = [str(key) for key in given if key not in pending]
    if unknown:
        known = ", ".join(pending) or "none"
        raise InvalidCall(f"answers= for {', '.join(unknown)}: no such pending request (pending: {known})")
    return {key: _answer(graph, pending[key], value) for key, value in given.items()}


def _answer(graph: Graph, request: Request, value: Any) -> Answer:
    answer = value if isinstance(value, Answer) else Answer(key=request.key, value=_jsonable(value))
    found = problems_of(request.answer_schema, answer.value) or check_answer(graph, request, answer.value)
    if found:
        raise InvalidInput([{"loc": [request.key, *problem["loc"]], "msg": problem["msg"]} for problem in found])
    return answer


def _jsonable(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
