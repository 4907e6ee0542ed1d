"""Notifications: their kinds and texts, preferences, and the channels that deliver them.

``write`` adds them to the outbox in the caller's transaction; the worker delivers what is there. ``rendering`` draws
mails, and pages too: an engine of wfdash's own, whose templates a project may replace.
"""

from __future__ import annotations
