"""Retention: what is old, or over, is removed a little at a time."""
