"""One suite of promises per port, kept by every implementation."""

from __future__ import annotations
