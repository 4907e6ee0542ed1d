"""Texts that are streamed, within a process and between several."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from checkpoints.sql.conninfo import parameters_of
from tests.pubsub.conftest import eventually
from wfdash import pubsub
from wfdash.installation.environment import signals_of
from wfdash.pubsub import process, text_streamed
from wfdash.pubsub.postgres import PostgresBus
from wfdash.pubsub.process import KeptText, ProcessSignals, StreamedText
from wfdash.pubsub.topics import text_ended


@pytest.fixture
def shown() -> Iterator[list[tuple]]:
    found: list[tuple] = []
    leave = text_streamed.subscribe(lambda *args: found.append(args))
    yield found
    leave()


@pytest.fixture
def ended() -> Iterator[list[tuple]]:
    found: list[tuple] = []
    leave = text_ended.subscribe(lambda *args: found.append(args))
    yield found
    leave()


def test_text_of_another_process_is_kept_for_who_comes_later_and_delivered_here(shown) -> None:
    texts = StreamedText()
    texts.hear("r", "write", "It ", True)
    texts.hear("r", "write", "was", False)
    assert texts.of("r") == {"write": KeptText("It was")}
    assert shown == [("r", "write", "It ", True), ("r", "write", "was", False)]
    texts.hear("r", "write", "Again", True)
    assert texts.of("r") == {"write": KeptText("Again")}


def test_who_begins_to_listen_in_the_middle_of_a_text_knows_that_its_beginning_is_missing() -> None:
    texts = StreamedText()
    texts.hear("r", "write", "was", False)
    assert texts.of("r") == {"write": KeptText("was", cut=True)}


def test_text_is_forgotten_when_its_step_or_run_ends_elsewhere() -> None:
    texts = StreamedText()
    texts.hear("r", "write", "It", True)
    texts.hear("r", "read", "was", True)
    texts.hear_end("r", "write")
    assert texts.of("r") == {"read": KeptText("was")}
    texts.hear_end("r", "")
    assert texts.of("r") == {}


def test_other_processes_hear_of_an_end_only_where_there_was_text(ended) -> None:
    texts = StreamedText()
    texts.forget("r", "write")
    texts.forget("r")
    texts.add("r", "write", "It")
    texts.forget("r", "write")
    texts.add("r", "write", "It")
    texts.forget("r")
    texts.forget("r")
    assert ended == [("r", "write"), ("r", "")]


def test_what_a_lost_process_streamed_is_forgotten_where_its_run_is_taken_over(ended) -> None:
    texts = StreamedText()
    texts.hear("r", "write", "It", True)
    texts.take_over("r")
    assert texts.of("r") == {}
    assert ended == [("r", "")]


def test_texts_of_other_processes_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(process, "MOST_ELSEWHERE", 2)
    texts = StreamedText()
    for run in "abc":
        texts.hear(run, "write", "It", True)
    assert [texts.of(run) for run in "abc"] == [{}, {"write": KeptText("It")}, {"write": KeptText("It")}]


WORKER = """
import django
django.setup()
from wfdash import pubsub
from wfdash.pubsub.process import signals
signals.start()
assert signals.transport.listening.wait(30)
pubsub.runs_due.subscribe(lambda run: pubsub.streamed_text.add(run, "write", "It was a dark night"))
pubsub.rights_changed.subscribe(lambda user: pubsub.streamed_text.forget("r1"))
print("ready", flush=True)
input()
pubsub.inbox_changed.publish("the last word")
"""


@pytest.fixture
def signals(postgres_server: dict[str, Any], monkeypatch) -> Iterator[ProcessSignals]:
    monkeypatch.setattr(process, "choose_bus", lambda: PostgresBus(parameters_of(postgres_server)))
    found = ProcessSignals()
    yield found
    found.stop()


@pytest.fixture
def worker(settings, postgres_server: dict[str, Any], tmp_path) -> Iterator[subprocess.Popen[str]]:
    """A process beside this one."""
    url = "postgresql://{USER}:{PASSWORD}@/{NAME}?host={HOST}".format_map(postgres_server)
    ours = {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "WFDASH_DATA": str(tmp_path / "data"), "WFDASH_DATABASE": url}
    env = os.environ | ours | {"WFDASH_SECRET_KEY": settings.SECRET_KEY}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as found:
        yield found
        found.kill()


@pytest.mark.postgres
@pytest.mark.process
def test_two_processes_hear_each_other_until_one_ends(signals, worker) -> None:
    signals.start()
    heard: list[str] = []
    leave = pubsub.inbox_changed.subscribe(heard.append)
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stdout.readline() == "ready\n"
    assert signals.transport is not None
    assert signals.transport.listening.wait(30)
    pubsub.runs_due.publish("r1")
    eventually(lambda: pubsub.streamed_text.of("r1") == {"write": KeptText("It was a dark night")})
    pubsub.rights_changed.publish(7)
    eventually(lambda: pubsub.streamed_text.of("r1") == {})
    worker.stdin.write("\n")
    worker.stdin.flush()
    assert worker.wait(30) == 0
    eventually(lambda: heard == ["the last word"])
    leave()


@pytest.mark.postgres
def test_they_are_started_once_and_stop_with_their_threads(signals) -> None:
    signals.start()
    transport = signals.transport
    signals.start()
    assert signals.transport is transport
    before = len(pubsub.runs_due._forwarders)
    signals.stop()
    assert signals.transport is None
    assert len(pubsub.runs_due._forwarders) == before - 1
    assert not any(thread.is_alive() for thread in transport._threads)


def test_on_sqlite_nothing_is_exchanged(settings) -> None:
    settings.WFDASH_SIGNALS = ""
    found = ProcessSignals()
    found.start()
    assert found.transport is None


@pytest.mark.parametrize(
    ("value", "on_postgres", "carried"),
    [
        ("", True, "postgres"),
        ("", False, "off"),
        ("off", True, "off"),
        ("postgres", True, "postgres"),
        ("rediss://h/1", False, "rediss://h/1"),
    ],
)
def test_what_carries_signals_follows_the_database_unless_set(value, on_postgres, carried) -> None:
    assert signals_of(value, on_postgres=on_postgres) == carried


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("postgres", "WFDASH_DATABASE"),
        ("yes", "postgres, off, or redis"),
        ("redis:/host", "must be"),
        ("redis://:half/rest@host/0", "WFDASH_SIGNALS is no address: write / . # of its password as %2F"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_with_what_could_be(value, words) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        signals_of(value, on_postgres=False)
    assert "half" not in str(refusal.value)
