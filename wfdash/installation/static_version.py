"""The version of all static files together, which is a part of their address."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("django", "django-htmx")
"""Packages with static files of their own."""


def static_version(folders: Iterable[Path]) -> str:
    """Return a short hash of the files' names and contents: it changes when a file does, on every server alike."""
    digest = hashlib.sha256(" ".join(version(package) for package in PACKAGES).encode())
    for folder in folders:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"\0{file.relative_to(folder).as_posix()}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
