"""Film the demo for the README: a run is started, asks, is approved and completes. ``film.py FOLDER``."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

COMMAND = [sys.executable, "-m", "wfdash"]
FRAMES: list[tuple[bytes, int]] = []


def show(page: Page, milliseconds: int) -> None:
    """Take a picture that is shown for so long."""
    page.wait_for_timeout(250)
    FRAMES.append((page.screenshot(), milliseconds))


def play(page: Page) -> None:
    """Do what is filmed."""
    main, status = page.get_by_role("main"), page.locator("#run-head [data-status]").first
    main.get_by_role("button").click()
    page.wait_for_url("**/")
    page.goto("/workflows/publish_article/")
    main.get_by_label("Cool-down").first.fill("1")
    start = main.get_by_role("button", name=re.compile("^Start"))
    start.scroll_into_view_if_needed()
    show(page, 1800)
    start.click()
    expect(status).to_have_attribute("data-status", "waiting", timeout=60_000)
    show(page, 2200)
    address = page.url
    page.locator("#run-requests").get_by_role("link").first.click()
    show(page, 3200)
    with page.expect_navigation():
        page.locator("article.card button[name=_action][value=approve]").first.click()
    page.goto(address)
    expect(status).not_to_have_attribute("data-status", "waiting", timeout=60_000)
    for _ in range(6):
        show(page, 500)
    expect(status).to_have_attribute("data-status", "completed", timeout=60_000)
    show(page, 3500)


def main() -> None:
    """Serve the demo, play, and write the pictures as one file."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WFDASH_")}
    demo = subprocess.Popen([*COMMAND, "demo", "--no-browser"], stdout=subprocess.PIPE, text=True, env=env)
    try:
        data = next(line.split()[-1] for line in demo.stdout or () if "--data" in line)
        link = subprocess.run(
            [*COMMAND, "signin", "ben", "--data", data], stdout=subprocess.PIPE, text=True, check=True
        )
        with sync_playwright() as player:
            browser = player.chromium.launch(executable_path=os.environ["WFDASH_CHROMIUM"], args=["--no-sandbox"])
            base = link.stdout.partition("/sign-in/")[0]
            page = browser.new_page(base_url=base, viewport={"width": 1120, "height": 700}, locale="en-GB")
            page.goto(link.stdout.strip())
            play(page)
            browser.close()
    finally:
        demo.terminate()
        demo.wait()
    first, *others = [Image.open(io.BytesIO(png)).convert("RGB") for png, _ in FRAMES]
    times = [milliseconds for _, milliseconds in FRAMES]
    path = Path(sys.argv[1]) / "demo.webp"
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, quality=70, method=6)


main()
