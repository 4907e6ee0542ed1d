"""Engines that break one promise each: the native engine behind a recorder that meddles with its commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from checkpoints.errors import ClaimLost
from checkpoints.events import EventKind
from checkpoints.ids import new_request_id
from checkpoints.records import Checkpoint, Commit, ErrorInfo, Phase, Reason, Request, Standing
from wfdash.contract import Carried, Continue, Description, Resume, RunInput, Shown
from wfdash.engines.native import NativeEngine


class Meddling:
    """A recorder that changes each commit on its way."""

    def __init__(self, inner: Any, change: Callable[[Commit], Commit | None] = lambda commit: commit) -> None:
        self.inner, self.change = inner, change
        self.answers, self.stream, self.now = inner.answers, inner.stream, inner.now

    async def commit(self, commit: Commit) -> None:
        changed = self.change(commit)
        if changed is not None:
            await self.inner.commit(changed)


def with_checkpoint(commit: Commit, **changes: Any) -> Commit:
    """Return a commit whose checkpoint, if it has one, is changed."""
    if commit.checkpoint is None:
        return commit
    return commit.model_copy(update={"checkpoint": commit.checkpoint.model_copy(update=changes)})


class Changing(NativeEngine):
    """Changes commits by ``change``."""

    def change(self, commit: Commit) -> Commit | None:
        return commit

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        return await super().drive(definition, given, Meddling(recorder, self.change))


class Swallows(NativeEngine):
    """Takes a commit that failed for one that succeeded."""

    error: type[Exception]

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        meddling = Meddling(recorder)

        async def commit(commit: Commit) -> None:
            with suppress(self.error):
                await recorder.commit(commit)

        meddling.commit = commit
        return await super().drive(definition, given, meddling)


class SwallowsALostClaim(Swallows):
    error = ClaimLost


class SwallowsAFullDisk(Swallows):
    error = OSError


class DoesNotWait(NativeEngine):
    """Continues before its commit is durable."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        meddling, last = Meddling(recorder), asyncio.ensure_future(asyncio.sleep(0))

        async def commit(commit: Commit) -> None:
            nonlocal last
            before = last

            async def later() -> None:
                await before
                await asyncio.sleep(0.001)
                await recorder.commit(commit)

            last = asyncio.ensure_future(later())
            if commit.standing is not None:
                await last

        meddling.commit = commit
        return await super().drive(definition, given, meddling)


class SavesOnlyPauses(NativeEngine):
    """Has no checkpoint at the end of a step."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        head: Checkpoint | None = given.checkpoint if isinstance(given, Resume) else None

        def change(commit: Commit) -> Commit:
            nonlocal head
            made = commit.checkpoint
            if made is None:
                return commit
            if made.reason is Reason.STEP and not commit.opened and not commit.closed and head is not None:
                return commit.model_copy(update={"checkpoint": None})
            n, parent = (head.n + 1, head.id) if head is not None else (1, None)
            head = made.model_copy(update={"n": n, "parent": parent})
            return commit.model_copy(update={"checkpoint": head})

        outcome = await super().drive(definition, given, Meddling(recorder, change))
        return outcome.model_copy(update={"checkpoint": head})


class ClosesNothing(Changing):
    """Uses answers, and leaves their questions open."""

    def change(self, commit: Commit) -> Commit:
        return commit.model_copy(update={"closed": ()})


class ForgetsAnswers(NativeEngine):
    """Drops the answers that it is given."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        bare = given.model_copy(update={"answers": {}}) if isinstance(given, Resume) else given
        meddling = Meddling(recorder)
        meddling.answers = asyncio.get_running_loop().create_future
        return await super().drive(definition, bare, meddling)


class DropsFalsyAnswers(NativeEngine):
    """Takes false and empty answers for none."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        if isinstance(given, Resume):
            full = {key: answer for key, answer in given.answers.items() if answer.value}
            given = given.model_copy(update={"answers": full})
        meddling = Meddling(recorder)
        meddling.answers = asyncio.get_running_loop().create_future
        return await super().drive(definition, given, meddling)


class NamesQuestionsAgain(Changing):
    """Gives a question another key whenever it is asked."""

    def change(self, commit: Commit) -> Commit:
        if commit.checkpoint is None or not commit.opened:
            return commit
        (request,), new = commit.opened, f"question-{new_request_id()}"
        asked = (request.model_copy(update={"key": new}),)
        events = [
            event.model_copy(update={"data": event.data | {"key": new}}) if "key" in event.data else event
            for event in commit.events
        ]
        return with_checkpoint(commit.model_copy(update={"opened": asked, "events": tuple(events)}), requests=asked)


class HidesQuestions(Changing):
    """Has pending questions, and not in its checkpoint."""

    def change(self, commit: Commit) -> Commit:
        return with_checkpoint(commit, requests=())


class KeepsTheBody(Changing):
    """Keeps what is to be in a checkpoint in its memory."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    def change(self, commit: Commit) -> Commit:
        if commit.checkpoint is not None:
            self.kept[commit.checkpoint.id] = commit.checkpoint.body
        return with_checkpoint(commit, body={})

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        if isinstance(given, Resume):
            body = self.kept.get(given.checkpoint.id, {})
            checkpoint = given.checkpoint.model_copy(update={"body": body})
            given = given.model_copy(update={"checkpoint": checkpoint})
        return await super().drive(definition, given, recorder)


