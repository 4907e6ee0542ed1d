"""Durability levels: which commits are fsynced before they are acknowledged.

Every commit survives a killed process. With ``full`` (the default) all of them survive a power failure too; with
``relaxed`` only those of ``must_sync``, for machines with slow disks whose steps may be repeated.
"""

from __future__ import annotations

from enum import StrEnum

from checkpoints.errors import InvalidConfig
from checkpoints.records import Commit


class Durability(StrEnum):
    """How much a power failure may undo."""

    FULL = "full"
    RELAXED = "relaxed"


def parse_durability(text: str, *, name: str = "WFDASH_DURABILITY") -> Durability:
    """Return the level of that name. ``InvalidConfig`` mentions the setting by ``name``."""
    try:
        return Durability(text)
    except ValueError:
        raise InvalidConfig(f"{name} must be full or relaxed, not {text!r}") from None


def must_sync(commit: Commit) -> bool:
    """Return whether a commit must survive a power failure at either level.

    So must the end of a drive (suspended, asleep, finished, failed), an answer, and the record of a ``once`` call.
    """
    if commit.standing is not None or commit.answered:
        return True
    return bool(commit.effects) and any(effect.once for effect in commit.effects)
