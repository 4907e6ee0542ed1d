"""Retention decisions: which of a run's checkpoints are kept and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from checkpoints.config import CheckpointConfig
from checkpoints.ids import CheckpointId
from checkpoints.records import CheckpointInfo, Reason, Record


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
            _decision(info, _protection(place, info, good, config, needs), _excess(place, info, size, config, now))
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


def _excess(place: int, info: CheckpointInfo, size: int, config: CheckpointConfig, now: datetime) -> str | None:
    """Return which limits it is beyond, None if it is within all of them."""
    return "; ".join(_beyond(place, info, size, config, now)) or None


def _beyond(place: int, info: CheckpointInfo, size: int, config: CheckpointConfig, now: datetime) -> Iterator[str]:
    if config.keep is not None and place >= config.keep:
        yield f"not among the newest {config.keep}"
    if config.keep_age is not None and info.created < now - config.keep_age:
        yield f"older than {config.keep_age}"
    if config.keep_bytes is not None and size > config.keep_bytes:
        yield f"with it the newest are more than {config.keep_bytes} bytes"
