"""A call of ``run``: its arguments checked together, the checkpoint it continues from, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from checkpoints import rules
from checkpoints.errors import Conflict, Damaged, Incompatible
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.manager import CheckpointManager
from checkpoints.records import Answer, Checkpoint, Commit, EventDraft, JsonObject, Reason, Request
from checkpoints.storage import Recorder, RemembersAnswers
from wfdash.contract import InvalidInput
from wfdash.domain.graph_diff import facts_of, migrated_checkpoint
from wfdash.domain.search_attributes import title_of
from wfdash.questions.card import Given
from wfdash.questions.policy import Duration, span_of
from wfdash.values.codec import FLAT, is_large
from wfdash.values.schemas.validate import answer_problems
from wfdash.workflow.answers import check_answer
from wfdash.workflow.authoring import MigrationHook
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.graph import Graph
from wfdash.workflow.migration import carry, state_after
from wfdash.workflow.reducer.moment import moment_of, new_moment
from wfdash.workflow.reducer.routing import accept_input, pack_input
from wfdash.workflow.reducer.ticks import AnswersArrived, Route, RunResumed, RunStarted, TimePassed
from wfdash.workflow.runtime.drive import Drive
from wfdash.workflow.runtime.invoke import still_running
from wfdash.workflow.runtime.recorders import ClaimingRecorder, StorageLike, UnreadEvents, recorders_for
from wfdash.workflow.runtime.step_run import CONVERT_SECONDS
from wfdash.workflow.stored import position_in

Prepare: TypeAlias = Callable[[UnreadEvents | None], Awaitable[Drive]]
"""Makes the drive, which shows its events to a reader where there is one. Nothing has run by then."""


class Unset:
    """The message was not given (None is a message)."""


UNSET: Any = Unset()


async def begin(
    graph: Graph,
    message: Any,
    follows: Checkpoint | None,
    storage: StorageLike,
    run: RunId,
    park_after: float,
    run_title: str,
    unread: UnreadEvents | None,
) -> Drive:
    """Return the drive of a new run."""
    if follows is not None:
        refuse_foreign(graph.name, follows)
    state, (recorder, claiming) = state_after(graph, follows), recorders_for(storage, run, unread)
    # A recorder's run was named by its creator, as those of a worker are.
    is_named = not run_title or claiming is None or follows is not None

    def pack() -> tuple[tuple[Route, ...], str]:
        routes = pack_input(graph, message, follow_up=follows is not None)
        return routes, "" if is_named else title_of(run_title, accept_input(graph, message)[1], graph.secrets)

    if type(message) in FLAT or not is_large(message):
        routes, title = pack()
    else:
        try:
            async with asyncio.timeout(CONVERT_SECONDS):
                routes, title = await asyncio.to_thread(pack)
        except TimeoutError as error:
            words = f"It took longer than {CONVERT_SECONDS:g} s to read: give the address of what is large"
            raise InvalidInput([{"loc": [], "msg": words}]) from error
    return Drive(
        graph,
        recorder,
        new_moment(graph),
        RunStarted(at=recorder.now(), routes=routes, state=state, title=title),
        run=run,
        # Handed over by who has stored it as the new run's own first checkpoint, or that of the completed run.
        checkpoint=follows if follows is not None and follows.run == run else None,
        park_after=park_after,
        manager=storage if isinstance(storage, CheckpointManager) else None,
        claiming=claiming,
    )


async def resume(
    graph: Graph,
    hooks: tuple[MigrationHook, ...],
    answers: Mapping[Any, Any],
    chosen: Checkpoint | CheckpointId | None,
    storage: StorageLike,
    run_id: RunId | None,
    park_after: float,
    unread: UnreadEvents | None,
) -> Drive:
    """Return the drive of a run that continues, carried over to this graph, with what was answered."""
    found, kept = await find_checkpoint(chosen, storage, run_id)
    refuse_foreign(graph.name, found)
    recorder, claiming = recorders_for(storage, found.run, unread)
    migrated = None if found.version == graph.version else migrate(graph, hooks, found, recorder.now())
    current = migrated.checkpoint if migrated is not None and migrated.checkpoint is not None else found
    taken = await read_answers(graph, current, answers, storage)
    if claiming is not None:
        try:
            taken = await claim_run(claiming, recorder, graph, found, current, kept, migrated, taken)
        except BaseException:
            async with claiming.held():  # Gives back what was taken.
                raise
    else:
        if not kept and storage is not None and hasattr(storage, "save"):
            await storage.save(found)
        if migrated is not None:
            await recorder.commit(migrated)
    now = recorder.now()
    return Drive(
        graph,
        recorder,
        moment_of(current),
        RunResumed(at=now, running=still_running(current.run)),
        AnswersArrived(at=now, answers=taken),
        TimePassed(at=now),
        run=current.run,
        checkpoint=current,
        park_after=park_after,
        manager=storage if isinstance(storage, CheckpointManager) else None,
        claiming=claiming,
    )


def as_run_id(run: RunId | str | None) -> RunId | None:
    """Return a run's id with its type. ``InvalidCall`` for what is no text, or an empty one."""
    if run is not None and (not isinstance(run, str) or not run):
        raise InvalidCall(
            f"run_id= is {'an empty' if run == '' else 'a'} {type(run).__name__}: an id is text of 1 to 200 characters"
        )
    return None if run is None else RunId(run)


