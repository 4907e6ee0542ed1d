"""Answers to questions that do not say what they take: a text is a text, whatever else may be given."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from wfdash.questions.choices import DOUBTFUL, doubt_of, open_answer, options_in
from wfdash.web.pages.ui.forms.form import FormView

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
        ("value?=1&value.1=yes, it is", "yes, it is"),
        ("value?=1&value.1=7", "7"),
        ("value?=0&value.0=%s", True),
        ("value?=0&value.0=%s", False),
        ("value?=2&value.2=null", None),
        ("value?=2&value.2={}", {}),
    ],
)
def test_a_form_gives_texts_as_they_are_typed_and_anything_else_beside(posted: str, value: Any) -> None:
    form = FormView.from_schema(open_answer())
    assert [branch.label for branch in form.root.branches] == ["Choose", "Yes or no", "Text", "JSON"]
    assert [branch.label for branch in form.root.branches if branch.chosen] == ["Choose"]
    assert [branch.label for branch in form.root.kinds] == ["Yes or no", "Text", "JSON"]
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
    assert form.bind(QueryDict("value?=2&value.2=green")).value == "green"


@pytest.mark.parametrize("options", [[], ["red", "blue"]])
@pytest.mark.parametrize("picked", ["", "value?=0", "value?=0&value.0!=&value.0=", "value?=1&value.1!=", "value?=2"])
def test_nothing_is_no_answer(picked: str, options: list[Any]) -> None:
    bound = FormView.from_schema(open_answer(options)).bind(QueryDict(picked))
    assert [problem["msg"] for problem in bound.errors] == ["This field is required"]
    assert len(bound.complaints) == 1


@pytest.mark.parametrize(
    "text",
    ["no", "No.", " NO ", "n", "no, too expensive", "No\nReally", "reject", "Rejected!", "false", "don't", "“no”"],
)
def test_a_text_that_reads_like_no_is_doubted(text: str) -> None:
    assert "reads like a no" in doubt_of(open_answer(), text)
    assert "Answer No (false)" in doubt_of(open_answer(), text)


@pytest.mark.parametrize("text", ["yes", "Y", "approve", "Approved, thanks", "ok", "TRUE", "yes: by all means"])
def test_a_text_that_reads_like_yes_is_doubted(text: str) -> None:
    assert "Answer Yes (true)" in doubt_of(open_answer(), text)


@pytest.mark.parametrize(
    "text", ["", "7", "Notify them", "no-one", "okay then, but shorter", "stop using the blue one", "yesterday", "Nein"]
)
def test_any_other_text_is_taken(text: str) -> None:
    assert doubt_of(open_answer(), text) == ""


def test_what_is_offered_or_has_a_type_is_not_doubted() -> None:
    assert doubt_of(open_answer(["yes", "no"]), "no") == ""
    assert doubt_of(open_answer(["red", "blue"]), "no") != ""
    assert doubt_of({"type": "string"}, "no") == ""
    assert [doubt_of(open_answer(), value) for value in (True, False, None, {"text": "no"}, ["no"])] == [""] * 5


def test_a_question_that_was_asked_by_an_earlier_version_is_doubted_too() -> None:
    kinds = [{"type": "string", "title": "Text"}, {"type": "boolean", "title": "Yes or no"}, {"title": "JSON"}]
    assert doubt_of({"title": "Answer", "anyOf": kinds}, "no") != ""
    form = FormView.from_schema({"title": "Answer", "anyOf": kinds})
    assert [branch.label for branch in form.root.branches if branch.chosen] == ["Choose"]


def test_time_to_doubt_a_long_text_is_bounded() -> None:
    for text in ("no" * 200_000, "-" * 400_000, "n" + " " * 400_000 + "x"):
        assert doubt_of(open_answer(), text) == ""
    assert "(?" in DOUBTFUL
