"""For how long ended runs are kept, as the setting says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import TypeAlias

from checkpoints.records import frozen

EVERY = "*"
"""The workflows that are not named."""
FOREVER = "forever"
MOST_DAYS = 36_500
Setting: TypeAlias = float | Mapping[str, float | None] | None


@frozen
class KeepRules:
    """Days for which ended runs are kept, by workflow; None: always. ``default``: of workflows that have no rule."""

    default: float | None = None
    named: Mapping[str, float | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether any run is ever removed."""
        return self.shortest is not None

    @property
    def shortest(self) -> float | None:
        """Return the days after which the first runs go; None if none does."""
        return min((days for days in (self.default, *self.named.values()) if days is not None), default=None)

    def days(self, workflow: str) -> float | None:
        """Return for how long runs of a workflow are kept."""
        return self.named.get(workflow, self.default)

    def removed_at(self, workflow: str, finished: datetime) -> datetime | None:
        """Return when a run that ended then is old enough to be removed; None: never."""
        days = self.days(workflow)
        return None if days is None else finished + timedelta(days=days)

    def as_json(self) -> dict[str, float | None]:
        """Return the rules as the setting of a project says them."""
        return {EVERY: self.default, **self.named}

    def __str__(self) -> str:
        said = [days_text(self.default), *(f"{name}: {days_text(days)}" for name, days in sorted(self.named.items()))]
        return ", ".join(said)


def keep_rules(setting: Setting) -> KeepRules:
    """Return the rules of a setting: days, days by workflow (``*``: every other one), or None. ``ValueError``."""
    by_workflow = setting if isinstance(setting, Mapping) else {EVERY: setting}
    for name, days in by_workflow.items():
        if days is not None and not (
            (isinstance(days, int | float) and not isinstance(days, bool)) and 0 < days < MOST_DAYS
        ):
            raise ValueError(f"WFDASH_KEEP_RUNS: {name!r} must be kept for days, more than 0, or None, not {days!r}")
    named = {name: days for name, days in by_workflow.items() if name != EVERY}
    return KeepRules(default=by_workflow.get(EVERY), named=named)


def read_keep_rules(text: str) -> dict[str, float | None] | None:
    """Return the setting that a variable says: ``90``, or ``90,payments=3650,scratch=7,ledger=forever``; empty: None.

    ``ValueError`` names the part that is wrong.
    """
    found: dict[str, float | None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, given, value = part.rpartition("=")
        name = name.strip() if given else EVERY
        if not name or name in found:
            raise ValueError(f"WFDASH_KEEP_RUNS: {part!r} must be days, or WORKFLOW=days, each workflow once")
        found[name] = _read_days(value.strip(), part)
    return found or None


def _read_days(text: str, part: str) -> float | None:
    if text == FOREVER:
        return None
    try:
        days = float(text)
    except ValueError:
        days = 0
    if not 0 < days < MOST_DAYS:
        raise ValueError(f"WFDASH_KEEP_RUNS: {part!r} must be days, more than 0, or {FOREVER}; empty keeps all")
    return days


def days_text(days: float | None) -> str:
    """Return for how long, as text: ``90 days``, or ``forever`` for None."""
    return FOREVER if days is None else f"{days:g} day{'' if days == 1 else 's'}"