def seconds(park_after: Duration) -> float:
    """Return ``park_after`` in seconds; ``InvalidCall`` says what is wrong with it."""
    try:
        return span_of(park_after).total_seconds()
    except ValueError as error:
        raise InvalidCall(f"park_after: {error}") from error


def typed(checkpoint: Checkpoint | CheckpointId | str | None) -> Checkpoint | CheckpointId | None:
    """Return a checkpoint argument with its type: anything that is neither a record nor None is an id.

    ``InvalidCall`` for what can be neither.
    """
    if isinstance(checkpoint, tuple | list | int):
        raise InvalidCall(f"checkpoint= is a {type(checkpoint).__name__}: give a Checkpoint, or an id, which is text")
    return checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else CheckpointId(checkpoint)


def check_arguments(
    starts: bool, answers: object, checkpoint: object, follows: object, storage: object, run_id: object
) -> None:
    """Raise ``InvalidCall`` for arguments of a wrong type, or that do not go together."""
    if answers is not None and not isinstance(answers, Mapping):
        raise InvalidCall(f"answers= must be a dict of request key to value, not {type(answers).__name__}")
    if isinstance(checkpoint, (Mapping, bytes)) or hasattr(checkpoint, "checkpoint"):
        hint = "outcome.checkpoint" if hasattr(checkpoint, "checkpoint") else "Checkpoint.model_validate(...) of it"
        raise InvalidCall(f"checkpoint= is a {type(checkpoint).__name__}: give {hint}, or an id")
    if isinstance(checkpoint, str) and checkpoint.lstrip().startswith("{"):
        raise InvalidCall("checkpoint= is JSON text: give Checkpoint.model_validate_json(text), or an id")
    if follows is not None and not isinstance(follows, Checkpoint):
        raise InvalidCall(f"follows= must be the last checkpoint of a completed run, not {type(follows).__name__}")
    if follows is not None and not starts:
        raise InvalidCall("follows= needs a message= that follows up on that run")
    if starts and checkpoint is not None:
        raise InvalidCall("message= starts a run and checkpoint= continues one: give one of them")
    if starts and answers:
        raise InvalidCall("message= starts a run, which has no requests to give answers= to")
    if starts or isinstance(checkpoint, Checkpoint):
        return
    if checkpoint is not None and (storage is None or run_id is None):
        raise InvalidCall("checkpoint= as an id needs storage= and run_id= to load it from")
    if storage is None or run_id is None:
        raise InvalidCall("give message= to start, checkpoint= to continue, or run_id= and storage= to find the latest")


