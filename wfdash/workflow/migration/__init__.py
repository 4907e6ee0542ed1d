"""Checkpoints under a changed graph, and checkpoints that people edit."""
