"""The policy of a ``CheckpointManager``: when to save, and how long checkpoints are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from pydantic import StrictInt, ValidationError, model_validator

from checkpoints.content.canonical_json import loads
from checkpoints.errors import InvalidConfig
from checkpoints.ids import CheckpointId
from checkpoints.records import CheckpointInfo, Reason, Record

# Retention decisions: which of a run's checkpoints are kept and why. Pure.


class Needs(Record):
    """What else depends on a run's checkpoints."""

    ended: bool = False
    """Completed, failed or cancelled."""
    origins: frozenset[CheckpointId] = frozenset()
    """Those of its checkpoints that other runs were forked from."""


class PruneDecision(Record):
    """Whether one checkpoint is kept, and why, as text."""

    checkpoint: CheckpointInfo
    keep: bool
    why: str


class PrunePlan(Record):
    """The decisions of a prune, newest checkpoint first."""

    decisions: tuple[PruneDecision, ...] = ()

    @property
    def kept(self) -> tuple[PruneDecision, ...]:
        """Return what stays."""
        return tuple(d for d in self.decisions if d.keep)

    @property
    def removed(self) -> tuple[PruneDecision, ...]:
        """Return what is removed."""
        return tuple(d for d in self.decisions if not d.keep)


def decide(infos: Sequence[CheckpointInfo], config: CheckpointConfig, needs: Needs, now: datetime) -> PrunePlan:
    """Return the decisions about all of a run's checkpoints, given newest first."""
    good = next((info.id for info in infos if info.clean), None)
    sizes = accumulate(info.size for info in infos)
    return PrunePlan(
        decisions=tuple(
            _decision(
                info,
                _protection(place, info, good, config, needs),
                "; ".join(_beyond(place, info, size, config, now)) or None,
            )
            for place, (info, size) in enumerate(zip(infos, sizes, strict=True))
        )
    )


def _decision(info: CheckpointInfo, protection: str | None, excess: str | None) -> PruneDecision:
    keep = protection is not None or excess is None
    return PruneDecision(checkpoint=info, keep=keep, why=protection or excess or "within the limits")


def _protection(
    place: int, info: CheckpointInfo, good: CheckpointId | None, config: CheckpointConfig, needs: Needs
) -> str | None:
    """Return what protects it from every limit, None if nothing does."""
    if place == 0:
        return "the newest: the run continues from it, and its requests are pending in it"
    if info.id == good:
        return "the newest good one: every newer one is damaged"
    if config.while_open == "keep" and not needs.ended:
        return "the run has not ended"
    if config.keep_labelled and info.label is not None:
        return f"labelled {info.label!r}"
    if config.keep_origins and info.id in needs.origins:
        return "another run was forked from it"
    if config.keep_pauses and info.reason is Reason.PAUSE:
        return "people were asked here"
    return None


def _beyond(place: int, info: CheckpointInfo, size: int, config: CheckpointConfig, now: datetime) -> Iterator[str]:
    if config.keep is not None and place >= config.keep:
        yield f"not among the newest {config.keep}"
    if config.keep_age is not None and info.created < now - config.keep_age:
        yield f"older than {config.keep_age}"
    if config.keep_bytes is not None and size > config.keep_bytes:
        yield f"with it the newest are more than {config.keep_bytes} bytes"


class CheckpointConfig(Record):
    """Saves every step and keeps everything by default.

    ``keep``, ``keep_age`` and ``keep_bytes`` are limits: a checkpoint beyond any of them is removed, unless something
    else protects it. The newest one, the newest valid one and the pending questions in it always stay.
    ``InvalidConfig`` names the field that is wrong.
    """

    when: Literal["step", "pause"] | StrictInt = "step"
    """``step``: each; ``pause``: only where required; a number: every that many ``n``."""
    keep: StrictInt | None = None
    """This many of the newest; 1 keeps only the latest."""
    keep_age: timedelta | None = None
    """Those not older than this. In JSON: seconds, or ``"P30D"``."""
    keep_bytes: StrictInt | None = None
    """The newest whose ``size`` in sum is at most this; content shared on disk is counted each time."""
    keep_labelled: bool = True
    """Labelled checkpoints stay whatever the limits say: a label is a pin."""
    keep_origins: bool = True
    """Checkpoints that other runs were forked from stay. The forks do not need them: they have copies."""
    keep_pauses: bool = False
    """Checkpoints at which people were asked stay."""
    while_open: Literal["prune", "keep"] = "prune"
    """``keep``: the limits apply once the run has ended; until then everything stays."""

    if not TYPE_CHECKING:  # Checkers and editors see the fields.

        def __init__(self, **settings: Any) -> None:
            try:
                super().__init__(**settings)
            except ValidationError as error:
                raise InvalidConfig("; ".join(_problem_text(problem) for problem in error.errors())) from error

    @model_validator(mode="after")
    def _consistent(self) -> CheckpointConfig:
        if isinstance(self.when, int) and self.when < 1:
            raise InvalidConfig(f"when={self.when}: give a number of at least 1, 'step' or 'pause'")
        if self.keep is not None and self.keep < 1:
            raise InvalidConfig(f"keep={self.keep}: a run needs its newest checkpoint, keep at least 1")
        if self.keep_age is not None and self.keep_age <= timedelta():
            raise InvalidConfig(f"keep_age={self.keep_age}: give a positive duration, or leave it out")
        if self.keep_bytes is not None and self.keep_bytes < 1:
            raise InvalidConfig(f"keep_bytes={self.keep_bytes}: give a positive number of bytes, or leave it out")
        if self.while_open == "keep" and not self.limited:
            raise InvalidConfig("while_open='keep' without a limit: give keep, keep_age or keep_bytes for later")
        return self

    @property
    def limited(self) -> bool:
        """Return whether anything is ever removed."""
        return not (self.keep is None and self.keep_age is None and self.keep_bytes is None)

    @classmethod
    def every_step(cls) -> CheckpointConfig:
        """Return the policy that saves each step and keeps everything: what a storage does without a manager."""
        return cls()

    @classmethod
    def pauses(cls) -> CheckpointConfig:
        """Return the policy that saves only what a resume requires; the steps in between run again after a crash."""
        return cls(when="pause")

    @classmethod
    def lean(cls, n: int = 1) -> CheckpointConfig:
        """Return the policy that saves each step and keeps the newest ``n`` and labelled ones."""
        return cls(keep=n)

    @classmethod
    def dashboard(cls) -> CheckpointConfig:
        """Return the policy that keeps everything of open runs; of ended ones the newest 200, labelled ones and
        pauses.
        """
        return cls(keep=200, keep_pauses=True, while_open="keep")

    @classmethod
    def read(cls, text: str) -> CheckpointConfig:
        """Return the policy of a JSON object of fields. ``InvalidConfig``."""
        try:
            given = loads(text)
        except ValueError as error:
            raise InvalidConfig(f"not JSON: {error}") from error
        if not isinstance(given, dict):
            raise InvalidConfig('give a JSON object such as {"keep": 200}')
        return cls(**given)


def _problem_text(problem: Any) -> str:
    field = ".".join(str(part) for part in problem["loc"][:1]) or "config"
    return f"{field}={problem['input']!r}: {problem['msg']}"