class WritesTuples(Changing):
    """Puts into a body what JSON reads otherwise."""

    def change(self, commit: Commit) -> Commit:
        body = commit.checkpoint.body | {"pair": (1, 2)} if commit.checkpoint is not None else {}
        return with_checkpoint(commit, body=body)


class ChangesInPlace(Changing):
    """Changes a body after its commit."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}

    def change(self, commit: Commit) -> Commit:
        self.body["later"] = True
        self.body = dict(commit.checkpoint.body) if commit.checkpoint is not None else {}
        return with_checkpoint(commit, body=self.body)


class CommitsAfterTheEnd(NativeEngine):
    """Commits once more when the drive has ended."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        outcome = await super().drive(definition, given, recorder)
        recorder.claim = None  # As one does that does not know of its end.
        await recorder.commit(Commit(run=given.run))
        return outcome


class StaysReady(Changing):
    """Leaves a run that waits for people as due."""

    def change(self, commit: Commit) -> Commit:
        if commit.standing is None or commit.standing.phase is not Phase.WAITING:
            return commit
        return commit.model_copy(update={"standing": commit.standing.model_copy(update={"phase": Phase.READY})})


class MixesRunsUp(NativeEngine):
    """Has one recorder for all its runs."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        self.recorder = recorder
        meddling = Meddling(recorder)

        async def commit(commit: Commit) -> None:
            await asyncio.sleep(0)
            await self.recorder.commit(commit)

        meddling.commit = commit
        return await super().drive(definition, given, meddling)


class SaysNothing(Changing):
    """Has no events of its steps."""

    def change(self, commit: Commit) -> Commit:
        heard = tuple(event for event in commit.events if event.kind != EventKind.STEP_STARTED)
        return commit.model_copy(update={"events": heard})


class SpeaksLate(Changing):
    """Commits events of a step when it has ended."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def change(self, commit: Commit) -> Commit:
        events = (*self.held, *commit.events)
        self.held = [event for event in events if event.kind == EventKind.STEP_STARTED]
        if commit.standing is not None:
            return commit.model_copy(update={"events": events})
        return commit.model_copy(update={"events": tuple(one for one in events if one not in self.held)})


class AsksUnannounced(Changing):
    """Opens questions without saying so."""

    def change(self, commit: Commit) -> Commit:
        heard = tuple(event for event in commit.events if event.kind != EventKind.REQUEST_OPENED)
        return commit.model_copy(update={"events": heard})


class HidesTheError(Changing):
    """Fails without a message."""

    def change(self, commit: Commit) -> Commit:
        if commit.standing is None or commit.standing.error is None:
            return commit
        error = commit.standing.error.model_copy(update={"message": ""})
        return commit.model_copy(update={"standing": commit.standing.model_copy(update={"error": error})})


class IsAlwaysOfOneVersion(NativeEngine):
    """Has one version for all graphs."""

    def describe(self, definition: object) -> Description:
        return super().describe(definition).model_copy(update={"version": "1"})


class IsOfAnotherVersionEachTime(NativeEngine):
    """Has a version that comes from its process."""

    def describe(self, definition: object) -> Description:
        return super().describe(definition).model_copy(update={"version": f"{id(definition)}"})


class TakesEverything(NativeEngine):
    """Accepts what is not its own."""

    def accepts(self, definition: object) -> bool:
        return hasattr(definition, "steps") or super().accepts(definition) or callable(definition)


class ChecksNoInput(NativeEngine):
    """Accepts any input."""

    def check_input(self, definition: object, message: Any) -> Any:
        return message


class AsksWithoutSchema(Changing):
    """Takes any answer."""

    def change(self, commit: Commit) -> Commit:
        def bare(requests: tuple[Request, ...]) -> tuple[Request, ...]:
            return tuple(one.model_copy(update={"answer_schema": {}}) for one in requests)

        requests = bare(commit.checkpoint.requests) if commit.checkpoint is not None else ()
        return with_checkpoint(commit.model_copy(update={"opened": bare(commit.opened)}), requests=requests)

    def check_answer(self, definition: object, request: Request, value: Any) -> list[dict[str, Any]]:
        return []


class ShowsItsObjects(NativeEngine):
    """Shows what is not JSON."""

    def show(self, checkpoint: Checkpoint) -> Shown:
        return Shown(state={"pair": (1, 2), "body": object()})


class CarriesNothing(NativeEngine):
    """Migrates a run to nothing."""

    def carry(self, definition: object, checkpoint: Checkpoint, old: Any, *, override: bool = False) -> Carried:
        return Carried(how="override", body={})


class EndsCancelledRuns(NativeEngine):
    """Takes the end of its process for the end of the run."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        try:
            return await super().drive(definition, given, recorder)
        except asyncio.CancelledError:
            error = ErrorInfo(type="Cancelled", message="cancelled")
            await recorder.commit(Commit(run=given.run, standing=Standing(phase=Phase.FAILED, error=error)))
            raise


class SaysNoStepEnds(Changing):
    """Gives no checkpoint the reason that it is the end of a step."""

    def change(self, commit: Commit) -> Commit:
        return with_checkpoint(commit, reason=Reason.PAUSE)


class ForgetsWhatWasSaid(NativeEngine):
    """Takes a follow-up for the input of a new run."""

    async def drive(self, definition: object, given: RunInput, recorder: Any) -> Any:
        if isinstance(given, Continue):
            emptied = given.checkpoint.body | {"state": {}}
            given = given.model_copy(update={"checkpoint": given.checkpoint.model_copy(update={"body": emptied})})
        return await super().drive(definition, given, recorder)
