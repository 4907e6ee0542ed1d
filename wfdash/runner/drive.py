"""Drive one claimed run: build the input from tables alone, call the engine, see to it that the end is recorded.

A crash and an answer take the same road: whatever the reason a run is due, it resumes from its latest checkpoint
with the answers that have been accepted. Only a run that has no checkpoint yet starts. A run of another graph is
carried over to the loaded one by what its author declared, or held.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass

from checkpoints.errors import CheckpointsError, ClaimLost, Damaged
from checkpoints.orm import DatabaseStorage
from checkpoints.records import Claim, Commit, ErrorInfo, EventDraft, Phase, RunFacts, Standing
from wfdash import catalog, tracing
from wfdash.contract import Outcome, Resume, RunInput, Start
from wfdash.errors import WfdashError
from wfdash.runner.held import carry_or_hold
from wfdash.runner.recorder import ClaimedRecorder

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
"""How often in a row a run may be taken over without having made a step, before it fails."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """How long a claim lasts without being renewed, and how often it is renewed, in seconds."""

    ttl: float = 10.0
    heartbeat: float = 3.0


async def advance(storage: DatabaseStorage, recorder: ClaimedRecorder, facts: RunFacts, lease: Lease) -> Outcome | None:
    """Drive a claimed run until it ends, parks or is lost. Returns None when somebody else has it now."""
    claim = recorder.lease
    try:
        async with _heartbeat(storage, claim, lease):
            recorder.trace = await tracing.follow(claim, facts)
            return await _drive(storage, recorder, facts)
    except ClaimLost:
        log.info("Run %s was taken from this worker", claim.run)
        return None
    except asyncio.CancelledError:
        await asyncio.shield(storage.release(claim))
        raise
    except Exception as error:
        if storage.is_outage(error):
            await _let_go(storage, claim, error)
        else:
            await fail(recorder, error)
        return None
    finally:
        recorder.trace.close()


async def _let_go(storage: DatabaseStorage, claim: Claim, error: Exception) -> None:
    """Give the run back: it is the database that failed, so it goes on once the database is there again."""
    log.error("The database did not serve run %s, it will be tried again: %s", claim.run, error)
    try:
        await storage.release(claim)
    except Exception:
        log.info("The claim of run %s could not be released either; it will expire", claim.run)


async def _drive(storage: DatabaseStorage, recorder: ClaimedRecorder, facts: RunFacts) -> Outcome | None:
    if facts.attempts > MAX_ATTEMPTS:
        raise WfdashError(
            f"Taken over {facts.attempts} times in a row without finishing a step: "
            "look at what the step does to its worker, then retry the run"
        )
    entry = catalog.find(facts.workflow)
    if entry is None or (facts.version and facts.version != entry.description.version):
        if not await carry_or_hold(recorder.lease):
            return None
        facts, entry = await storage.read_run(recorder.lease.run), catalog.get(facts.workflow)
    given = await _read_input(storage, recorder, facts)
    if recorder.lease.recovered:
        await recorder.commit(_recovered(recorder.lease))
    return await entry.engine.drive(entry.definition, given, recorder)


async def _read_input(storage: DatabaseStorage, recorder: ClaimedRecorder, facts: RunFacts) -> RunInput:
    run = recorder.lease.run
    checkpoint = await storage.get_latest(run)
    if (checkpoint.n if checkpoint else 0) < facts.n:
        raise Damaged(f"Checkpoint {facts.n} of this run is missing: restore an older one")
    if checkpoint is None:
        return Start(run=run, message=facts.input)
    answers = await storage.read_answers(run)
    recorder.handed_out(answers)
    return Resume(run=run, checkpoint=checkpoint, answers=answers)


def _recovered(claim: Claim) -> Commit:
    event = EventDraft(kind="run.recovered", data={"worker": claim.worker, "epoch": claim.epoch})
    return Commit(run=claim.run, events=(event,))


async def fail(recorder: ClaimedRecorder, error: Exception) -> None:
    """Record that the run failed outside any step; its checkpoints stay as they are."""
    run = recorder.lease.run
    log.error("Run %s failed: %s", run, error, exc_info=error)
    expected = isinstance(error, CheckpointsError | WfdashError)
    trace = "" if expected else "".join(traceback.format_exception(error))
    info = ErrorInfo(type=type(error).__name__, message=str(error), traceback=trace)
    event = EventDraft(kind="run.failed", data={"error": info.model_dump(exclude={"traceback"})})
    commit = Commit(run=run, events=(event,), standing=Standing(phase=Phase.FAILED, error=info))
    with contextlib.suppress(ClaimLost):
        await recorder.commit(commit)


@contextlib.asynccontextmanager
async def _heartbeat(storage: DatabaseStorage, claim: Claim, lease: Lease) -> AsyncIterator[None]:
    """Renew the claim while the body runs; once it is lost the body is cancelled and ``ClaimLost`` raised."""
    body = asyncio.current_task()
    lost: list[ClaimLost] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(lease.heartbeat)
            try:
                await storage.renew(claim, ttl=lease.ttl)
            except ClaimLost as error:
                lost.append(error)
                if body is not None:
                    body.cancel()
                return
            except Exception:
                log.exception("Could not renew the claim of run %s; trying again", claim.run)

    beating = asyncio.create_task(beat())
    try:
        yield
    except asyncio.CancelledError:
        if lost and body is not None and body.uncancel() == 0:
            raise lost[0] from None
        raise
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating
