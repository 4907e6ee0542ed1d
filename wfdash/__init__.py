"""wfdash: a self-hosted dashboard for workflows that need people."""

from __future__ import annotations

__version__ = "0.1.0"
ADDRESS = ""
"""What ``pip install`` takes for the published wfdash, such as ``wfdash``; empty: it is not published yet."""
