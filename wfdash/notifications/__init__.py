"""Notifications: their kinds and texts, preferences, and the channels that deliver them. Writes no rows."""

from __future__ import annotations
