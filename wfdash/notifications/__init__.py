"""What people are told, how and when: kinds in words, preferences, and the channels that carry it. Writes no rows."""

from __future__ import annotations
