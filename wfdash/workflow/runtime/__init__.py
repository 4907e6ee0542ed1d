"""The engine's effects: one call of ``run``, its loop, commits, claims and streams."""
