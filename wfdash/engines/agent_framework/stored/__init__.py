"""What a checkpoint holds: the framework's own, encoded, and what pages show of it."""

from __future__ import annotations
