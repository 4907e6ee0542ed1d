"""What a line of the log says: as text and as JSON, with the run, step, worker and request that it is about."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from typing import Any

import pytest

from wfdash.installation.defaults import logging_settings, read_settings
from wfdash.telemetry import logs
from wfdash.telemetry.error_hook import ErrorHook
from wfdash.telemetry.logs import MAX_TEXT_CHARACTERS, JsonFormatter, LineFormatter, MaskLinks
from wfdash.web.http import PagesHandler, _request_id


def record(words: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    if error is None:
        return logging.LogRecord("mine", logging.WARNING, "p", 1, words, args, None)
    try:
        raise error
    except Exception:
        return logging.LogRecord("mine", logging.ERROR, "p", 1, words, args, sys.exc_info())


def test_json_is_one_object_a_line_with_what_it_is_about() -> None:
    with logs.about(run="r1", workflow="refund", worker="w"), logs.about(step="pay"):
        line = JsonFormatter().format(record("two\nlines %d \x1b[2J", 7))
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "WARNING",
        "logger": "mine",
        "message": "two\nlines 7 \x1b[2J",
        "worker": "w",
        "workflow": "refund",
        "run": "r1",
        "step": "pay",
    }
    assert line.isascii()


def test_json_has_an_error_with_its_type_message_and_the_end_of_its_traceback() -> None:
    found = json.loads(JsonFormatter().format(record("It failed", error=ValueError("no " * MAX_TEXT_CHARACTERS))))
    assert found["error"]["type"] == "ValueError"
    assert found["error"]["message"].startswith("no no")
    assert len(found["error"]["message"]) == len(found["error"]["trace"]) == MAX_TEXT_CHARACTERS
    short = json.loads(JsonFormatter().format(record("It failed", error=ValueError("no"))))
    assert short["error"]["trace"].endswith("ValueError: no")
    assert "Traceback" in short["error"]["trace"]


def test_no_address_that_someone_asks_for_writes_keys_of_a_line() -> None:
    asked = '/sign-in/secret","level":"INFO","message":"all is well'
    with logs.about(path=asked):
        line = JsonFormatter().format(record("Not Found: %s", asked, error=ValueError(asked)))
    found = json.loads(line)
    masked = asked.replace("secret", "…")
    assert (found["level"], found["message"], found["path"]) == ("ERROR", f"Not Found: {masked}", masked)
    assert found["error"]["message"] == masked
    assert line.isascii()


def test_an_exception_without_a_text_ends_nothing_that_logs_it(capfd: pytest.CaptureFixture[str]) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    got: list[str] = []
    console, hook = logging.StreamHandler(), ErrorHook(lambda: lambda error, facts: got.append(facts["message"]))
    console.addFilter(MaskLinks())
    logger = logging.Logger("mine")
    logger.addHandler(console)
    logger.addHandler(hook)
    try:
        raise Mute
    except Mute as error:
        logger.exception("It failed: %s", error)
    hook.flush()
    hook.close()
    assert got == ["It failed: %s (cannot be written: RuntimeError)"]
    assert "--- Logging error ---" in capfd.readouterr().err


@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter("%(message)s")])
def test_an_error_does_not_say_the_secret_of_a_link(formatter: logging.Formatter) -> None:
    line = formatter.format(record("It failed", error=ValueError("no answer from https://x/answer/the-secret/ at all")))
    assert "the-secret" not in line
    assert "ValueError" in line


def test_text_names_run_step_and_request_once() -> None:
    formatter = LineFormatter("%(message)s")
    with logs.about(run="r1", step="pay", worker="w", request="q"):
        assert formatter.format(record("Sent")) == "Sent [request q, run r1, step pay]"
        assert formatter.format(record("Run %s failed", "r1")) == "Run r1 failed [request q, step pay]"
    assert formatter.format(record("Sent")) == "Sent"


def test_what_a_task_binds_is_its_own_and_that_of_its_tasks_and_threads() -> None:
    async def drive(run: str) -> list[str]:
        logs.bind(run=run)
        inner = asyncio.create_task(asyncio.to_thread(logs.current_facts))
        return [logs.current_facts()["run"], (await inner)["run"]]

    async def both() -> list[list[str]]:
        return await asyncio.gather(drive("a"), drive("b"))

    assert asyncio.run(both()) == [["a", "a"], ["b", "b"]]
    assert "run" not in logs.current_facts()


@pytest.mark.parametrize(
    ("given", "kept"), [(b"abc-1.2:x", True), (b"", False), (b"x" * 65, False), (b"a b", False), (b"\xffx", False)]
)
def test_a_request_has_the_id_of_the_proxy_or_one_of_its_own(given: bytes, kept: bool) -> None:
    found = _request_id({"headers": [(b"host", b"x"), (b"x-request-id", given)]})
    assert (found == given.decode("latin1")) is kept
    assert len(found) == (len(given) if kept else 16)


@pytest.mark.django_db
def test_a_response_names_the_request_and_its_lines_in_the_log_do_too() -> None:
    seen: list[dict[str, str]] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(logs.current_facts())

    listener = Listener()
    logger = logging.getLogger("django.request")
    logger.addHandler(listener)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/answer/secret-of-a-link/none",
        "headers": [(b"host", b"testserver"), (b"x-request-id", b"from-the-proxy")],
        "query_string": b"",
    }
    try:
        reply = PagesHandler()._respond(scope, io.BytesIO())
    finally:
        logger.removeHandler(listener)
    assert reply.status == 404
    assert (b"X-Request-ID", b"from-the-proxy") in reply.headers
    assert seen == [{"request": "from-the-proxy", "path": "/answer/…/none"}]
    assert logs.current_facts() == {}


def test_the_settings_choose_format_and_level() -> None:
    made = logging_settings("json", logging.DEBUG)
    assert made["formatters"]["line"]["()"].endswith("JsonFormatter")
    assert made["loggers"]["checkpoints"]["level"] == logging.DEBUG
    assert made["loggers"]["django"]["level"] == logging.WARNING
    with pytest.raises(ValueError, match="WFDASH_LOG must be text or json, not 'xml'"):
        read_settings({"WFDASH_LOG": "xml"})
