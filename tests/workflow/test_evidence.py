"""Evidence checks itself where it is made."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.domain.test_images import GIF, JPEG, PNG, WEBP
from wfdash.domain.images import MAX_BYTES
from wfdash.questions.evidence import Code, Diff, Evidence, File, Image, JsonValue, Link, Markdown, Pdf, Table, Text

ANY: TypeAdapter[Any] = TypeAdapter(Evidence)
PIECES = [
    Text(title="T", value="a"),
    Markdown(value="*a*"),
    Code(value="x = 1", language="python"),
    Table(rows=[{"a": 1}], columns=["a", "b"]),
    JsonValue(value={"a": [1]}),
    Image(data=PNG, alt="A dot"),
    Pdf(data=b"%PDF-1.7"),
    File(name="a.txt", data=b"hi"),
    Link(url="https://a.example/x", title="X"),
    Diff(before={"a": 1}, after=None),
    Diff(unified="@@ -1 +1 @@\n-a\n+b"),
]


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.kind)
def test_what_is_shown_can_be_given_again(piece: Any):
    shown = piece.shown()
    assert {"kind", "value"} <= set(shown)
    derived = {"bytes", "media_type"} if piece.kind == "file" else {"bytes"}
    again = ANY.validate_python({name: item for name, item in shown.items() if name not in derived})
    assert again.shown() == shown


@pytest.mark.parametrize("data", [PNG, JPEG, GIF, WEBP])
def test_the_content_tells_an_images_type(data: bytes):
    assert Image(data=data).shown()["media_type"].startswith("image/")
    assert Image(data=base64.b64encode(data).decode()).data == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", "SVG can hold scripts"),
        (b"GIF89a", "no PNG"),
        (b"", "no PNG"),
        ("no base64!", "must be base64"),
        (PNG + bytes(MAX_BYTES), "2.0 MB is more than a card holds"),
    ],
)
def test_what_is_no_image_is_refused(data: Any, words: str):
    with pytest.raises(ValidationError, match=words):
        Image(data=data)


def test_a_false_media_type_is_refused():
    with pytest.raises(ValidationError, match="its content is image/png"):
        Image(data=PNG, media_type="image/gif")


def test_a_file_is_called_what_it_is_and_not_what_its_name_says():
    assert File(name="a.html", data=b"<script>1</script>").shown()["media_type"] == "text/plain; charset=utf-8"
    assert File(name="a.txt", data=b"\x00\x01").shown()["media_type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "/sign-out/", "//a.example", "https://a.example\\@b.example", "https://a b", "data:x"],
)
def test_only_plain_absolute_addresses_are_links(url: str):
    with pytest.raises(ValidationError, match="no absolute"):
        Link(url=url)


@pytest.mark.parametrize("wrong", [{}, {"unified": "x", "before": 1, "after": 2}])
def test_a_diff_has_two_sides_or_is_unified(wrong: dict[str, Any]):
    with pytest.raises(ValidationError, match="before= and after="):
        Diff(**wrong)


def test_a_row_wider_than_the_columns_is_refused():
    with pytest.raises(ValidationError, match="a row has 2 cells"):
        Table(rows=[[1, 2]], columns=["a"])


def test_a_pdf_is_one_by_its_content():
    assert Pdf(data=b"%PDF-1.7").shown()["name"] == "document.pdf"
    for data in (b"<html>%PDF-", b"", b"%PDF-" + b"x" * 2_000_000):
        with pytest.raises(ValidationError):
            Pdf(data=data)


def test_the_earlier_version_of_an_image_is_an_image_too():
    assert "before" not in Image(data=PNG).shown()
    assert Image(data=PNG, before=PNG).shown()["before"] == Image(data=PNG).shown()["value"]
    with pytest.raises(ValidationError):
        Image(data=PNG, before=b"<svg/>")
