"""Checkpoints under a changed graph, and edited checkpoints."""
