"""Files are what their first bytes say, not what their name does."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from wfdash.values.schemas import formats
from wfdash.values.schemas.validate import problems_of

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8


def told(schema: dict[str, Any], content: bytes) -> list[str]:
    text = base64.b64encode(content).decode()
    return [problem["msg"] for problem in problems_of({"contentEncoding": "base64", **schema}, text)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF1234WEBP", "image/webp"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        ("Grüße".encode(), "text/plain"),
        (b"a\x00b", formats.BINARY),
        (b"\xff\xfe", formats.BINARY),
    ],
)
def test_a_file_is_known_by_its_content(content: bytes, expected: str) -> None:
    assert formats.sniff(content) == expected


@pytest.mark.parametrize(
    ("wanted", "content"),
    [
        ("image/png", PNG),
        ("image/*", PNG),
        ("image/jpeg, image/png", PNG),
        ("text/csv", b"a,b"),
        ("application/json", b"[1]"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", b"PK\x03\x04"),
        ("application/x-nobody-knows", b"\xff\xfe"),
    ],
)
def test_the_right_type_is_taken(wanted: str, content: bytes) -> None:
    assert told({"contentMediaType": wanted}, content) == []


def test_a_wrong_type_is_named_with_what_to_do() -> None:
    assert told({"contentMediaType": "image/png"}, b"hello") == ["Must be image/png, this is text: choose another file"]
    assert told({"contentMediaType": "application/json"}, b"{") != []


def test_the_size_is_that_of_the_file_not_of_its_text() -> None:
    assert told({"x-max-bytes": 3}, b"abc") == []
    assert told({"x-max-bytes": 3}, b"abcd") == ["The file is too large: at most 3 bytes"]


def test_the_media_type_of_an_optional_file_stands_beside_its_alternatives() -> None:
    schema = {"anyOf": [{"type": "string", "format": "base64"}, {"type": "null"}], "contentMediaType": "image/png"}
    assert problems_of(schema, base64.b64encode(PNG).decode()) == []
    assert problems_of(schema, None) == []


def test_text_that_is_no_base64_is_refused() -> None:
    (problem,) = problems_of({"contentEncoding": "base64"}, "a")
    assert problem["msg"] == "Must be base64 text, the content of a file"
