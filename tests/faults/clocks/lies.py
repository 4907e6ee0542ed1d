"""Wrong clocks: libfaketime, where it is installed, lies to a whole process, its C libraries included."""

from __future__ import annotations

from pathlib import Path

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
"""Debian's package ``faketime``."""
NO_LIBRARY = "libfaketime is not installed (apt-get install faketime)"


def set_clock(file: Path, seconds: float) -> None:
    """Let the clocks that obey this file be wrong by so much, from now on."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{seconds:+.0f}\n")
    fresh.replace(file)


def faked(file: Path | None) -> dict[str, str]:
    """Return the environment of a process whose clock obeys a file within a second; measured time stays right."""
    if file is None:
        return {}
    told = {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1"}
    return {"LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1", **told}