async def find_checkpoint(
    chosen: Checkpoint | CheckpointId | None, storage: Any, run_id: RunId | None
) -> tuple[Checkpoint, bool]:
    """Return the checkpoint to continue from, and whether the storage has it.

    A storage that knows its newest one continues from that, or from a later one that it is handed. ``Conflict`` for
    an earlier one, ``InvalidCall`` for what cannot be found.
    """
    if isinstance(chosen, Checkpoint):
        if run_id is not None and run_id != chosen.run:
            raise InvalidCall(f"checkpoint= belongs to run {chosen.run}, not to run_id= {run_id}")
        if not hasattr(storage, "get_latest"):
            return chosen, True
        head = await load_latest(storage, chosen.run)
        if head is None or head.n < chosen.n:
            return chosen, False
        refuse_earlier(chosen, head)
        return chosen, True
    if run_id is None:
        raise InvalidCall("checkpoint= as an id needs storage= and run_id= to load it from")
    head = await load_latest(storage, run_id)
    if chosen is not None:
        if not hasattr(storage, "load"):
            raise InvalidCall("storage= has no load(): give checkpoint= as a record")
        found: Checkpoint = await storage.load(run_id, chosen)
        refuse_earlier(found, head or found)
        return found, True
    if head is None:
        raise InvalidCall(f"run_id= {run_id}: the storage has no checkpoint of this run")
    return head, True


async def load_latest(storage: Any, run: RunId) -> Checkpoint | None:
    """Return a run's newest checkpoint. ``Damaged`` names the remedy."""
    if not hasattr(storage, "get_latest"):
        raise InvalidCall("storage= has no get_latest(): give checkpoint= as a record")
    try:
        found: Checkpoint | None = await storage.get_latest(run)
    except Damaged as error:
        way = "CheckpointManager(storage).recover(run) says which older one is good, and can restore it"
        raise Damaged(f"{error}: {way}", **error.facts) from error
    return found


def refuse_earlier(chosen: Checkpoint, head: Checkpoint) -> None:
    """Raise ``Conflict`` for a checkpoint that is not the run's newest: continuing from it is an explicit choice."""
    if chosen.id == head.id:
        return
    text = (
        f"checkpoint {chosen.n} is not the newest one of its run, {head.n} is. To take the run back, "
        "await CheckpointManager(storage).restore(run, checkpoint) first; to begin another run there, storage.fork()"
    )
    raise Conflict(text, run=head.run, checkpoint=chosen.id, n=chosen.n, head=head.id)


async def claim_run(
    claiming: ClaimingRecorder,
    recorder: Recorder,
    graph: Graph,
    found: Checkpoint,
    current: Checkpoint,
    kept: bool,
    migrated: Commit | None,
    given: Mapping[RequestKey, Answer],
) -> dict[RequestKey, Answer]:
    """Take the run and write what must be durable before any step: returns the answers it continues with.

    That is a checkpoint that was handed over, one that was migrated, and answers that are given. ``AlreadyAnswered``.
    """
    accepted = await claiming.journal.read_answers(found.run)
    answers = merge_answers(graph, current, given, accepted)
    if found.reason is Reason.END and kept and migrated is None:
        return answers  # It has ended: nothing will run, so it needs no claim.
    if kept:
        await claiming.take(found.id)
    else:
        await store_handed_over(claiming, found)
    if migrated is not None:
        await recorder.commit(migrated)
    news = {key: answer for key, answer in given.items() if key not in accepted}
    if news:
        await recorder.commit(acceptance_of(current, news))
    accepted = await claiming.journal.read_answers(found.run)
    claiming.handed_out(accepted)
    return merge_answers(graph, current, given, accepted)


async def store_handed_over(claiming: ClaimingRecorder, handed: Checkpoint) -> None:
    """Store a checkpoint that is further on than what the storage has, with the requests that are pending in it."""
    head = await claiming.journal.get_latest(handed.run) if hasattr(claiming.journal, "get_latest") else None
    if head is not None:
        await claiming.take(head.id)
    gone = {request.key for request in head.requests} if head is not None else set()
    closed = tuple(sorted(gone - {request.key for request in handed.requests}))
    await claiming.commit(Commit(run=handed.run, checkpoint=handed, opened=handed.requests, closed=closed))


def refuse_foreign(name: str, checkpoint: Checkpoint) -> None:
    """Raise ``Incompatible`` for a checkpoint of another workflow or engine, ``Damaged`` for one without a position."""
    if checkpoint.engine != "native" or checkpoint.workflow != name:
        raise Incompatible(
            f"the checkpoint belongs to workflow {checkpoint.workflow!r} ({checkpoint.engine}), not to {name!r}"
        )
    if position_in(checkpoint.body) is None or not isinstance(checkpoint.body.get("state"), dict):
        words = "the checkpoint's body has no state and position as run() writes them: give one that it returned"
        raise Damaged(words, run=checkpoint.run, checkpoint=checkpoint.id)


