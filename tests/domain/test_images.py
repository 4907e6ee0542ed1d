"""What bytes are is told by their content."""

from __future__ import annotations

import base64
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wfdash.domain.images import MAX_PIXELS, media_type_of, picture_of, safe_name


def drawn(kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (5, 3), "teal").save(file, kind, **options)
    return file.getvalue()


PNG, JPEG, GIF, WEBP = (drawn(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP"))
LOSSLESS, PROGRESSIVE = drawn("WEBP", lossless=True), drawn("JPEG", progressive=True)
EXTENDED = drawn("WEBP", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("data", [PNG, JPEG, GIF, WEBP, LOSSLESS, PROGRESSIVE, EXTENDED])
def test_pictures_are_known_and_measured(data: bytes):
    picture = picture_of(data)
    assert picture is not None
    assert (picture.width, picture.height) == (5, 3)
    assert media_type_of(data) == picture.media_type


@given(st.sampled_from([PNG, JPEG, GIF, WEBP, LOSSLESS]), st.data())
def test_damaged_pictures_are_survived(data: bytes, draw: st.DataObject):
    media_type_of(data[: draw.draw(st.integers(0, len(data)))])
    at = draw.draw(st.integers(0, len(data) - 1))
    media_type_of(data[:at] + draw.draw(st.binary(max_size=9)) + data[at:])


def test_a_picture_that_would_fill_the_memory_is_none():
    huge = (MAX_PIXELS).to_bytes(4, "big")
    assert picture_of(PNG[:16] + huge + huge + PNG[24:]) is None


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"<html><script>alert(1)</script>", "text/plain; charset=utf-8"),
        (b"<svg onload=alert(1)>", "text/plain; charset=utf-8"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\xff\xfe", "application/octet-stream"),
        (base64.b64decode("AAAA"), "application/octet-stream"),
    ],
)
def test_nothing_is_called_what_a_browser_would_run(data: bytes, kind: str):
    assert media_type_of(data) == kind


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\bill.pdf", "bill.pdf"),
        ("fdp\u202e.exe", "fdp_.exe"),
        ('a"\r\nX: y', "a___X_ y"),
        ("..", "file"),
        ("Rechnung März.pdf", "Rechnung März.pdf"),
    ],
)
def test_names_are_made_harmless(name: str, safe: str):
    assert safe_name(name) == safe
