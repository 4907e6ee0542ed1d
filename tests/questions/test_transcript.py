"""What pages show of a checkpoint is plain JSON that may lie in a body or on a card, and comes back as it was."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from wfdash.contract import Message, ToolUse, pack_transcript, unpack_transcript
from wfdash.questions.evidence import Transcript
from wfdash.questions.tools import Masking, masked_card
from wfdash.values.schemas.secrets import HIDDEN

CALL = ToolUse(id="c1", name="look_up", arguments={"order": 1042})
CONVERSATION = (
    Message(role="system", text="Be kind."),
    Message(role="user", text="Where is it?", name="Mara", at=datetime(2026, 11, 23, 9, tzinfo=UTC)),
    Message(role="assistant", calls=(CALL,), model="m", input_tokens=0, output_tokens=7),
    Message(role="tool", name="look_up", text="lost", call="c1", failed=True),
)


def test_a_transcript_is_the_same_after_it_was_stored():
    assert unpack_transcript(pack_transcript(CONVERSATION)) == CONVERSATION


def test_what_a_message_does_not_have_takes_no_space():
    assert pack_transcript(CONVERSATION[:1]) == [{"role": "system", "text": "Be kind."}]
    assert pack_transcript(()) == []


@pytest.mark.parametrize("wrong", [None, {}, "text", [{"role": "boss"}], [{"role": "user", "secret": 1}], [1]])
def test_what_is_no_transcript_is_refused(wrong):
    with pytest.raises(ValueError, match="validation error"):
        unpack_transcript(wrong)


def test_secrets_are_hidden_by_name_in_json_and_wherever_they_are_said_again():
    said = (
        Message(
            role="assistant", calls=(ToolUse(id="1", name="login", arguments={"user": "0000-1", "pin": "hunter22"}),)
        ),
        Message(role="assistant", calls=(ToolUse(id="2", name="login", arguments='{"deep": [{"pin": "0000-1"}]}'),)),
        Message(role="tool", call="1", text='{"pin": "echo-7", "ok": true}'),
        Message(role="assistant", text="I used hunter22, then 0000-1 and echo-7."),
        Message(role="tool", call="2", text="{broken: hunter22"),
    )
    masking = Masking()
    masked = [masking.masked(said[:known], {"pin"}) for known in (1, 2, 3, 5)][-1]
    assert not [secret for secret in ("hunter22", "0000-1", "echo-7") if secret in str(pack_transcript(masked))]
    assert masked[0].calls[0].arguments == {"user": HIDDEN, "pin": HIDDEN}
    assert masked[3].text == f"I used {HIDDEN}, then {HIDDEN} and {HIDDEN}."
    assert (masking.masked((*said, said[0]), {"pin"})[4], masking.masked(said, frozenset())) == (masked[4], said)


@pytest.mark.parametrize("name", ["_look", "_without_fields", "_without_values"])
def test_what_was_not_looked_at_because_of_an_error_is_looked_at_the_next_time(name, monkeypatch):
    said = [Message(role="tool", text=text) for text in ("a hush-1", '{"pin": "hush-1"}', "b hush-1", "c")]
    masking, left = Masking(), iter(range(5))
    masking.masked(said[:1], {"pin"})
    whole = getattr(masking, name)
    monkeypatch.setattr(masking, name, lambda value: whole(value) if next(left) < 2 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        masking.masked(said, {"pin"})
    monkeypatch.undo()
    assert masking.masked(said, {"pin"}) == Masking().masked(said, {"pin"})


def test_what_is_no_secret_is_left_as_it_was_written():
    spaced = Message(role="tool", call="1", text='{ "a" :  1 }')
    short = Message(role="assistant", text="1 of 12", calls=(ToolUse(name="x", arguments={"pin": "1"}),))
    masked = Masking().masked((spaced, short), {"pin"})
    assert (masked[0], masked[1].text, masked[1].calls[0].arguments) == (spaced, "1 of 12", {"pin": HIDDEN})


def test_on_a_card_only_conversations_are_touched():
    plain = {"kind": "json", "value": {"pin": "x"}}
    talk = Transcript(messages=[Message(role="assistant", calls=(ToolUse(name="x", arguments={"pin": "12345"}),))])
    card = {"subject": "S", "evidence": [plain, talk.shown(), {"kind": "transcript", "value": {"pin": "12345"}}]}
    hidden = masked_card(card, {"pin"})["evidence"]
    assert hidden[0] == plain
    assert "12345" not in str(hidden[1:])
    assert masked_card({"subject": "S", "evidence": "odd"}, {"pin"}) == {"subject": "S", "evidence": "odd"}


def test_a_conversation_on_a_card_validates_itself_where_it_is_made():
    made = Transcript(title="T", messages=[{"role": "user", "text": "a\x00b"}], earlier=3)
    shown = made.shown()
    assert shown == {"kind": "transcript", "title": "T", "value": [{"role": "user", "text": "a␀b"}], "earlier": 3}
    assert Transcript.model_validate(shown).messages[0].text == "a␀b"
    for wrong in ([{"role": "boss"}], [{}], "text", [CONVERSATION[0]] * 1001):
        with pytest.raises(ValueError, match="validation error"):
            Transcript(messages=wrong)


def test_many_secrets_take_no_longer_than_a_few():
    said = [Message(role="tool", text=f'{{"pin": "hush-{n}"}}') for n in range(3000)]
    said.append(Message(role="user", text="hush-1999 hush-29 hush-x"))
    begun = time.process_time()
    assert Masking().masked(said, {"pin"})[-1].text == f"{HIDDEN} {HIDDEN} hush-x"
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "text", ['{"pin": "[' + "[" * 90 + '"}', '["\\"' + "{" * 90 + '"]', "{" + " " * 90, "[" * 90 + "no json"]
)
def test_brackets_in_strings_are_no_depth(text):
    deep = text.startswith("[[")
    (masked,) = Masking().masked([Message(role="tool", text=text)], {"pin"})
    assert (masked.text == HIDDEN) is deep
