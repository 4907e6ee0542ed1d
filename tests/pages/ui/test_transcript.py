"""A conversation is drawn from its end, each call with its result; odd ones are drawn all the same."""

from __future__ import annotations

from wfdash.contract import Message, ToolUse
from wfdash.web.pages.tags import tabled
from wfdash.web.pages.ui.transcript import LONG_TEXT, diff_transcripts, draw_talk


def asked(number: int) -> Message:
    return Message(role="user", text=f"Question {number}")


def called(*calls: str) -> Message:
    uses = tuple(ToolUse(id=call, name="look", arguments={"n": call}) for call in calls)
    return Message(role="assistant", calls=uses)


def gave(call: str, text: str = "ok", **more: bool) -> Message:
    return Message(role="tool", call=call, name="look", text=text, **more)


def test_results_are_joined_to_their_calls_in_any_order():
    talk = draw_talk([called("a", "b"), gave("b", '{"x": 1}'), gave("a", "no", failed=True), called("c")])
    first, last = talk.turns
    assert [(call.summary, call.state) for call in first.calls] == [("n a", "failed"), ("n b", "done")]
    assert (first.calls[1].result.value, first.calls[0].result.block.first) == ({"x": 1}, "no")
    assert [call.state for call in last.calls] == ["pending"]


def test_a_result_without_a_call_stands_alone():
    talk = draw_talk([gave("gone", "lost"), gave("", "[1"), called("a"), gave("a"), gave("a", "twice")])
    assert [turn.who for turn in talk.turns] == ["Result of look", "Result of look", "Assistant", "Result of look"]
    assert [turn.result.block.first for turn in talk.turns if turn.result] == ["lost", "[1", "twice"]


def test_calls_with_one_id_again_and_again_get_their_own_results():
    talk = draw_talk([called("a"), gave("a", "first"), called("a"), gave("a", "second")])
    assert [turn.calls[0].result.block.first for turn in talk.turns] == ["first", "second"]


def test_the_end_is_shown_and_a_call_in_it_finds_a_result_that_is_further_on():
    messages = [*map(asked, range(97)), called("a"), gave("a"), asked(99)]
    talk = draw_talk(messages, limit=3)
    assert ([turn.number for turn in talk.turns], talk.before, talk.after, talk.total) == ([98, 100], 97, 0, 100)
    before = draw_talk(messages, limit=3, until=98)
    assert ([turn.number for turn in before.turns], before.after) == ([96, 97, 98], 2)
    assert before.turns[-1].calls[0].state == "done"
    left_out = draw_talk(messages[-3:], limit=2, left_out=97)
    assert ([turn.number for turn in left_out.turns], left_out.before, left_out.earlier) == ([100], 98, True)


def test_long_messages_and_system_prompts_are_folded_but_not_what_was_said_last():
    long = "word " * LONG_TEXT
    said = [Message(role="system", text="Be kind."), asked(1), Message(role="assistant", text=long)]
    system, user, assistant = draw_talk(said).turns
    assert (system.folded, system.beginning, user.folded, assistant.folded) == (True, "Be kind.", False, False)
    assert draw_talk([Message(role="assistant", text=long), asked(1)]).turns[0].beginning.endswith("word…")
    assert not draw_talk([Message(role="system")]).turns[0].folded


def test_deceiving_characters_are_made_visible():
    odd = Message(role="user", name="root\u202e", text="a\u202eb", model="m\u200b")
    odd_call = Message(role="assistant", calls=(ToolUse(name="pay\u202e", arguments={"to": "x\u202e"}),))
    user, assistant = draw_talk([odd, odd_call]).turns
    shown = [user.who, user.block.first, user.model, assistant.calls[0].name, assistant.calls[0].summary]
    assert all("[U+20" in text for text in shown)


def test_arguments_that_are_no_object_are_shown_as_they_are():
    calls = [ToolUse(name="a", arguments=given) for given in (None, "", "{broken", '{"n": 1}', [1, 2], 7)]
    (turn,) = draw_talk([Message(role="assistant", calls=tuple(calls))]).turns
    found = [(call.arguments, call.block and call.block.first) for call in turn.calls]
    assert found == [(None, None), (None, None), (None, "{broken"), ({"n": 1}, None), ([1, 2], None), (7, None)]


def test_tokens_are_counted_where_they_are_known():
    used = Message(role="assistant", text="x", input_tokens=1200, output_tokens=30)
    talk = draw_talk([asked(1), used, used])
    tokens = [turn.tokens for turn in talk.turns]
    assert (talk.usage, tokens[:2]) == ("2,400 in, 60 out tokens", ["", "1,200 in, 30 out tokens"])


def test_two_conversations_differ_from_where_they_part():
    one, other = [asked(1), asked(2), called("a")], [asked(1), asked(2), gave("a"), asked(3)]
    found = diff_transcripts(one, other)
    assert (found.shared, found.removed.total, [turn.number for turn in found.added.turns]) == (2, 1, [3, 4])
    assert diff_transcripts(one, one) is None
    assert diff_transcripts([], one).added.total == 3


def test_flat_values_are_tables_and_all_others_trees():
    assert tabled({"order_id": 7, "ok": True})["table"].rows == (("Order ID", "7"), ("Ok", "yes"))
    assert tabled([{"a": 1, "b": None}, {"a": 2, "b": "x"}])["table"].rows == (("1", "—"), ("2", "x"))
    for other in ({}, [], [1], {"a": {}}, [{"a": 1}, {"b": 1}], [{"a": 1}, 2], {"a": "x" * 501}, [{"a": 1}] * 201, "a"):
        assert tabled(other) is None
