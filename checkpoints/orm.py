"""``DatabaseStorage`` on Django's database: its public import path."""

from __future__ import annotations

from checkpoints.database.storage import DatabaseStorage

__all__ = ["DatabaseStorage"]
