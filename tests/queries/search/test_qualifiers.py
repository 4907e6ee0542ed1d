"""What holds for the filter of every list: one table of rows, from which everything else follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfdash.domain.errors import Invalid
from wfdash.queries.audit import FILTER as AUDIT
from wfdash.queries.requests.decisions import FILTER as DECISIONS
from wfdash.queries.requests.inbox import FILTER as REQUESTS
from wfdash.queries.runs.filter_keys import FILTER as RUNS
from wfdash.queries.schedules import FILTER as SCHEDULES
from wfdash.queries.search import ListFilter, Qualifier, Suggestion
from wfdash.queries.workflows import FILTER as WORKFLOWS

FILTERS = {
    "requests": REQUESTS,
    "decisions": DECISIONS,
    "runs": RUNS,
    "audit": AUDIT,
    "schedules": SCHEDULES,
    "workflows": WORKFLOWS,
}
ROWS = [(name, one) for name, known in FILTERS.items() for one in known.qualifiers]
IDS = [f"{name}-{one.key}" for name, one in ROWS]


@pytest.mark.parametrize(("name", "one"), ROWS, ids=IDS)
def test_every_example_is_a_filter_by_its_key(name, one):
    (term,) = FILTERS[name].read(one.example).terms
    assert term.key == one.key
    assert one.meaning


@pytest.mark.parametrize(("name", "one"), ROWS, ids=IDS)
def test_every_value_that_is_always_suggested_is_understood(name, one):
    for value in (*one.values, *one.only):
        assert FILTERS[name].read(f"{one.key}:{value}").flaws == ()


@pytest.mark.parametrize("name", FILTERS)
def test_no_key_is_there_twice(name):
    keys = [one.key for one in FILTERS[name].qualifiers]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", FILTERS)
def test_all_that_the_help_says_is_a_filter(name):
    for example, meaning in FILTERS[name].help():
        assert FILTERS[name].read(example).flaws == ()
        assert meaning


@pytest.mark.parametrize("name", FILTERS)
@given(text=st.text(max_size=200))
def test_no_text_makes_reading_fail(name, text):
    found = FILTERS[name].read(text)
    assert all(flaw.message and flaw.part for flaw in found.flaws)


KNOWN: ListFilter[None, tuple[str, ...]] = ListFilter(
    words="words",
    qualifiers=(
        Qualifier("state", "state:on", "on or off", only=("on", "off"), single=True, condition=None),
        Qualifier("who", "who:me", "a name", values=("me",), suggest=lambda names: names, condition=None),
        Qualifier("in", "in.a:1", "a value", paths=lambda names: [Suggestion("in.b", "b of x")], condition=None),
    ),
)


def test_a_wrong_part_names_its_key_and_the_remedy():
    with pytest.raises(Invalid) as raised:
        KNOWN.parse("state:up colour:red who:>ana")
    messages = {error["loc"][1]: error["msg"] for error in raised.value.errors}
    assert messages == {
        "state:up": 'Invalid value "up" for state. Expected: on or off. Example: state:on',
        "colour:red": 'Unknown filter "colour". Available: state, who, in.…. Put text with a colon in quotes.',
        "who:>ana": "> cannot be used here: who:me",
    }


def test_terms_that_repeat_a_key_with_one_value_are_alternatives():
    assert [term.values for term in KNOWN.read("state:on state:off who:a who:b").terms] == [
        ("on", "off"),
        ("a",),
        ("b",),
    ]
    assert [term.values for term in KNOWN.read("state:on -state:off").terms] == [("on",), ("off",)]


def test_suggestions_are_keys_paths_and_values():
    found = KNOWN.suggestions(("Ana Lee", "bo"))
    assert [key["key"] for key in found["keys"]] == ["state", "who", "in.b"]
    assert [value["value"] for value in found["values"]["who"]] == ["me", '"Ana Lee"', "bo"]
    assert [value["value"] for value in found["values"]["state"]] == ["on", "off"]
