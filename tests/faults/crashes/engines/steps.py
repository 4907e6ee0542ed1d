"""What the steps of all engines do: each begins with a line in the folder of its run."""

from __future__ import annotations

import asyncio
from pathlib import Path


def write_line(folder: str, step: str) -> None:
    """Say that a step begins."""
    with Path(folder, "log.txt").open("a") as log:
        log.write(step + "\n")


async def work(folder: str) -> None:
    """Begin, and wait until the test lets all runs continue."""
    write_line(folder, "work")
    while not Path(folder).with_name("gate").exists():
        await asyncio.sleep(0.01)
