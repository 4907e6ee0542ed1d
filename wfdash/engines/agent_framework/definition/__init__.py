"""What a workflow is before it runs: how it is copied, drawn, started, and whom it asks."""

from __future__ import annotations
