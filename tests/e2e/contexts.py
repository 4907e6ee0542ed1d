"""Browser contexts that tests take one after the other: each begins with nothing but the browser's cache of files.

A new context starts a process and fetches and compiles every style and script again: four times as long as a page
takes that has them.
"""

from __future__ import annotations

from playwright.sync_api import Browser, BrowserContext, Error, Page

from tests.e2e.chromium import Chromium, killing_what_does_not_end

STILL = "/livez"
"""What stays open: of the same server, so that the process with the scripts stays, and no page of the dashboard."""
KEPT = 3


class Contexts:
    """Gives contexts for a server, and takes them back. Nothing moves in them: that costs much."""

    def __init__(self, chromium: Chromium) -> None:
        self._chromium = chromium
        self._url = ""
        self._free: list[BrowserContext] = []

    def take(self, url: str) -> BrowserContext:
        """Return a context at a server: without cookies or storage, and with one page that no one uses."""
        if url != self._url:
            self.close()
            self._url = url
        browser = self._chromium.browser()
        while self._free:
            context = self._free.pop()
            if context.browser is browser:
                return context
        return opened(browser, url)

    def give_back(self, context: BrowserContext) -> None:
        """Empty a context for the next test; one that cannot be emptied is closed, as are those that are too many."""
        with killing_what_does_not_end():
            kept = len(self._free) < KEPT and emptied(context, self._url)
        if kept:
            self._free.append(context)
        else:
            self._chromium.close(context)

    def close(self) -> None:
        """Close every context that is free; those of a browser that was killed are gone."""
        while self._free:
            if (context := self._free.pop()).browser is self._chromium.running():
                self._chromium.close(context)


def opened(browser: Browser, url: str) -> BrowserContext:
    """Return a new context with the page that stays."""
    wide = {"width": 1440, "height": 900}
    context = browser.new_context(base_url=url, viewport=wide, reduced_motion="reduce", locale="en-GB")  # type: ignore[arg-type]
    context.new_page().goto(STILL)
    return context


def emptied(context: BrowserContext, url: str) -> bool:
    """Close the pages of a context and take away what they have stored; returns whether that is done."""
    try:
        for page in context.pages[1:]:
            page.close()
        context.clear_cookies()
        context.clear_permissions()
        forget_storage(context.pages[0], url)
    except (Error, IndexError):
        return False
    return True


def forget_storage(page: Page, url: str) -> None:
    """Take away what pages of a server have stored, but for a tab's own storage, which went with its tab."""
    session = page.context.new_cdp_session(page)
    session.send("Storage.clearDataForOrigin", {"origin": url, "storageTypes": "all"})
    session.detach()
