"""A browser or a driver that does not answer is killed when it is closed, and the next test gets another."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.e2e import chromium as processes
from tests.e2e.chromium import Chromium, Process, browsers, drivers, send


@pytest.fixture
def impatient(chromium: Chromium, monkeypatch: pytest.MonkeyPatch) -> Chromium:
    """The Chromium of these tests, which has half a second to close."""
    monkeypatch.setattr(processes, "CLOSING_SECONDS", 0.5)
    return chromium


@pytest.mark.parametrize("find", [browsers, lambda: browsers() + drivers()], ids=["browser", "browser-and-driver"])
def test_what_hangs_is_killed_when_a_context_closes(impatient: Chromium, find: Callable[[], list[Process]]) -> None:
    context = impatient.browser().new_context()
    context.new_page()
    hung = find()
    send(signal.SIGSTOP, hung)
    began = time.monotonic()
    impatient.close(context)
    assert time.monotonic() - began < 20
    page = impatient.browser().new_page()
    assert page.evaluate("1 + 1") == 2
    assert set(hung).isdisjoint(find())
    page.close()


def test_what_hangs_is_killed_when_the_browser_stops(impatient: Chromium) -> None:
    impatient.browser().new_page()
    send(signal.SIGSTOP, browsers())
    impatient.stop()
    assert browsers() == drivers() == []


def test_a_browser_that_is_killed_between_two_tests_is_started_again(impatient: Chromium) -> None:
    context = impatient.browser().new_context()
    send(signal.SIGKILL, browsers())
    impatient.close(context)
    page = impatient.browser().new_page()
    assert page.evaluate("1 + 1") == 2
    page.close()
