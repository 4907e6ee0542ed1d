"""Links from pages to the documentation, where the installation says at which address that is served."""

from __future__ import annotations

from django.conf import settings


def guide(page: str = "index", anchor: str = "") -> str:
    """Return the address of a page of the documentation, by the name of its file; empty without ``WFDASH_DOCS``."""
    if not settings.WFDASH_DOCS:
        return ""
    return f"{settings.WFDASH_DOCS}/{page}.html" + (f"#{anchor}" if anchor else "")
