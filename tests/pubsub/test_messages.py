from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.content.encryption import encryptor_of
from wfdash.pubsub import Topic
from wfdash.pubsub.transport import ORIGINS, Envelope, Message, key_of, read_message

KEYS = [key_of("one")]
SECRET = "a key of an installation that encrypts"


def envelope(origin: str = "web-1", *, keys: Sequence[bytes] = KEYS, encryption: str = "") -> Envelope:
    return Envelope(origin, keys=keys, encryptor=encryptor_of(encryption))


def carried(messages: Sequence[Message], *, most: int = 7_900, encryption: str = "") -> list[Message]:
    """Return what another process reads of what one sends."""
    texts = list(envelope(encryption=encryption).pack(messages, most))
    assert all(text.isascii() and len(text) <= most for text in texts)
    found = [envelope("web-2", encryption=encryption).open(text) for text in texts]
    return [message for packet in found if packet is not None for message in packet.messages]


@given(st.text(st.characters(), max_size=200), st.text(max_size=200), st.integers(0, 2**63 - 1))
def test_any_text_arrives(workflow, request, seq) -> None:
    sent = [Message("request", (workflow, "people", request)), Message("run", (request, seq)), Message("rights", ("",))]
    assert carried(sent) == sent


@pytest.mark.parametrize("encryption", ["", SECRET])
@pytest.mark.parametrize("character", ["a", "é", "\N{PARTY POPPER}", "\x00", '"', "\ud800"])
def test_text_too_long_for_one_message_arrives_in_pieces(character, encryption) -> None:
    pieces = carried([Message("text", ("r", "write", character * 30_000, True))], encryption=encryption)
    assert "".join(piece.args[2] for piece in pieces) == character * 30_000
    assert [piece.args[3] for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert len(pieces) > 1


def test_no_two_texts_are_the_same() -> None:
    ours, message = envelope(), Message("text", ("r", "write", "ha", False))
    assert len({*ours.pack([message], 7_900), *ours.pack([message], 7_900)}) == 2


def test_a_text_that_is_sent_again_says_nothing() -> None:
    """Who reads the carrier could repeat what a step streamed, or a retry after a lost connection."""
    ours, theirs = envelope(), envelope("web-2")
    first, second = (text for run in "ab" for text in ours.pack([Message("due", (run,))], 7_900))
    heard = [theirs.open(text) for text in (first, first, second, first, second)]
    assert [packet and list(packet.messages) for packet in heard] == [
        *([Message("due", ("a",))], []),
        *([Message("due", ("b",))], [], []),
    ]
    (other,) = envelope("worker-1").pack([Message("due", ("c",))], 7_900)
    found = theirs.open(other)
    assert found
    assert found.messages


def test_numbers_are_kept_of_a_thousand_processes() -> None:
    theirs = envelope("web-2")
    texts = [*(text for n in range(ORIGINS + 1) for text in envelope(f"w{n}").pack([Message("due", ("r",))], 7_900))]
    for text in texts:
        theirs.open(text)
    again = [theirs.open(text) for text in (texts[1], texts[-1], texts[0])]
    assert [bool(packet and packet.messages) for packet in again] == [False, False, True]


def test_what_cannot_be_short_enough_is_left_out_and_the_rest_arrives() -> None:
    assert carried([Message("inbox", ("w" * 9_000,)), Message("due", ("r",))]) == [Message("due", ("r",))]


def test_ten_thousand_messages_arrive_in_order_in_few_texts() -> None:
    sent = [Message("run", (f"run-{number}", number)) for number in range(10_000)]
    assert carried(sent) == sent
    assert len(list(envelope().pack(sent, 7_900))) < 40


def test_what_another_installation_sends_is_ignored() -> None:
    (text,) = envelope(keys=[key_of("other")]).pack([Message("due", ("r",))], 7_900)
    assert envelope("web-2").open(text) is None


def test_the_key_before_is_still_known() -> None:
    (text,) = envelope().pack([Message("due", ("r",))], 7_900)
    packet = envelope("web-2", keys=[key_of("new"), *KEYS]).open(text)
    assert packet is not None
    assert packet.messages == [Message("due", ("r",))]


@pytest.mark.parametrize("garbage", ["", "x", "web-1", "web-1 ", "web-1 " + "A" * 40, "\udcff \udcff", "é", "[["])
def test_garbage_is_ignored(garbage) -> None:
    assert envelope("web-2").open(garbage) is None


@given(st.integers(0, 200), st.characters())
def test_an_altered_text_is_ignored(place, character) -> None:
    (text,) = envelope().pack([Message("text", ("r", "write", "It was a dark night", False))], 7_900)
    altered = text[:place] + character + text[place + 1 :]
    assert (envelope("web-2").open(altered) is None) == (altered != text)


def test_nothing_of_the_content_is_readable_where_content_is_encrypted() -> None:
    (text,) = envelope(encryption=SECRET).pack([Message("text", ("r", "write", "It was a dark night", False))], 7_900)
    assert "night" not in text
    assert envelope("web-2").open(text) is None


@pytest.mark.parametrize(
    "row",
    [
        *(None, 1, {}, [], [1], ["later", "r"], ["due"], ["due", 1], ["due", "r", "s"], ["run", "r", "1"]),
        *(["run", "r", -1], ["run", "r", 2**63], ["run", "r", True], ["text", "r", "s", "t", 1], ["rights", None]),
    ],
)
def test_a_message_of_another_form_is_none(row) -> None:
    assert read_message(json.loads(json.dumps(row))) is None


def test_every_listener_hears_until_it_leaves() -> None:
    heard: list[str] = []
    topic: Topic[[str]] = Topic()
    leave = topic.subscribe(heard.append)
    topic.publish("a")
    leave()
    topic.publish("b")
    assert heard == ["a"]


def test_a_listener_whose_loop_has_gone_does_not_keep_the_others_from_hearing() -> None:
    heard: list[str] = []

    def deaf(_: str) -> None:
        raise RuntimeError("Event loop is closed")

    topic: Topic[[str]] = Topic()
    topic.subscribe(deaf)
    topic.subscribe(heard.append)
    topic.publish("a")
    assert heard == ["a"]


def test_leaving_twice_is_harmless() -> None:
    topic: Topic[[]] = Topic()
    leave = topic.subscribe(lambda: None)
    leave()
    leave()
