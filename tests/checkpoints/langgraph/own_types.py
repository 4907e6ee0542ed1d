"""A class that a state may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Own:
    """A number."""

    n: int
