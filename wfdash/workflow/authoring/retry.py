"""Retry policy of a step or call: which errors are retried, and the delay before that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from wfdash.questions.durations import Duration, Seconds


class Retry(BaseModel):
    """Retries up to ``attempts`` attempts in all, ``delay`` apart, growing by ``factor`` up to ``longest``.

    Durations: ``"30s"``, ``"5m"``, seconds or a ``timedelta``. ``on``: error classes to retry; ``never``: those that
    are not, checked first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(default=3, ge=1)
    delay: Seconds = Field(default=1.0, ge=0)
    factor: float = Field(default=2.0, ge=1)
    longest: Seconds = Field(default=300.0, ge=0)
    on: tuple[type[Exception], ...] = (Exception,)
    never: tuple[type[Exception], ...] = ()

    if TYPE_CHECKING:
        # What it takes is wider than what it holds: type checkers know only the latter.
        def __init__(
            self,
            *,
            attempts: int = 3,
            delay: Duration = 1.0,
            factor: float = 2.0,
            longest: Duration = 300.0,
            on: tuple[type[Exception], ...] = (Exception,),
            never: tuple[type[Exception], ...] = (),
        ) -> None: ...

    def delay_after(self, attempt: int, error: BaseException) -> float | None:
        """Return the seconds to wait after failed attempt number ``attempt`` (from 1), None to give up."""
        if attempt >= self.attempts or isinstance(error, self.never) or not isinstance(error, self.on):
            return None
        return min(self.delay * self.factor ** (attempt - 1), self.longest)
