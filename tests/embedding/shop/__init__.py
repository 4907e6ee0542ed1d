"""The one app of that project: its people, and a workflow."""

from __future__ import annotations
