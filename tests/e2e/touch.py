"""What fingers press: everything has room for one, 44 by 44 px, whatever is drawn of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page

LEAST = 44
PRESSED = "a[href], button, summary, select, textarea, input:not([type=hidden]), label:has(input)"
SPARED = "svg a, .row-meta a, .line-button, .source-number, td > input"
"""Nodes of a graph and bars of a chart, which are listed below; links in a line of facts; what belongs to a line of a
diff or of code, as high as the line; a run opens to be acted on."""
TOO_SMALL = """([least, pressed, spared]) => {
  const seen = (element) => !element.disabled && !element.closest(`[inert], .visually-hidden, .skip-link, ${spared}`)
    && element.checkVisibility({ visibilityProperty: true }) && !(element.matches("input") && element.closest("label"));
  const inSentence = (element) => getComputedStyle(element).display === "inline"
    && [...element.parentElement.childNodes].some((node) => node.nodeType === 3 && node.data.trim().length > 2);
  const answers = (element, x, y) => {
    const hit = document.elementFromPoint(x, y);
    const label = hit?.closest("label");
    return element.contains(hit) || (label && (label === element.labels?.[0] || label.contains(element)));
  };
  const fits = ({ width, height }) => Math.min(width, height) >= least - 0.5 || !width || !height;
  const isSmall = (element) => {
    if (fits(element.getBoundingClientRect())) return false;
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y, reach] = [left + width / 2, top + height / 2, least / 2 - 1];
    const wide = width >= least - 0.5 || (answers(element, x - reach, y) && answers(element, x + reach, y));
    const high = height >= least - 0.5 || (answers(element, x, y - reach) && answers(element, x, y + reach));
    return !(wide && high);
  };
  const small = [...document.querySelectorAll(pressed)].filter((one) => seen(one) && !inSentence(one) && isSmall(one));
  scrollTo(0, 0);
  return small.map((one) => `${one.outerHTML.slice(0, 120)} ${one.offsetWidth}x${one.offsetHeight}`);
}"""
RESTYLE = """() => {
  const root = document.documentElement;
  for (const shown of ["none", ""]) { root.style.display = shown; root.getBoundingClientRect(); }
}"""
"""Styles everything again. Chromium leaves out what is folded away when the colours change, and now and then the rules
for fingers when those come: axe would look at old colours, and a summary would seem too small."""
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until a new width is drawn: until then Chromium may measure with the style of the width before."""


@contextmanager
def fingers(page: Page) -> Iterator[None]:
    """Let a page believe that it is used with fingers on a phone."""
    session, size = page.context.new_cdp_session(page), page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page.evaluate(RESTYLE)
    try:
        yield
    finally:
        session.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
        session.detach()
        if size is not None:
            page.set_viewport_size(size)


def check_targets(page: Page) -> None:
    """Fail with everything that is too small for a finger, on a page that is used with ``fingers``."""
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    found: list[Any] = page.evaluate(TOO_SMALL, [LEAST, PRESSED, SPARED])
    assert found == [], f"{page.url}\n" + "\n".join(found)
