"""Twins of ``checkpoints/``."""

from __future__ import annotations
