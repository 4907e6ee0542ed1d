"""Chromium for the tests that are coroutines: like ``tests.e2e.chromium``, it closes within a time limit."""

from __future__ import annotations

from contextlib import suppress

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from tests.e2e.chromium import LAUNCH_SECONDS, executable, killing_what_does_not_end

FLAGS = ["--no-sandbox", "--disable-gpu"]


class Chromium:
    """A Chromium with Playwright's driver, started again if it was killed."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    async def browser(self) -> Browser:
        """Return the browser that runs, or a new one."""
        if self._browser is None or not self._browser.is_connected():
            await self.stop()
            self._playwright = await async_playwright().start()
            launch = self._playwright.chromium.launch
            self._browser = await launch(executable_path=executable(), args=FLAGS, timeout=LAUNCH_SECONDS * 1000)
        return self._browser

    async def close(self, context: BrowserContext) -> None:
        """Close a context, or else the browser."""
        with killing_what_does_not_end():
            try:
                await context.close()
            except Error:
                self._browser = None

    async def stop(self) -> None:
        """Close the browser and end Playwright's driver."""
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        with killing_what_does_not_end(), suppress(Error):
            if browser is not None:
                await browser.close()
        with killing_what_does_not_end():
            if playwright is not None:
                await playwright.stop()
