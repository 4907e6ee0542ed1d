"""The checkpoint a call of ``run`` continues from: found in what it was given and in its storage, and claimed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.errors import Conflict, Damaged
from checkpoints.ids import CheckpointId, RequestKey, RunId
from checkpoints.records import Answer, Checkpoint, Commit, Reason
from checkpoints.storage import Recorder
from wfdash.workflow.compiler.graph import Graph
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.given_answers import acceptance_of, merge_answers
from wfdash.workflow.runtime.run_claim import ClaimingRecorder


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


async def store_checkpoint(storage: Any, handed: Checkpoint) -> None:
    """Store a checkpoint that a storage was handed and does not have."""
    if hasattr(storage, "save"):
        await storage.save(handed)


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
