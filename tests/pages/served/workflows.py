from __future__ import annotations

from tests.pages.paper import expenses

__all__ = ["expenses"]
