"""Clocks that are wrong or jump."""
