"""How pages look and whether everyone can use them: pictures and axe."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from PIL import Image
from playwright.sync_api import Page

from tests.e2e.touch import RESTYLE, TWO_FRAMES, check_targets, fingers

ALL = Path("test-results/screenshots")
WIDTHS = {"wide": 1440, "phone": 390}
WATCH_SHIFTS = """() => {
  const named = (node) => node?.nodeType === 3
    ? `"${node.data.trim().slice(0, 40)}" in ${named(node.parentElement)}` : `${node?.nodeName}.${node?.className}`;
  const placed = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" ");
  const moved = ({ node, previousRect, currentRect }) =>
    `${named(node)}: ${placed(previousRect)} to ${placed(currentRect)}`;
  const stayed = ({ previousRect, currentRect }) => placed(previousRect) === placed(currentRect);
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries())
      if (!sources.length || !sources.every(stayed)) window.shifts.push([value, ...sources.map(moved)]);
  }).observe({ type: "layout-shift", buffered: false });
}"""
RULES: dict[str, Any] = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
}
COLOURS: dict[str, Any] = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}
"""What is different in the dark: colours, and nothing else."""
TARGETS: dict[str, Any] = {"resultTypes": ["violations"], "runOnly": {"type": "rule", "values": ["target-size"]}}
"""What is different in a narrow window: what stood in one line stands in several."""

REMEMBER_COLOURS = """() => {
  const { prototype } = axe.commons.color.Color, { parseString } = prototype, known = new Map();
  prototype.parseString = function (text) {
    if (known.has(text)) [this.r, this.g, this.b, this.alpha] = known.get(text);
    else { parseString.call(this, text); known.set(text, [this.r, this.g, this.b, this.alpha]); }
    return this;
  };
}"""
"""axe reads the few colours of a page thousands of times, which is a quarter of what it costs."""


def check_accessibility(page: Page, options: dict[str, Any] = RULES) -> None:
    """Fail with every axe violation of the page as it is now: rule, what to do, and where."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
        page.evaluate(REMEMBER_COLOURS)
    found = page.evaluate("options => axe.run(options).then(found => found.violations)", options)
    told = [
        f"{item['id']} ({item['impact']}): {node['target']}: {node['failureSummary']}"
        for item in found
        for node in item["nodes"][:5]
    ]
    assert told == [], f"{page.url}\n" + "\n".join(told)


def watch_shifts(page: Page) -> None:
    """From now on note what of the page moves by itself."""
    page.evaluate(WATCH_SHIFTS)
    page.evaluate(TWO_FRAMES)
    page.evaluate("() => { window.shifts = []; }")


def check_nothing_moved(page: Page) -> None:
    """Fail if anything that was seen before and after moved since ``watch_shifts``."""
    page.evaluate(TWO_FRAMES)
    moved = page.evaluate("window.shifts")
    assert moved == [], f"{page.url}\n{moved}"


def check_width(page: Page) -> None:
    """Fail when the page is wider than its window."""
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert too_wide <= 0, f"{page.url} is {too_wide} px wider than its window: {page.viewport_size}"


def check_no_sideways_scrolling(page: Page, options: dict[str, Any] | None = None) -> None:
    """Fail when a phone would have to scroll sideways. With axe's ``options``: also for what it finds at this width."""
    size = page.viewport_size
    page.set_viewport_size({"width": WIDTHS["phone"], "height": 844})
    page.evaluate(TWO_FRAMES)
    check_width(page)
    if options is not None:
        check_accessibility(page, options)
    if size is not None:
        page.set_viewport_size(size)
        page.evaluate(TWO_FRAMES)


def check_page(page: Page, name: str = "") -> None:
    """Check a page for axe violations (light, dark), sideways scrolling and what is too small for a finger.

    With a name take its pictures, too.
    """
    page.emulate_media(color_scheme="light")
    check_accessibility(page)
    take_pictures(page, name, "light")
    page.emulate_media(color_scheme="dark")
    page.evaluate(RESTYLE)
    check_accessibility(page, COLOURS)
    take_pictures(page, name, "dark")
    page.emulate_media(color_scheme="light")
    page.evaluate(RESTYLE)
    with fingers(page):
        page.evaluate(TWO_FRAMES)
        check_width(page)
        check_targets(page)


def picture_page(page: Page, name: str) -> None:
    """Take the pictures of a page that ``test_looks`` checks, if they are wanted."""
    if not os.environ.get("WFDASH_SCREENSHOTS"):
        return
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.reload()
        take_pictures(page, name, scheme)


def take_pictures(page: Page, name: str, scheme: str) -> None:
    """Picture the page in both widths; only when ``WFDASH_SCREENSHOTS`` names the folder for the documentation.

    All of them go to ``test-results/screenshots``; the wide, light one also replaces that of the documentation.
    """
    kept = os.environ.get("WFDASH_SCREENSHOTS")
    if not kept or not name:
        return
    size = page.viewport_size
    for label, width in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": 900})
        save_png(page.screenshot(full_page=label == "phone"), ALL / f"{name}-{label}-{scheme}.png")
        if (label, scheme) == ("wide", "light") and (known := Path(kept) / f"{name}.png").exists():
            save_png(page.screenshot(), known)
    if size is not None:
        page.set_viewport_size(size)


def save_png(png: bytes, path: Path) -> None:
    """Store a picture with 128 colours: about a quarter of the bytes, and still text to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(io.BytesIO(png)).convert("RGB").quantize(128).save(path, optimize=True)
