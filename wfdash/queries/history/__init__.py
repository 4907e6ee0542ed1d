"""Reads of a run's history: events, the tree of checkpoints, and step states."""
