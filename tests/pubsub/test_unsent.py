from __future__ import annotations

import time

from wfdash.pubsub.transport import MOST_TEXT, Message, UnsentMessages


def test_of_a_run_only_the_newest_is_sent_and_of_equal_messages_one() -> None:
    unsent = UnsentMessages()
    for seq in (3, 9, 5):
        unsent.add("run", "r", seq)
        unsent.add("due", "r")
    assert unsent.take() == [Message("due", ("r",)), Message("run", ("r", 9))]
    assert unsent.take() == []


def test_streamed_text_is_joined_until_the_step_ends() -> None:
    unsent = UnsentMessages()
    unsent.add("text", "r", "write", "It ", True)
    unsent.add("text", "r", "other", "x", True)
    unsent.add("text", "r", "write", "was", False)
    unsent.add("ended", "r", "write")
    unsent.add("text", "r", "write", "Again", True)
    unsent.add("ended", "r", "")
    unsent.add("text", "r", "write", "And again", True)
    assert unsent.take() == [
        Message("text", ("r", "write", "It was", True)),
        Message("text", ("r", "other", "x", True)),
        Message("ended", ("r", "write")),
        Message("text", ("r", "write", "Again", True)),
        Message("ended", ("r", "")),
        Message("text", ("r", "write", "And again", True)),
    ]


def test_the_oldest_are_dropped_when_too_many_wait() -> None:
    unsent = UnsentMessages(most=3)
    for number in range(5):
        unsent.add("run", f"r{number}", 1)
    unsent.add("run", "r1", 2)
    assert [message.args for message in unsent.take()] == [("r3", 1), ("r4", 1), ("r1", 2)]
    assert unsent.dropped == 3


def test_streamed_text_that_waits_is_bounded() -> None:
    unsent = UnsentMessages()
    for _ in range(30):
        unsent.add("text", "r", "write", "x" * 100_000, False)
    (message,) = unsent.take()
    assert len(message.args[2]) == MOST_TEXT
    unsent.add("text", "r", "write", "more", False)
    assert unsent.take() == [Message("text", ("r", "write", "more", False))]


def test_ten_thousand_are_added_in_a_moment() -> None:
    unsent = UnsentMessages()
    began = time.perf_counter()
    for number in range(10_000):
        unsent.add("run", f"r{number % 100}", number)
    assert time.perf_counter() - began < 1
    assert len(unsent.take()) == 100


def test_a_run_s_newest_number_follows_the_text_that_was_streamed_before_it() -> None:
    unsent = UnsentMessages()
    unsent.add("run", "r", 3)
    unsent.add("text", "r", "write", "The end", True)
    unsent.add("run", "r", 4)
    assert [one.topic for one in unsent.take()] == ["text", "run"]
