from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from checkpoints.models import Event
from tests.worker.conftest import reaches, until
from tests.workflow.world import flow
from wfdash.actions.runs.lifecycle import start_run
from wfdash.installation.environment import as_level
from wfdash.worker.worker import capture_step_logs

log = logging.getLogger("shop.parcels")


@contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """Give a root logger that no one has configured, pytest neither."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def talker(serve) -> None:
    def pack(count: int) -> int:
        log.info("packing %d, see /answer/secret-token/", count)
        if count > 3:
            raise RuntimeError("too many")
        return count

    serve(flow(pack, name="talk"))


def told(run) -> list[tuple[str, dict]]:
    return list(Event.objects.filter(run=run, kind="log").values_list("step", "data"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.process
@pytest.mark.parametrize(("count", "end"), [(1, "completed"), (9, "failed")])
def test_what_a_step_logs_stands_in_the_run_without_secrets_of_links(talker, start_worker, otto, count, end) -> None:
    with bare_root():
        worker = start_worker()
        run = start_run(otto, "talk", count)
        until(reaches(run, end))
        worker.stop()
    ((step, data),) = told(run)
    assert (step, data["level"], data["logger"]) == ("pack", "INFO", "shop.parcels")
    assert data["message"] == f"packing {count}, see /answer/…/"


@pytest.mark.django_db(transaction=True)
@pytest.mark.process
def test_the_level_is_a_setting_and_off_keeps_nothing(talker, start_worker, otto, settings) -> None:
    settings.WFDASH_LOG_LEVEL = as_level("WFDASH_LOG_LEVEL", "OFF")
    with bare_root():
        worker = start_worker()
        run = start_run(otto, "talk", 1)
        until(reaches(run, "completed"))
        worker.stop()
    assert told(run) == []


def test_listening_leaves_the_root_logger_as_it_was() -> None:
    with bare_root() as root:
        first, second = capture_step_logs(), capture_step_logs()
        assert (len(root.handlers), root.level) == (1, logging.INFO)
        first()
        assert len(root.handlers) == 1
        second()
        assert (root.handlers, root.level) == ([], logging.WARNING)


def test_what_the_application_lets_through_is_its_own_affair() -> None:
    with bare_root() as root:
        root.addHandler(logging.NullHandler())
        leave = capture_step_logs()
        assert root.level == logging.WARNING
        leave()


def test_warnings_that_no_one_else_handles_are_still_printed_and_others_once(capsys, monkeypatch) -> None:
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(sys.stderr))
    logging.lastResort.setLevel(logging.WARNING)
    with bare_root() as root:
        leave = capture_step_logs()
        log.warning("watch out")
        log.info("quiet")
        root.addHandler(logging.NullHandler())
        log.warning("handled elsewhere")
        leave()
    assert capsys.readouterr().err == "watch out\n"


def test_only_levels_that_there_are_can_be_chosen() -> None:
    assert as_level("WFDASH_LOG_LEVEL", "debug") == logging.DEBUG
    with pytest.raises(ValueError, match="OFF, not 'LOUD'"):
        as_level("WFDASH_LOG_LEVEL", "LOUD")
