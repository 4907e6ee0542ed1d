"""The log stays readable and bounded, whatever is sent, fails or is logged by others' code."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from tests.telemetry.test_outages import out as out
from wfdash.telemetry import logs
from wfdash.telemetry.logs import LimitRepeats, LineFormatter, MaskLinks


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def log(now: list[float], out: io.StringIO) -> Iterator[logging.Logger]:
    """Give a logger that is set up as the settings say, with a clock of its own."""
    handler, logger = logging.StreamHandler(out), logging.getLogger("wfdash.test_logs")
    handler.addFilter(MaskLinks())
    handler.addFilter(LimitRepeats(clock=lambda: now[0]))
    handler.setFormatter(LineFormatter("%(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def fail(log: logging.Logger, words: str = "no") -> None:
    try:
        raise ValueError(words)
    except ValueError:
        log.exception("It failed")


def test_what_repeats_is_left_out_and_hides_nothing_else(log: Any, now: list[float], out: io.StringIO) -> None:
    for n in range(1_000):
        log.warning("Bad Request: /%d/", n)
    assert out.getvalue().count("\n") == logs.MAX_RECORDS_PER_PERIOD
    for _ in range(2):
        log.error("Something else")
    assert out.getvalue().count("Something else") == 2


def test_the_next_that_passes_says_how_many_were_left_out(log: Any, now: list[float], out: io.StringIO) -> None:
    for n in range(105):
        now[0] = 61.0 if n == 104 else 0.0
        log.warning("No connection")
    assert "No connection [99 similar messages omitted]" in out.getvalue()


def test_tracebacks_of_an_outage_are_bounded_by_their_error(log: Any, out: io.StringIO) -> None:
    for n in range(500):
        fail(log, f"try {n}")
    assert out.getvalue().count("Traceback") == logs.MAX_RECORDS_PER_PERIOD


def test_what_is_no_warning_all_passes(log: Any, out: io.StringIO) -> None:
    log.setLevel(logging.INFO)
    for _ in range(50):
        log.info("Started")
    assert out.getvalue().count("Started") == 50


def test_no_more_kinds_are_remembered_than_bounded() -> None:
    limit = LimitRepeats()
    for n in range(logs.MAX_REMEMBERED_KINDS * 2):
        limit.filter(logging.LogRecord("x", logging.WARNING, "p", n, "m", (), None))
    assert len(limit._seen) == logs.MAX_REMEMBERED_KINDS


@pytest.mark.parametrize(
    "text", ["\x1b[2Jgone", "one\nERROR wfdash: forged", "a\r\x08b", "\u202eevil", "\x9b31m", "\u2028x"]
)
def test_no_one_writes_lines_of_their_own_or_moves_the_cursor(log: Any, out: io.StringIO, text: str) -> None:
    log.warning("Said: %s", text)
    fail(log, text)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("WARNING wfdash.test_logs: Said: ")
    assert all(line.startswith(("WARNING", "ERROR wfdash.test_logs: It failed", logs.INDENT)) for line in lines)
    assert not logs.CONTROL.search(out.getvalue().replace("\n", ""))


def test_the_settings_use_both() -> None:
    handler = settings.LOGGING["handlers"]["console"]
    assert handler["filters"] == ["outages", "links", "repeats"]
    assert settings.LOGGING["formatters"][handler["formatter"]]["()"] == "wfdash.telemetry.logs.LineFormatter"


def test_what_steps_and_libraries_log_is_written_in_the_same_way(monkeypatch: Any, out: io.StringIO) -> None:
    last = logging.lastResort
    assert isinstance(last, logging.Handler)
    monkeypatch.setattr(type(last), "stream", out)
    record = logging.LogRecord("mine", logging.WARNING, "p", 1, "\x1b[2J /sign-in/secret/", (), None)
    last.handle(record)
    assert out.getvalue().endswith(" WARNING mine: \\x1b[2J /sign-in/…/\n")


@pytest.mark.django_db
def test_refused_requests_are_one_kind_by_status(out: io.StringIO) -> None:
    handler, logger = logging.StreamHandler(out), logging.getLogger("django.request")
    handler.addFilter(LimitRepeats())
    logger.addHandler(handler)
    try:
        for n in range(50):
            Client().get(f"/nothing/{n}/")
    finally:
        logger.removeHandler(handler)
    assert out.getvalue().count("\n") == logs.MAX_RECORDS_PER_PERIOD


def test_the_secret_of_a_token_is_masked(log: Any, out: io.StringIO) -> None:
    log.warning("Bad Request: /api/?t=%s&x=1", "wfd_ab12cd34_" + "s" * 43)
    assert "wfd_ab12cd34_…" in out.getvalue()
    assert "sss" not in out.getvalue()
