"""Chromium for the tests: started when a test asks for it, and closed within a time limit.

Playwright waits for a browser's end without one. A browser that does not end would fail a test that has passed: it is
killed instead, if need be with Playwright's driver, and the next test gets another.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Playwright, sync_playwright

CLOSING_SECONDS = 12.0
"""How long a browser may take to close; after that long again the driver is killed, too."""
LAUNCH_SECONDS = 60.0


class Process(NamedTuple):
    """A process below this one."""

    pid: int
    parent: int
    command: str


def executable() -> str:
    """Return the path of Chromium; skips without one."""
    path = os.environ.get("WFDASH_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium: install it or set WFDASH_CHROMIUM")
    return path


class Chromium:
    """A Chromium with Playwright's driver, started again if it was killed."""

    def __init__(self, flags: list[str]) -> None:
        self._flags = flags
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def running(self) -> Browser | None:
        """Return the browser that runs, None if none does."""
        return self._browser if self._browser is not None and self._browser.is_connected() else None

    def browser(self) -> Browser:
        """Return the browser that runs, or a new one."""
        if self.running() is None:
            self.stop()
            self._playwright = sync_playwright().start()
            launch = self._playwright.chromium.launch
            self._browser = launch(executable_path=executable(), args=self._flags, timeout=LAUNCH_SECONDS * 1000)
        assert self._browser is not None
        return self._browser

    def close(self, context: BrowserContext) -> None:
        """Close a context, or else the browser."""
        with killing_what_does_not_end():
            try:
                context.close()
            except Error:
                self._browser = None

    def stop(self) -> None:
        """Close the browser and end Playwright's driver."""
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        with killing_what_does_not_end(), suppress(Error):
            if browser is not None:
                browser.close()
        with killing_what_does_not_end():
            if playwright is not None:
                playwright.stop()


@contextmanager
def killing_what_does_not_end() -> Iterator[None]:
    """Kill the browsers of this process if the block takes longer than it may, then their driver."""
    done, seconds = Event(), CLOSING_SECONDS

    def watch() -> None:
        for what, find in (("Chromium", browsers), ("Playwright's driver", drivers)):
            if done.wait(seconds):
                return
            print(f"{what} did not end within {seconds:g} s and is killed", file=sys.stderr)
            send(signal.SIGKILL, find())

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def browsers() -> list[Process]:
    """Return the processes of Chromium below this process."""
    return [process for driver in drivers() for process in below(driver.pid)]


def drivers() -> list[Process]:
    """Return the processes of Playwright's driver below this process."""
    return [process for process in below(os.getpid()) if "playwright/driver" in process.command]


def below(ancestor: int) -> list[Process]:
    """Return the processes that a process started, and those that they started."""
    every = [process for path in Path("/proc").glob("[0-9]*") if (process := read_process(path))]
    found, parents = [], {ancestor}
    while children := [process for process in every if process.parent in parents]:
        found += children
        parents = {process.pid for process in children}
    return found


def read_process(folder: Path) -> Process | None:
    """Return what /proc says of a process, None if it has ended."""
    with suppress(OSError):
        # The name of a program is in brackets, and may have any sign in it.
        parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return Process(int(folder.name), parent, command)
    return None


def send(number: signal.Signals, processes: list[Process]) -> None:
    """Send a signal to every process that still runs."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
