"""One drive of a run: its commits, the events of its steps, its questions and their answers."""

from __future__ import annotations
