"""What must survive: processes that are killed in mid-step."""

from __future__ import annotations
