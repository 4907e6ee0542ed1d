"""Answers to questions that do not say what they take: a text is a text, whatever else may be given."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from wfdash.pages.ui.forms import FormView
from wfdash.questions.open_answers import open_answer, options_in

OPTIONS: tuple[tuple[Any, list[Any]], ...] = (
    (["red", "blue"], ["red", "blue"]),
    ([1, 2, 3], [1, 2, 3]),
    (["only"], []),
    (["same", "same"], []),
    (["red", ""], []),
    ([True, False], []),
    ([{"label": "Red"}, {"label": "Blue"}], []),
    (["red", "a sentence " * 20], []),
    ("red, blue", []),
    (None, []),
)


@pytest.mark.parametrize(("given", "offered"), OPTIONS)
def test_only_short_and_different_texts_and_numbers_are_offered(given: Any, offered: list[Any]) -> None:
    assert options_in(given) == offered


@pytest.mark.parametrize(
    ("posted", "value"),
    [
        ("value?=0&value.0=yes, it is", "yes, it is"),
        ("value?=0&value.0=7", "7"),
        ("value?=1&value.1=%s", True),
        ("value?=1&value.1=%s", False),
        ("value?=2&value.2=null", None),
        ("value?=2&value.2={}", {}),
    ],
)
def test_a_form_gives_texts_as_they_are_typed_and_anything_else_beside(posted: str, value: Any) -> None:
    form = FormView.from_schema(open_answer())
    assert [branch.label for branch in form.root.branches] == ["Text", "Yes or no", "JSON"]
    if isinstance(value, bool):
        assert form.root.branches[1].field is not None
        sent = {option.label: option.sent for option in form.root.branches[1].field.options}
        posted %= sent["Yes" if value else "No"]
    bound = form.bind(QueryDict(posted))
    assert (bound.value, bound.errors) == (value, ())


def test_what_is_offered_is_chosen_first_and_another_text_may_be_written() -> None:
    form = FormView.from_schema(open_answer(["red", "blue"]))
    first = form.root.branches[0]
    assert (first.label, first.chosen) == ("Choice", True)
    assert first.field is not None
    assert [option.label for option in first.field.options] == ["red", "blue"]
    assert form.bind(QueryDict("value?=1&value.1=green")).value == "green"


@pytest.mark.parametrize("options", [[], ["red", "blue"]])
@pytest.mark.parametrize("picked", ["", "value?=0", "value?=0&value.0!=&value.0=", "value?=1&value.1!=", "value?=2"])
def test_nothing_is_no_answer(picked: str, options: list[Any]) -> None:
    bound = FormView.from_schema(open_answer(options)).bind(QueryDict(picked))
    assert [problem["msg"] for problem in bound.errors] == ["This field is required"]
    assert len(bound.complaints) == 1
