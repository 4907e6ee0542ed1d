"""One drive of a run: the framework's workflow runs on a storage that commits each of its checkpoints to the run."""

from __future__ import annotations

import asyncio
from typing import Any

from checkpoints.errors import CheckpointsError
from checkpoints.records import Checkpoint, Json, Reason
from checkpoints.storage import Recorder
from wfdash.contract import Continue, Outcome, Resume, RunInput, Start
from wfdash.engines.agent_framework.definition.allowed_types import codec_of
from wfdash.engines.agent_framework.definition.definitions import executors_of, workflow_for_drive
from wfdash.engines.agent_framework.definition.inputs import input_for, options_for
from wfdash.engines.agent_framework.driving import functions
from wfdash.engines.agent_framework.driving.attributes import keep_attributes
from wfdash.engines.agent_framework.driving.commits import Commits, DrivenRun, RunStorage, SaveFailed, not_saved
from wfdash.engines.agent_framework.driving.questions import Asked, read
from wfdash.engines.agent_framework.library import is_function
from wfdash.engines.agent_framework.stored.encoding import aside
from wfdash.engines.agent_framework.stored.framework_checkpoint import unpacked
from wfdash.engines.agent_framework.stored.position import FrameworkPosition, framework_part, position_in
from wfdash.engines.running_steps import RunningSteps
from wfdash.engines.serving import Served
from wfdash.values.errors import WorkflowError


async def drive(served: Served, name: str, given: RunInput, recorder: Recorder) -> Outcome:
    """Run until finished, suspended or failed. ``name``: the workflow's."""
    async with RunningSteps(recorder, given.run) as steps:
        workflow = workflow_for_drive(served)
        codec = codec_of(workflow)
        driven = DrivenRun(run=given.run, name=name, served=served, workflow=workflow, codec=codec)
        before = FrameworkPosition() if isinstance(given, Start) else position_in(given.checkpoint)
        if isinstance(given, Continue):
            before = before.started()
        head = None if isinstance(given, Start) else given.checkpoint
        commits = Commits(driven, recorder, steps, head, before)
        executors = executors_of(workflow)
        if is_function(workflow):
            steps.step_in = lambda _, frames: (workflow.name, functions.BODY)
        else:
            steps.step_in = lambda _, frames: commits.events.step_in(executors, frames)
        keep_attributes(workflow, codec, commits.events.warned)
        return await FrameworkDrive(given, commits).go()


class FrameworkDrive:
    """One drive of one run."""

    def __init__(self, given: RunInput, commits: Commits) -> None:
        self._given, self._commits, self._events = given, commits, commits.events
        self._workflow, self._codec = commits.driven.workflow, commits.driven.codec
        self._is_function = is_function(self._workflow)
        self._storage = RunStorage(self._save)
        self._restoring = self._superstep = False
        self._saved = isinstance(given, Resume)
        self._task = asyncio.current_task()

    async def go(self) -> Outcome:
        """Drive the run. What cannot be committed is raised, whatever the workflow makes of it."""
        answers = self._answers()
        if isinstance(self._given, Resume) and self._commits.before.idle and not answers:
            return await self._commits.stand()
        try:
            await self._run(answers)
        except (SaveFailed, asyncio.CancelledError) as error:
            return await self._broken(error)
        except CheckpointsError:
            raise
        except Exception as error:
            if self._storage.broken is not None:
                return await self._broken(error)
            return await self._commits.fail(error)
        if self._storage.broken is not None:
            return await self._broken(self._storage.broken)
        outcome = self._commits.outcome
        return outcome if outcome is not None else await self._commits.stand()

    async def _broken(self, error: BaseException) -> Outcome:
        """Raise why a checkpoint could not be committed; a value that cannot be kept fails the run."""
        broken = self._storage.broken
        if broken is None:
            raise error
        if self._task is not None and self._storage.stopped:
            self._task.uncancel()
        if isinstance(broken, WorkflowError):
            return await self._commits.fail(broken)
        raise broken

    def _answers(self) -> dict[str, Json]:
        if not isinstance(self._given, Resume):
            return {}
        return {key: one.value for key, one in self._given.answers.items() if key in self._commits.requests}

    async def _run(self, answers: dict[str, Json]) -> None:
        """Run the framework's workflow and take its events."""
        call = options_for(self._commits.driven.served, self._workflow)
        if isinstance(self._given, Resume):
            loaded = await self._load(self._given.checkpoint)
            call["checkpoint_id"] = loaded.checkpoint_id
            responses = self._responses(answers, loaded)
            call |= {"responses": responses} if responses else {}
        else:
            call["message"] = input_for(self._commits.driven.served, self._workflow, self._given.message)
        if isinstance(self._given, Continue):
            await self._restore(self._given.checkpoint)
        answered = [self._events.asking.pop(key) for key in answers]
        self._events.resumed([] if self._is_function else answered)
        live = self._is_function and functions.watch(
            self._workflow, self._events, self._commits.before.interrupted, self._storage.check
        )
        if self._is_function and self._task is not None:
            # A function may catch everything: it is cancelled as well.
            self._storage.stop = self._task.cancel
        stream = self._workflow.run(**call, stream=True, checkpoint_storage=self._storage)
        try:
            async for event in stream:
                if event.type in ("superstep_started", "superstep_completed") and not self._saved:
                    # The framework only logs that it could make no checkpoint, and continues.
                    raise await not_saved(self._workflow)
                if event.type == "superstep_started":
                    self._superstep, self._saved = True, False
                if not live:
                    self._events.saw(event)
        finally:
            await stream.close()

    async def _load(self, checkpoint: Checkpoint) -> Any:
        """Return the framework's checkpoint that the run continues from."""
        part = framework_part(checkpoint)
        loaded = self._storage.given = await aside(
            part, lambda: unpacked(self._codec, self._workflow, part, str(checkpoint.id))
        )
        return loaded

    def _responses(self, answers: dict[str, Json], loaded: Any) -> dict[str, Any]:
        """Return the answers as the framework expects them, by its request id. ``WrongType``."""
        responses = {key: self._codec.decode(one) for key, one in self._commits.given.items()}
        for key, value in answers.items():
            asking = self._events.asking[key]
            asked = Asked(key=key, step=asking.step, event=loaded.pending_request_info_events[asking.request])
            responses[asking.request] = response = read(asked, value, loaded.state)
            if self._is_function:
                # A function runs again from its top, and asks for every answer again.
                self._commits.given[asking.request] = self._codec.encode(response, f"the answer to {key}")
        return responses

    async def _restore(self, checkpoint: Checkpoint) -> None:
        """Bring the workflow to where the run it follows has left it. Nothing is left to do there, so nothing runs."""
        self._restoring = True
        loaded = await self._load(checkpoint)
        async for _ in self._workflow.run(
            checkpoint_id=loaded.checkpoint_id, stream=True, checkpoint_storage=self._storage
        ):
            pass
        self._restoring = False

    async def _save(self, checkpoint: Any) -> None:
        """Commit what the framework saves: its input, a superstep or a function's step, its end."""
        self._saved = True
        if self._restoring:
            return
        if self._is_function:
            ends = functions.has_ended()
            if ends and not checkpoint.pending_request_info_events:
                self._events.finish(self._workflow.name)
            await self._commits.save(checkpoint, Reason.STEP, ends=ends)
        elif self._superstep:
            await self._commits.save(checkpoint, Reason.STEP, ends=not checkpoint.messages)
        elif not isinstance(self._given, Resume):
            await self._commits.save(checkpoint, Reason.START, ends=False)
        # Else answers that nothing was done with: the run continues from where it was, with the same answers.
