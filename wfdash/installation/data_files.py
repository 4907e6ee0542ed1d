"""Where the templates and static files are: beside the packages in a checkout, inside of one in a wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def folder_of(name: str) -> Path:
    """Return the folder ``templates`` or ``static``."""
    inside = PACKAGE / "files" / name
    return inside if inside.is_dir() else PACKAGE.parent / name
