"""The policy of a ``CheckpointManager``: when to save, and how long checkpoints are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from pydantic import StrictInt, ValidationError, model_validator

from checkpoints.content.canonical_json import loads
from checkpoints.errors import InvalidConfig
from checkpoints.records import Record


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
