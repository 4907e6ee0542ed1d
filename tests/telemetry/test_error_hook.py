"""``WFDASH_ON_ERROR`` gets errors of steps, loops and requests, and can harm none of them."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError

from tests.documentation.test_types import ROOT, blocks_of
from wfdash.telemetry import error_hook, logs
from wfdash.telemetry.error_hook import MAX_PENDING_ERRORS, ErrorHook, install_hook, load_hook, refuse_broken_hook
from wfdash.values.errors import report_failure, watch_failures

Seen = list[tuple[BaseException, Mapping[str, str]]]


@pytest.fixture
def seen() -> Seen:
    return []


@pytest.fixture
def hook(seen: Seen) -> Iterator[ErrorHook]:
    """Give a hook on a logger of its own and on failures of steps."""
    hook = ErrorHook(lambda: lambda error, facts: seen.append((error, facts)))
    logger = logging.getLogger("wfdash.test_hook")
    logger.addHandler(hook)
    leave = watch_failures(hook.report_step)
    yield hook
    leave()
    logger.removeHandler(hook)
    hook.close()


def fail(error: BaseException, words: str = "Could not look; retrying") -> None:
    try:
        raise error
    except type(error):
        logging.getLogger("wfdash.test_hook").exception(words)


def test_errors_of_loops_come_with_what_they_are_about(hook: ErrorHook, seen: Seen) -> None:
    error = ValueError("no")
    with logs.about(worker="w1", run="r1"):
        fail(error)
    logging.getLogger("wfdash.test_hook").error("Without an exception")
    hook.flush()
    assert seen == [
        (
            error,
            {
                "worker": "w1",
                "run": "r1",
                "where": "process",
                "logger": "wfdash.test_hook",
                "message": "Could not look; retrying",
            },
        )
    ]
    assert error.__traceback__ is not None


def test_what_leaves_names_no_secret_of_a_link(hook: ErrorHook, seen: Seen) -> None:
    fail(ValueError("no"), "Internal Server Error: /answer/the-secret")
    hook.flush()
    assert [facts["message"] for _, facts in seen] == ["Internal Server Error: /answer/…"]


def test_a_hook_that_ends_its_thread_gets_the_next_error(hook: ErrorHook, seen: Seen) -> None:
    def leave(error: BaseException, facts: Mapping[str, str]) -> None:
        seen.append((error, facts))
        sys.exit(1)

    leaving = ErrorHook(lambda: leave)
    for n in range(2):
        leaving.report(ValueError(n), {})
    leaving.flush()
    assert len(seen) == 2


def test_a_step_that_failed_for_good_comes_with_its_name(hook: ErrorHook, seen: Seen) -> None:
    with logs.about(workflow="refund", run="r1"):
        report_failure(KeyError("x"), "pay")
    hook.flush()
    assert [facts for _, facts in seen] == [{"workflow": "refund", "run": "r1", "where": "step", "step": "pay"}]


def test_an_outage_of_the_database_is_left_to_the_log_and_to_probes(hook: ErrorHook, seen: Seen) -> None:
    for _ in range(5):
        fail(OperationalError("connection refused"))
    hook.flush()
    assert seen == []


def test_a_hook_that_raises_goes_on_and_one_that_is_slow_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    go, calls = Event(), []

    def slow(error: BaseException, facts: Mapping[str, str]) -> None:
        calls.append(error)
        go.wait(10)
        raise RuntimeError("the hook is broken")

    hook = ErrorHook(lambda: slow)
    for n in range(MAX_PENDING_ERRORS + 50):
        hook.report(ValueError(n), {"message": str(n)})
    dropped = hook.dropped
    go.set()
    hook.flush()
    assert 40 <= dropped <= 50
    assert len(calls) == MAX_PENDING_ERRORS + 50 - dropped
    assert "WFDASH_ON_ERROR failed at ValueError: 0" in caplog.text
    assert f"{dropped} were not handed to it" in caplog.text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("mine", "must be package.module:function, not 'mine'"),
        ("no_such_module:f", "no_such_module:f cannot be imported: ModuleNotFoundError"),
        ("json:nothing", "json:nothing cannot be imported: AttributeError"),
        ("json:__name__", "json:__name__ is no function"),
    ],
)
def test_a_path_that_leads_nowhere_stops_the_start_with_the_reason(path: str, why: str, settings: object) -> None:
    settings.WFDASH_ON_ERROR = path  # type: ignore[attr-defined]
    with pytest.raises(ImproperlyConfigured, match="WFDASH_ON_ERROR") as refused:
        refuse_broken_hook()
    assert why in str(refused.value)


def test_a_hook_is_imported_with_the_first_error_and_loggers_without_handlers_still_print(
    monkeypatch: pytest.MonkeyPatch, seen: Seen, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("wfdash_test_installed")
    logger.propagate = False
    monkeypatch.setattr(error_hook, "LOGGERS", (logger.name,))
    left: list[object] = []
    monkeypatch.setattr(error_hook, "watch_failures", left.append)
    install_hook("")
    assert logger.handlers == []
    install_hook("hook_of_this_test:on_error")
    module = types.ModuleType("hook_of_this_test")
    module.on_error = lambda error, facts: seen.append((error, facts))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert load_hook("hook_of_this_test:on_error") is module.on_error
    try:
        raise ValueError("no")
    except ValueError:
        logger.exception("It failed")
    (hook,) = [one for one in logger.handlers if isinstance(one, ErrorHook)]
    hook.flush()
    assert len(seen) == len(left) == 1
    assert "It failed" in capfd.readouterr().err
    logger.handlers.clear()


def test_the_recipe_of_the_docs_hands_an_error_to_sentry_with_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    sentry: Any = types.ModuleType("sentry_sdk")
    sentry.init = lambda: sent.append("init")
    sentry.new_scope = lambda: nullcontext(SimpleNamespace(set_tags=sent.append))
    sentry.capture_exception = sent.append
    monkeypatch.setitem(sys.modules, "sentry_sdk", sentry)
    (block,) = blocks_of(ROOT / "docs" / "monitoring.md")
    recipe: dict[str, Any] = {}
    exec(block, recipe)
    error, facts = ValueError("no"), {"where": "step", "run": "r1"}
    recipe["on_error"](error, facts)
    assert sent == ["init", facts, error]
