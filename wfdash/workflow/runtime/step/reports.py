"""What a step says while it runs: events of its own, how far it is, what the run is called, streamed text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints.events import EventKind
from checkpoints.records import Json
from wfdash.domain.run_titles import cleaned
from wfdash.questions.transcript import Message, pack_transcript, unpack_transcript
from wfdash.values.codec import check_plain, copy_plain
from wfdash.values.display import to_display
from wfdash.workflow.authoring.steps import StepContext
from wfdash.workflow.errors import InvalidCall, NotStorable
from wfdash.workflow.reducer.ticks import TranscriptGrown
from wfdash.workflow.runtime.step.step_ops import StepOps


class StepReports(StepContext):
    """The part of a step's context that reports and waits for nothing."""

    _ops: StepOps

    @property
    def step(self) -> str:
        """The step's name."""
        return self._ops.node.name

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

    def transcript(self, messages: Sequence[Message | Mapping[str, Any]]) -> None:
        """Say what the step's conversation with a model is by now: all messages, from the first.

        It is in the checkpoints that follow, and shown on the run's page. Said again while the step is replayed, it
        changes nothing.
        """
        try:
            read = unpack_transcript([one if isinstance(one, Message) else dict(one) for one in messages])
        except (ValueError, TypeError) as error:
            raise InvalidCall(f"ctx.transcript takes messages: {error}") from error
        ops, packed = self._ops, to_display(pack_transcript(read))
        ops.host.tell(TranscriptGrown(at=ops.host.now(), activation=ops.activation, messages=packed))

    def stream(self, text: str) -> None:
        """Show text while it is made. It is not stored."""
        self._ops.host.stream(self.step, text)
