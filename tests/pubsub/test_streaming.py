from __future__ import annotations

from collections.abc import Iterator

import pytest

from wfdash.pubsub import process, text_streamed
from wfdash.pubsub.process import KeptText, StreamedText
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
