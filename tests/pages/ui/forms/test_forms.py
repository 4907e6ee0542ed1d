"""Forms from JSON Schema: what a person sees, types and sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from tests.forms.models import Tree as Tree
from tests.pages.controls import post_of, read_controls
from wfdash.notifications.rendering import render_to_string
from wfdash.web.pages.ui.forms.form import BoundForm, FormView


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    good: bool


class Line(BaseModel):
    what: str
    amount: Decimal = Field(gt=0)
    tags: list[str] = []


class Claim(BaseModel):
    title: str = Field(min_length=1, max_length=80, description="What it was for")
    note: str | None = None
    amount: float = Field(ge=0, le=500)
    count: int = 1
    paid: bool
    maybe: bool | None = None
    level: Level
    levels: set[Level] = set()
    on: date
    at: datetime
    clock: time | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    either: int | str
    lines: list[Line] = []
    limits: dict[str, int] = {}
    pair: tuple[int, str] = (1, "a")
    extra: Any = None
    owner: Line | None = None


CLAIM = Claim.model_json_schema()
FULL = {
    "title": "Train",
    "note": None,
    "amount": 12.5,
    "count": 3,
    "paid": True,
    "maybe": False,
    "level": "high",
    "levels": ["low"],
    "on": "2026-11-21",
    "at": "2026-11-21T05:09:10+02:00",
    "clock": "10:00:00",
    "pet": {"kind": "dog", "good": False},
    "either": "7",
    "lines": [{"what": "Ticket", "amount": "12.50", "tags": ["a", "b"]}],
    "limits": {"a.b c": 3, "_x": 4},
    "pair": [4, "z"],
    "extra": {"deep": [1, None, "x"]},
    "owner": {"what": "Ana", "amount": 3, "tags": []},
}


def render(form: FormView) -> str:
    return render_to_string("components/form.html", {"form": form})


def show_and_send(schema: dict[str, Any], value: Any, **changes: str) -> BoundForm:
    form = FormView.from_schema(schema, initial=value)
    return form.bind(post_of(render(form), **changes))


def messages(bound: FormView) -> dict[str, str]:
    return {".".join(map(str, problem["loc"])): problem["msg"] for problem in bound.problems}


def test_a_full_value_comes_back_untouched() -> None:
    bound = show_and_send(CLAIM, FULL)
    assert bound.value == FULL
    assert bound.is_valid, bound.errors


def test_every_id_on_the_page_is_unique() -> None:
    ids = read_controls(render(FormView.from_schema(CLAIM, initial=FULL))).ids
    assert len(ids) == len(set(ids))


def test_what_was_typed_stays_when_it_is_not_a_number() -> None:
    bound = show_and_send(CLAIM, FULL, amount="abc")
    assert messages(bound) == {"amount": "Must be a number, such as 12.5"}
    again = render(bound)
    assert 'value="abc"' in again
    assert 'aria-invalid="true"' in again
    assert 'href="#field-amount"' in again
    assert bound.bind(post_of(again)).value == bound.value


def test_bounds_are_told_in_words_at_the_field() -> None:
    bound = show_and_send(CLAIM, FULL, amount="9999")
    assert messages(bound) == {"amount": "Must be 500 or less"}
    assert "0 to 500." in render(bound)


def test_a_required_text_that_is_left_empty_is_missing() -> None:
    bound = show_and_send(CLAIM, FULL, title="")
    assert messages(bound) == {"title": "This field is required"}
    assert "title" not in bound.value


def test_an_empty_optional_is_null() -> None:
    assert show_and_send(CLAIM, {**FULL, "note": "x"}, note="").value["note"] is None


def test_an_unticked_box_is_false_and_an_absent_one_is_missing() -> None:
    html = render(FormView.from_schema(CLAIM, initial=FULL))
    post = post_of(html)
    del post["paid"]
    assert FormView.from_schema(CLAIM).bind(post).value["paid"] is False
    assert FormView.from_schema(CLAIM).bind(QueryDict("title=x")).value.get("paid") is None


def test_defaults_are_shown() -> None:
    assert show_and_send(CLAIM, None).value["count"] == 1


def test_a_field_that_was_cleared_does_not_get_its_default_back() -> None:
    bound = show_and_send(CLAIM, FULL, count="", title="")
    assert "count" not in bound.value
    assert "count" not in bound.bind(post_of(render(bound))).value


def test_rows_are_added_moved_and_removed_without_scripts() -> None:
    schema = TypeAdapter(list[Line]).json_schema()
    lines = [{"what": "a", "amount": 1, "tags": []}, {"what": "b", "amount": 2, "tags": ["t"]}]
    moved = show_and_send(schema, lines, _down="value.0")
    assert [line["what"] for line in moved.value] == ["b", "a"]
    assert moved.changed_rows
    assert not moved.is_valid
    assert moved.value[0]["tags"] == ["t"]
    assert show_and_send(schema, lines, _remove="value.0").value == lines[1:]
    added = show_and_send(schema, lines, _add="value")
    assert len(added.value) == 3
    assert not added.errors
    assert moved.bind(post_of(render(moved))).is_valid


def test_rows_inside_rows_are_added() -> None:
    assert len(show_and_send(Claim.model_json_schema(), FULL, _add="lines.0.tags").value["lines"][0]["tags"]) == 3


def test_a_row_change_keeps_what_could_not_be_read() -> None:
    schema = TypeAdapter(list[int]).json_schema()
    form = FormView.from_schema(schema, initial=[1, 2])
    bound = form.bind(post_of(render(form), **{"value.1": "abc", "_remove": "value.0"}))
    assert bound.value == ["abc"]
    assert 'value="abc"' in render(bound)


def test_a_branch_is_picked_and_its_own_errors_shown() -> None:
    bound = show_and_send(CLAIM, FULL, **{"pet?": "0", "pet.0.lives": "many"})
    assert messages(bound) == {"pet.lives": "Must be a whole number, such as 12"}
    assert bound.value["pet"] == {"kind": "cat", "lives": "many"}
    assert bound.bind(post_of(render(bound))).value == bound.value


def test_a_recursive_schema_is_drawn_as_deep_as_its_value() -> None:
    schema = Tree.model_json_schema()
    value = {
        "name": "a",
        "left": {"name": "b", "left": None, "kids": []},
        "kids": [{"name": "c", "left": None, "kids": []}],
    }
    assert show_and_send(schema, value).value == value
    opened = show_and_send(schema, value, **{"left.0.left?": "0", "_show": "left.0.left"})
    assert 'name="left.0.left.0.name"' in render(opened)


def test_broken_json_text_is_kept_and_explained() -> None:
    bound = show_and_send(CLAIM, FULL, extra="{oops")
    assert "valid JSON" in messages(bound)["extra"]
    assert "{oops" in render(bound)


def test_entries_of_a_dictionary_need_names_of_their_own() -> None:
    bound = show_and_send(
        {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1, "b": 2}, **{"value.1#": "a"}
    )
    assert messages(bound) == {"": "Each entry needs a unique name"}
    assert render(bound).count('value="a"') == 2


def test_an_uploaded_file_replaces_the_text() -> None:
    schema = {"type": "object", "properties": {"diff": {"type": "string", "contentMediaType": "text/x-diff"}}}
    form = FormView.from_schema(schema)
    file = SimpleUploadedFile("x.diff", b"--- a\r\n+++ b\n")
    bound = form.bind(post_of(render(form), diff="typed"), MultiValueDict({"diff!file": [file]}))
    assert bound.value == {"diff": "--- a\r\n+++ b\n"}
    assert bound.bind(post_of(render(bound))).value == bound.value
    bad = form.bind(QueryDict("diff=typed"), {"diff!file": SimpleUploadedFile("x", b"\xff\xfe")})
    assert messages(bad) == {"diff": "The file is not UTF-8 text: choose another one, or save it as UTF-8"}


def test_errors_of_the_engine_find_the_nearest_field() -> None:
    form = FormView.from_schema(CLAIM, initial=FULL).with_errors(
        [{"loc": ["pet", "dog", "good"], "msg": "Not good"}, {"loc": ["nowhere"], "msg": "Odd"}]
    )
    assert [(c.target, c.message) for c in form.complaints] == [("", "Odd"), ("field-pet.1", "Not good")]


def test_a_prefix_keeps_two_forms_apart() -> None:
    form = FormView.from_schema(CLAIM, prefix="edit:", initial=FULL)
    html = render(form)
    assert all(name.startswith("edit:") for name, _ in read_controls(html).sent)
    assert form.bind(post_of(html)).value == FULL


def test_names_that_mean_something_to_the_page_are_escaped() -> None:
    schema = {
        "type": "object",
        "properties": {n: {"type": "string"} for n in ("_action", "csrfmiddlewaretoken", "a.b", "")},
    }
    value = {"_action": "a", "csrfmiddlewaretoken": "b", "a.b": "c", "": "d"}
    assert show_and_send(schema, value).value == value
    names = {name for name, _ in read_controls(render(FormView.from_schema(schema, initial=value))).sent}
    assert not names & {"_action", "csrfmiddlewaretoken"}


@pytest.mark.parametrize("schema", [True, {}, {"type": ["string", "null"]}, {"anyOf": []}, {"not": {}}])
def test_odd_schemas_are_drawn_all_the_same(schema: Any) -> None:
    wrapped = {"type": "object", "properties": {"x": schema}}
    assert show_and_send(wrapped, {"x": "text"}).value == {"x": "text"}


def test_text_is_escaped() -> None:
    html = render(
        FormView.from_schema(CLAIM, initial={**FULL, "title": '"><script>alert(1)</script>', "extra": "</textarea><b>"})
    )
    assert "<script>" not in html
    assert "</textarea><b>" not in html


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\r\t"), max_size=12)
MADE = Callable[[st.DrawFn], tuple[dict[str, Any], Any]]


@st.composite
def pairs_of_schema_and_value(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    kind = draw(
        st.sampled_from(
            ["str", "int", "num", "bool", "enum", "any", "date"]
            + ["list", "obj", "dict", "null", "set", "or"] * (depth > 0)
        )
    )
    simple: dict[str, Callable[[], tuple[dict[str, Any], Any]]] = {
        "str": lambda: ({"type": "string"}, draw(TEXT)),
        "int": lambda: ({"type": "integer"}, draw(st.integers())),
        "num": lambda: ({"type": "number"}, draw(st.floats(allow_nan=False, allow_infinity=False))),
        "bool": lambda: ({"type": "boolean"}, draw(st.booleans())),
        "date": lambda: (
            {"type": "string", "format": "date-time"},
            draw(st.datetimes(timezones=st.timezones())).isoformat(),
        ),
        "enum": lambda: (
            {"enum": ["a", "b c", 1, True, "1", ""]},
            draw(st.sampled_from(["a", "b c", 1, True, "1", ""])),
        ),
        "any": lambda: (
            {},
            draw(st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda v: st.lists(v, max_size=3))),
        ),
    }
    if kind in simple:
        return simple[kind]()
    schema, value = draw(pairs_of_schema_and_value(depth - 1))
    if kind == "list":
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 3))
    if kind == "set":
        options = ["x", "y", "z"]
        return {"type": "array", "items": {"enum": options}}, draw(st.lists(st.sampled_from(options), max_size=4))
    if kind == "dict":
        keys = draw(st.lists(TEXT, max_size=2))
        return {"type": "object", "additionalProperties": schema}, dict.fromkeys(keys, value)
    if kind == "null":
        return {"anyOf": [schema, {"type": "null"}]}, draw(st.sampled_from([value, None]))
    other, alternative = draw(pairs_of_schema_and_value(depth - 1))
    if kind == "or":
        return {"anyOf": [schema, other]}, draw(st.sampled_from([value, alternative]))
    properties = {"p": schema, "q.r": other}
    return {"type": "object", "properties": properties, "required": ["p"]}, {"p": value, "q.r": alternative}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs_of_schema_and_value())
def test_rendering_and_sending_any_value_returns_it(made: tuple[dict[str, Any], Any]) -> None:
    schema, value = {"type": "object", "properties": {"v": made[0]}, "required": ["v"]}, {"v": made[1]}
    assert json.dumps(show_and_send(schema, value).value, sort_keys=True) == json.dumps(value, sort_keys=True)


def test_null_of_a_branch_that_takes_anything_comes_back() -> None:
    schema = {"anyOf": [{"anyOf": [{}, {"type": "string"}]}, {"type": "string"}]}
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    assert show_and_send(whole, {"v": None}).value == {"v": None}


class Offers(BaseModel):
    lines: list[Cat] = Field(min_length=2)
    more: list[Cat] = Field(default=[], min_length=1)
    many: list[int] = Field(min_length=90)


def test_a_list_that_needs_rows_begins_with_them() -> None:
    form = FormView.from_schema(Offers.model_json_schema())
    rows = {field.label: len(field.rows) for field in form.fields}
    assert rows == {"Lines": 2, "More": 0, "Many": 5}
