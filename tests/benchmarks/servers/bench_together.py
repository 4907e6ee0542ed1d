"""How soon a second person sees what the first one decided, in milliseconds: on their socket, and in their browser.

Both from before the POST of the decision card, so the answer's own transaction is part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.servers.bench_latency import SERVED, open_requests, start_runs
from tests.benchmarks.world import Report, fresh_django, median, percentile
from tests.e2e.client import Person
from tests.e2e.conftest import FLAGS, sign_in
from tests.e2e.server import Server, wait_until

ON_SOCKET = 60
IN_BROWSER = 30
SEEN = """() => new Promise((resolve) => {
  const look = () => {
    if (document.getElementById("request-live")?.dataset.state === "open") return requestAnimationFrame(look);
    resolve(Date.now());
  };
  look();
})"""


def on_socket(first: Person, second: Person, requests: list[str]) -> list[float]:
    """Return how long after each POST the second person's socket names the request."""
    heard: dict[str, int] = {}
    begun, over = Event(), Event()

    def listen() -> None:
        with second.socket("/live/lists/") as socket:
            while not over.is_set():
                now = json.loads(socket.recv(timeout=20))
                at = time.monotonic_ns()
                for what in now.get("what", ()):
                    heard.setdefault(what, at)
                begun.set()

    Thread(target=listen, daemon=True).start()
    begun.wait(10)
    waited = []
    for request in requests:
        began = time.monotonic_ns()
        answer(first, request)
        name = f"request:{request}"
        waited.append((wait_until(lambda name=name: heard.get(name, 0), what="the message") - began) / 1e6)
        time.sleep(0.05)
    over.set()
    return waited


def in_browser(first: Person, page: Page, requests: list[str]) -> list[float]:
    """Return how long after each POST the second person's open page says so."""
    waited = []
    for request in requests:
        page.goto(f"/requests/{request}/")
        page.locator("[data-live-state=live]").first.wait_for()
        page.wait_for_timeout(300)
        page.evaluate(f"() => {{ window.seen = ({SEEN})(); }}")
        began = time.time() * 1000
        answer(first, request)
        waited.append(page.evaluate("window.seen") - began)
    return waited


def answer(person: Person, request: str) -> None:
    """Approve, as the decision card does."""
    response = person.post(f"/requests/{request}/", {"_action": "approve"})
    assert response.status_code < 400, response.text[:2000]


def measure(server: Server, report: Report) -> None:
    """Measure with the default: an answer may be taken back for ten seconds, and others see it at once."""
    start_runs(server, "asking", {"log": os.devnull}, ON_SOCKET + IN_BROWSER)
    wanted = ON_SOCKET + IN_BROWSER
    requests = wait_until(lambda: found if len(found := open_requests()) == wanted else [], seconds=60)
    first, second = Person(server, "admin"), Person(server, "admin")
    first.get(f"/requests/{requests[0]}/").raise_for_status()
    note(report, "on a second person's socket", on_socket(first, second, requests[:ON_SOCKET]))
    with sync_playwright() as playwright:
        path = os.environ.get("WFDASH_CHROMIUM") or shutil.which("chromium")
        browser: Any = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_context(base_url=server.url).new_page()
        sign_in(page, server.link_for("admin"))
        note(report, "in a second person's browser", in_browser(first, page, requests[ON_SOCKET:]))
        browser.close()


def note(report: Report, where: str, waited: list[float]) -> None:
    """Add p50 and p95."""
    report.note(f"decision -> {where}, p50", f"{median(waited):.1f} ms")
    report.at_most(f"decision -> {where}, p95", percentile(waited, 0.95), 100)


def main() -> int:
    """Measure and print."""
    report = Report("together")
    os.environ["WFDASH_WORKFLOWS"] = str(SERVED)
    with (
        tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder,
        fresh_django(Path(folder) / "data"),
    ):
        server = Server(Path(folder) / "data", files=[SERVED], undo=10).start()
        try:
            measure(server, report)
        finally:
            server.stop()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
