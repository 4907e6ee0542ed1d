"""Stored bytes that change or vanish."""
