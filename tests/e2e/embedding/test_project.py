"""Another project, served by daphne: its sign-in, its database, its templates, and the dashboard in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenContext, Troubles
from tests.e2e.moves import RUN_ADDRESS, expect_live, expect_status
from tests.e2e.server import free_port, wait_until
from tests.embedding.test_embedding import environment


@pytest.fixture
def project(tmp_path: Path) -> Iterator[str]:
    """The address of the project, whose runs and people have a database of their own."""
    port, log = free_port(), tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.embedding.serve", str(port)],
            env=environment(tmp_path, EMBEDDING_ALIAS="workflows", EMBEDDING_SERVER="1"),
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: process.poll() is not None or answers(port), what="a server that answers", pause=0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        status = process.wait(60)
    assert (status, "Traceback" in log.read_text()) == (0, False), log.read_text()


def answers(port: int) -> bool:
    try:
        return bool(urlopen(f"http://127.0.0.1:{port}/").status == 200)
    except URLError:
        return False


@pytest.mark.nightly
def test_a_person_of_the_project_starts_a_run_and_decides_it(
    project: str, open_context: OpenContext, troubles: Troubles
) -> None:
    troubles.expect("favicon")  # the project's own pages have none
    context = open_context(base_url=project)
    page, request = context.new_page(), context.new_page()
    page.goto("/")
    page.get_by_role("link", name="Questions for you").click()
    page.get_by_label("Email").fill("ana@example.org")
    page.get_by_label("Password").fill("of the shop")
    page.get_by_role("button", name="Enter the shop").click()

    page.goto("/people/workflows/refund/")
    expect(page.get_by_role("link", name="Back to the front")).to_be_visible()
    page.get_by_role("main").get_by_role("textbox").first.fill("5")
    page.get_by_role("main").get_by_role("button", name="Start").click()
    page.wait_for_url(RUN_ADDRESS)
    expect_status(page, "waiting")
    expect_live(page)

    request.goto("/people/")
    assert request.evaluate("document.documentElement.scrollHeight <= innerHeight")
    request.get_by_role("main").get_by_role("link", name="Refund 5 EUR?").first.click()
    request.get_by_role("button", name="Approve").first.click()
    expect_status(page, "completed")
    page.get_by_role("link", name="Back to the front").click()
    expect(page.get_by_role("heading", name="The shop")).to_be_visible()
