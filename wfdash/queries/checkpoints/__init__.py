"""Reads of checkpoints: one checkpoint, a comparison of two, and the preview of a restore or fork."""