def migrate(graph: Graph, hooks: tuple[MigrationHook, ...], old: Checkpoint, now: datetime) -> Commit:
    """Return what takes a checkpoint of an older graph to this one; ``Incompatible`` if nothing leads here."""
    carried = carry(graph, hooks, old, None)
    fresh = migrated_checkpoint(old, carried, version=graph.version, created=now)
    event = EventKind.RUN_MIGRATED.draft(**facts_of(carried, old.version, graph.version))
    return Commit(run=old.run, checkpoint=fresh, events=(event, *carried.events), closed=carried.closed)


async def read_answers(
    graph: Graph, checkpoint: Checkpoint, given: Mapping[Any, Any], storage: object
) -> dict[RequestKey, Answer]:
    """Return the answers as records. ``InvalidInput`` for a value that does not fit its request.

    ``AlreadyAnswered`` for a request that was answered before and is gone, as far as the storage can tell;
    ``InvalidCall`` for a key that was never asked.
    """
    pending = {request.key: request for request in checkpoint.requests}
    unknown = [key for key in given if key not in pending]
    if unknown and isinstance(storage, RemembersAnswers):
        past = await storage.read_past_answers(checkpoint.run)
        for key in unknown:
            if key in past:
                raise rules.already_answered(past[key], checkpoint.run)
    if unknown:
        raise InvalidCall(
            f"answers= for {', '.join(map(str, unknown))}: no such pending request"
            f" (pending: {', '.join(pending) or 'none'})"
        )
    accepted = isinstance(storage, Recorder)
    return {key: _answer(graph, pending[key], value, accepted) for key, value in given.items()}


def merge_answers(
    graph: Graph, checkpoint: Checkpoint, given: Mapping[RequestKey, Answer], accepted: Mapping[RequestKey, Answer]
) -> dict[RequestKey, Answer]:
    """Return the answers the run continues with: what was accepted, and what is given for the rest.

    ``AlreadyAnswered`` if another value was accepted; ``InvalidInput`` if an accepted one does not fit its request,
    with the way to ask again.
    """
    pending = {request.key: request for request in checkpoint.requests}
    for key, answer in given.items():
        rules.is_first_answer(checkpoint.run, answer, accepted.get(key))
    try:
        taken = {key: _answer(graph, pending[key], answer, True) for key, answer in accepted.items() if key in pending}
    except InvalidInput as error:
        way = f"accepted before; await CheckpointManager(storage).restore(run, {checkpoint.id!r}) asks again"
        raise InvalidInput([{**one, "msg": f"{one['msg']} ({way})"} for one in error.errors]) from error
    return {**given, **taken}


def acceptance_of(checkpoint: Checkpoint, given: Mapping[RequestKey, Answer]) -> Commit:
    """Return the commit that records answers before anything runs with them."""
    steps = {request.key: request for request in checkpoint.requests}
    events = tuple(_answered(steps[key], answer) for key, answer in given.items())
    return Commit(run=checkpoint.run, answered=tuple(given.values()), events=events)


def _answered(request: Request, answer: Answer) -> EventDraft:
    facts: JsonObject = {"key": request.key, "subject": str(request.card.get("subject") or "")}
    facts |= {"by": answer.by, "verdict": rules.verdict_of(answer.value)}
    return EventKind.REQUEST_ANSWERED.draft(request.step, **facts)


def _answer(graph: Graph, request: Request, value: Any, accepted: bool) -> Answer:
    """Return a value as the answer to a request. The type of one that was accepted may have changed since.

    Then its step asks once more.
    """
    if isinstance(value, Answer):
        answer = value
    else:
        partly = isinstance(value, Given)
        plain = value.model_dump(mode="json", exclude_unset=partly) if hasattr(value, "model_dump") else value
        answer = Answer(key=request.key, value=plain)
    if answer.key != request.key:
        raise InvalidCall(f"answers= for {request.key}: the Answer has key={answer.key!r}")
    found = answer_problems(request.card, request.answer_schema, answer.value)
    found = found or ([] if accepted else check_answer(graph, request, answer.value))
    if found:
        raise InvalidInput([{"loc": [request.key, *one["loc"]], "msg": one["msg"]} for one in found])
    return answer
