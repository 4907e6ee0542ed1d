"""Reads of the time machine: one checkpoint, a comparison of two, and the preview of a restore or fork."""
