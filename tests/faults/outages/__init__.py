"""Databases that are away, full or read-only."""
