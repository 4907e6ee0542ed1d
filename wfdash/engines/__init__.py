"""Engines: what executes workflows of one kind, behind ``wfdash.contract``."""

from __future__ import annotations

from wfdash.engines.serving import Served, serve

__all__ = ["Served", "serve"]
