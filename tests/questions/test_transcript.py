"""What pages show of a checkpoint is plain JSON that may lie in a body or on a card, and comes back as it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wfdash.questions.transcript import Message, ToolUse, pack_transcript, unpack_transcript

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
