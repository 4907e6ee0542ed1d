"""A form as JSON text, and the texts people type for lengths of time, numbers and files."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.datastructures import MultiValueDict
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tests.pages.controls import post_of, read_controls
from wfdash.notifications.rendering import render_to_string
from wfdash.web.pages.ui.forms import read
from wfdash.web.pages.ui.forms.form import BoundForm, FormView


class Line(BaseModel):
    what: str
    amount: float = Field(gt=0)


class Claim(BaseModel):
    model_config = ConfigDict(extra="allow")
    title: str
    token: SecretStr = SecretStr("")
    lines: list[Line] = []


SCHEMA = Claim.model_json_schema()
VALUE = {"title": "Train", "token": "", "lines": [{"what": "Ticket", "amount": 3}], "more": [1]}


def render(form: FormView) -> str:
    return render_to_string("components/form.html", {"form": form})


def as_text(text: str | None = None, **pressed: str) -> BoundForm:
    """The form, switched to text, with another text typed."""
    shown = FormView.from_schema(SCHEMA, initial=VALUE)
    switched = shown.bind(post_of(render(shown), _mode="json"))
    assert switched.changed_rows
    return switched.bind(post_of(render(switched), **({"_json": text} if text is not None else {}), **pressed))


def test_switching_to_text_and_back_carries_everything() -> None:
    assert as_text().value == VALUE
    back = as_text(_mode="fields")
    assert back.text is None
    assert back.changed_rows
    assert back.bind(post_of(render(back))).value == VALUE


def test_what_was_typed_wrongly_into_a_field_is_carried_too() -> None:
    form = FormView.from_schema(SCHEMA, initial=VALUE)
    switched = form.bind(post_of(render(form), **{"lines.0.amount": "lots", "_mode": "json"}))
    assert '"amount": "lots"' in switched.text


def test_errors_of_a_text_name_line_and_place() -> None:
    bound = as_text('{\n "title": "x",\n "lines": [\n  {"what": "y", "amount": -1}]}')
    (complaint,) = bound.complaints
    assert (complaint.label, complaint.message) == ("Line 4, lines[0].amount", "Must be more than 0")
    assert complaint.target == "json-"
    assert 'aria-invalid="true"' in render(bound)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"title": }', "line 1, column 11: a value is missing"),
        ('{"title": "a", "title": "b"}', "The name 'title' is used twice"),
        ("[1e999]", "too large"),
        ("", "line 1, column 1"),
    ],
)
def test_a_text_that_is_no_json_is_kept_whatever_is_pressed(text: str, said: str) -> None:
    for pressed in ({}, {"_mode": "fields"}):
        bound = as_text(text, **pressed)
        assert bound.text == text
        assert said in bound.complaints[0].message
        assert not bound.is_valid


def test_a_value_that_its_field_cannot_show_is_edited_as_json_in_its_place() -> None:
    form = FormView.from_schema(SCHEMA, initial={"title": {"odd": 1}, "lines": "none"})
    bound = form.bind(post_of(render(form)))
    assert bound.value == {"title": {"odd": 1}, "lines": "none", "token": ""}
    mended = bound.bind(post_of(render(bound), **{"title$": '"Train"', "lines$": "[]"}))
    assert mended.is_valid
    assert "title$" not in dict(read_controls(render(mended)).sent)


def test_a_secret_is_never_sent_back() -> None:
    form = FormView.from_schema(SCHEMA, initial={**VALUE, "token": "hush"})
    assert "hush" not in render(form)
    typed = form.bind(post_of(render(form), token="hush", title=""))
    assert typed.value["token"] == "hush"
    assert "hush" not in render(typed)
    assert "enter it again" in render(typed)


def test_a_small_form_is_not_offered_as_text() -> None:
    assert 'name="_mode"' not in render(FormView.from_schema({"type": "string"}))
    assert 'name="_mode"' in render(FormView.from_schema(SCHEMA, initial=VALUE))


def test_lines_and_places_are_found_in_any_layout() -> None:
    text = '{"a":[1,\n{"b":"x\\"{,"}],\n\n"c":null}'
    assert read.lines_of(text) == {(): 1, ("a",): 1, ("a", 0): 1, ("a", 1): 2, ("a", 1, "b"): 2, ("c",): 4}
    assert read.path_of(("a", 1, "b")) == "a[1].b"
    assert read.path_of((0, "x")) == "[0].x"


@pytest.mark.parametrize(
    ("typed", "iso"),
    [
        ("90 min", "PT1H30M"),
        ("1h30m", "PT1H30M"),
        ("2 days, 4 hours and 3 s", "P2DT4H3S"),
        ("1,5 h", "PT1H30M"),
        ("0 s", "PT0S"),
        ("-3 d", "-P3D"),
        ("pt5m", "PT5M"),
        ("1 week", "P7D"),
        ("soon", None),
        ("1 month", None),
        ("", None),
    ],
)
def test_lengths_of_time_are_written_as_people_do(typed: str, iso: str | None) -> None:
    assert read.to_iso(typed) == iso
    if iso:
        assert read.to_iso(read.to_words(iso)) == iso


@pytest.mark.parametrize("typed", ["12,50", "1 000", "1'000"])
def test_a_number_with_marks_is_told_how_to_write_it(typed: str) -> None:
    bound = FormView.from_schema({"type": "number"}).bind(post_of("", value=typed))
    assert "use a point for the fraction" in bound.errors[0]["msg"]


FILES: dict[str, Any] = {
    "type": "object",
    "properties": {"photo": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}},
}
PNG = b"\x89PNG\r\n\x1a\n0000"


def upload(content: bytes) -> MultiValueDict[str, Any]:
    return MultiValueDict({"photo!file": [SimpleUploadedFile("x", content)]})


def test_a_file_is_kept_replaced_and_taken_away() -> None:
    form = FormView.from_schema(FILES)
    assert form.has_upload
    bound = form.bind(post_of(render(form)), upload(PNG))
    assert bound.value == {"photo": base64.b64encode(PNG).decode()}
    html = render(bound)
    assert "PNG, 12 B" in html
    assert 'src="data:image/png;base64,' in html
    assert bound.bind(post_of(html)).value == bound.value
    assert bound.bind(post_of(html, **{"photo!away": "1"})).value == {}
    wrong = form.bind(post_of(render(form)), upload(b"hello"))
    assert wrong.errors[0]["msg"] == "Must be image/png, this is text: choose another file"


def test_a_file_that_is_too_large_is_refused_and_the_one_before_is_kept() -> None:
    schema = {"type": "string", "contentEncoding": "base64", "x-max-bytes": 4}
    form = FormView.from_schema(schema, initial="YQ==")
    files = MultiValueDict({"value!file": [SimpleUploadedFile("x", b"12345")]})
    bound = form.bind(post_of(render(form)), files)
    assert bound.value == "YQ=="
    assert bound.errors[0]["msg"] == "The file is too large: at most 4 bytes"


@pytest.mark.parametrize(
    ("media_type", "wraps"), [("text/markdown", True), ("text/plain", True), ("text/x-diff", False)]
)
def test_prose_wraps_in_its_box_and_code_does_not(media_type: str, wraps: bool):
    text = {"type": "string", "format": "textarea", "contentMediaType": media_type}
    form = FormView.from_schema({"type": "object", "properties": {"text": text}})
    assert ('wrap="off"' not in render_to_string("components/form.html", {"form": form})) is wraps
