"""live.js in a real browser: rows arrive once and in order whatever breaks, and a page says how it stands."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page

from tests.e2e.async_chromium import Chromium
from tests.live.serving import Served

pytestmark = [pytest.mark.e2e, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

SEQS = "[...document.querySelectorAll('[data-live-events] li')].map(row => Number(row.dataset.seq))"
STATE = "document.querySelector('[data-live-state]').dataset.liveState"
LISTEN = """window.heard = [];
for (const name of ["live:events", "live:changed", "live:stream", "live:snapshot"])
  addEventListener(name, (event) => window.heard.push(name));"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    chromium = Chromium()
    yield chromium
    await chromium.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Chromium, served: Served) -> AsyncIterator[BrowserContext]:
    context = await (await chromium.browser()).new_context()
    yield context
    await chromium.close(context)


async def open_page(browser: BrowserContext, served: Served, sent: list[str] | None = None) -> Page:
    """Open the run's page and wait until it is live; ``sent`` collects what its socket sends."""
    base = f"http://127.0.0.1:{served.port}"
    name, _, value = served.facts["cookie"].partition("=")
    await browser.add_cookies([{"name": name, "value": value, "url": base}])
    page = await browser.new_page()
    await page.add_init_script(LISTEN)
    if sent is not None:
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    await page.goto(f"{base}/{served.facts['run']}")
    await page.wait_for_function(f"{STATE} === 'live'")
    return page


async def shows(page: Page, total: int) -> None:
    """Wait until the page shows the rows 1 to ``total``, each once and in order."""
    await page.wait_for_function(f"Math.max(0, ...{SEQS}) >= {total}", timeout=40_000)
    assert await page.evaluate(SEQS) == list(range(1, total + 1))


async def test_rows_arrive_and_panels_are_told_once_for_many(browser: BrowserContext, served: Served) -> None:
    page = await open_page(browser, served)
    served.order(events=30, every=0.005)
    await shows(page, 30)
    await page.wait_for_function("window.heard.includes('live:changed')")
    heard = await page.evaluate("window.heard")
    assert 10 > heard.count("live:changed") >= 1  # once for about ten events at least


async def test_a_server_that_takes_long_to_draw_a_panel_is_asked_less_often(
    browser: BrowserContext, served: Served
) -> None:
    page = await open_page(browser, served)
    served.order(events=1)
    await page.wait_for_function("window.heard.includes('live:changed')")
    await page.wait_for_timeout(500)  # so long the panel was on its way
    await page.evaluate("document.dispatchEvent(new Event('htmx:after:swap')); window.heard = [];")
    began = time.monotonic()
    served.order(events=1)
    await page.wait_for_function("window.heard.includes('live:changed')")
    assert time.monotonic() - began > 1


async def test_a_killed_server_is_found_again_with_nothing_lost_or_doubled(
    browser: BrowserContext, served: Served
) -> None:
    page = await open_page(browser, served)
    served.order(events=50, every=0.005)
    await shows(page, 50)
    await served.kill()
    await page.wait_for_function(f"{STATE} === 'lost' || {STATE} === 'connecting'")
    await served.start()
    served.order(events=50, every=0.005)
    await shows(page, 100)
    await page.wait_for_function(f"{STATE} === 'live'")


async def test_a_hole_in_the_stream_is_asked_for_again(browser: BrowserContext, served: Served) -> None:
    await browser.add_init_script(
        """const take = JSON.parse; let spoilt = false;
        JSON.parse = (text) => {
          const message = take(text);
          if (message?.type === "events" && !spoilt && message.last > 5) { spoilt = true; return { type: "nothing" }; }
          return message;
        };"""
    )
    page = await open_page(browser, served)
    served.order(events=20, every=0.03)
    await shows(page, 20)


async def test_a_gap_too_large_reloads_the_rows(browser: BrowserContext, served: Served) -> None:
    page = await open_page(browser, served)
    await browser.set_offline(True)
    await served.kill()
    await served.start()
    served.order(events=1_300, bell=False)
    while max(served.committed, default=0) < 1_300:
        await page.wait_for_timeout(50)
    await browser.set_offline(False)
    await shows(page, 1_300)
    assert "live:snapshot" in await page.evaluate("window.heard")
    served.order(events=1)
    await shows(page, 1_301)


async def test_streamed_text_appears_beside_the_rows(browser: BrowserContext, served: Served) -> None:
    page = await open_page(browser, served)
    for word in "Once ", "upon ", "a time":
        served.order(text=word)
    await page.wait_for_function("document.querySelector('[data-live-stream]').textContent === 'Once upon a time'")
    assert await page.is_visible("[data-live-stream]")


async def test_a_hidden_tab_gets_its_rows_and_refreshes_panels_when_looked_at(
    browser: BrowserContext, served: Served
) -> None:
    await browser.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.away === true });")
    page = await open_page(browser, served)
    await page.evaluate("window.away = true")
    served.order(events=5)
    await shows(page, 5)
    await page.wait_for_timeout(400)  # longer than a refresh would take to come
    assert "live:changed" not in await page.evaluate("window.heard")
    await page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    await page.wait_for_function("window.heard.includes('live:changed')")


async def test_a_page_that_stays_open_acknowledges(browser: BrowserContext, served: Served) -> None:
    sent: list[str] = []
    page = await open_page(browser, served, sent)
    served.order(events=1_200)
    await shows(page, 1_200)
    while '{"ack":1200}' not in sent:
        await page.wait_for_timeout(50)
    assert await page.evaluate(STATE) == "live"


async def test_anyone_who_is_signed_out_is_told_and_does_not_try_again(browser: BrowserContext, served: Served) -> None:
    page = await browser.new_page()
    await page.goto(f"http://127.0.0.1:{served.port}/{served.facts['run']}")
    await page.wait_for_function("document.querySelector('[data-live-words]').textContent.includes('Signed out')")
    assert await page.evaluate(STATE) == "lost"
