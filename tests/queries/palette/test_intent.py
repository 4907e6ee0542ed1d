"""What a text may mean: an id, names, a filter of either list; and what is said about the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.queries.palette import MOST_FLAWS, read_intent
from wfdash.queries.requests.inbox import FILTER as REQUESTS
from wfdash.queries.runs.filter_keys import FILTER as RUNS

RUN, OTHER = "0198c0de-0000-7000-8000-0000a1b2c3d4", "0198c0de-0000-7000-8000-00000000ffff"


@pytest.mark.parametrize("text", [RUN, "a1b2c3d4", "…a1b2c3d4", "...a1b2c3d4", "#a1b2c3d4", "any-id_of.mine"])
def test_a_single_word_may_be_an_id(text):
    assert read_intent(text).id == text.lstrip(".…#")


@pytest.mark.parametrize("text", ["", "two words", "-word", "status:failed", "status:failed word"])
def test_what_is_no_single_word_is_no_id(text):
    assert read_intent(text).id == ""


def test_a_pasted_address_leads_to_the_last_id_in_it_and_is_no_filter():
    found = read_intent(f"https://flows.example.org/runs/{OTHER}/checkpoints/{RUN}/?a=b")
    assert found.id == RUN
    assert (found.runs, found.requests, found.names, found.flaws) == (None, None, (), ())


def test_words_are_names_and_a_filter_of_both_lists():
    found = read_intent('Pay "Big Refund"')
    assert found.names == ("pay", "big refund")
    assert found.runs == found.requests == 'Pay "Big Refund"'


@pytest.mark.parametrize("text", ["status:failed pay", "-pay"])
def test_what_filters_is_no_name(text):
    assert read_intent(text).names == ()


def test_a_list_that_does_not_know_a_key_is_left_out_instead_of_showing_something_else():
    assert (read_intent("status:failed pay").runs, read_intent("status:failed pay").requests) == (
        "status:failed pay",
        None,
    )
    assert (read_intent("risk:high pay").runs, read_intent("risk:high pay").requests) == (None, "risk:high pay")
    both = read_intent("status:failed risk:high")
    assert (both.runs, both.requests, both.flaws) == (None, None, ())


def test_a_sign_between_words_does_not_keep_runs_from_being_found():
    found = read_intent("salt & pepper")
    assert (found.runs, found.requests, found.flaws) == ("salt pepper", "salt & pepper", ())
    assert (read_intent("&&").runs, read_intent("&&").requests) == (None, "&&")


def test_what_no_list_understands_is_named_and_the_rest_is_applied():
    found = read_intent("colour:red status:nonsense risk:nonsense status: pay")
    assert [flaw.part for flaw in found.flaws] == ["colour:red", "status:nonsense", "risk:nonsense", "status:"]
    assert "Unknown filter" in found.flaws[0].message
    assert "Expected: waiting" in found.flaws[1].message
    assert "Expected: high, medium" in found.flaws[2].message
    assert "Enter a value" in found.flaws[3].message
    assert found.runs == found.requests == "pay"
    assert found.names == ("pay",)


def test_a_filter_of_nothing_but_flaws_lists_nothing():
    found = read_intent("colour:red")
    assert (found.id, found.names, found.runs, found.requests) == ("", (), None, None)


@given(text=st.text(max_size=700))
def test_no_text_makes_reading_fail_and_what_is_applied_has_no_flaw(text):
    found = read_intent(text)
    assert not RUNS.read(found.runs or "").flaws
    assert not REQUESTS.read(found.requests or "").flaws
    assert len(found.flaws) <= MOST_FLAWS
