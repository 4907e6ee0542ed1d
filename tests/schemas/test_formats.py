"""The formats a schema may name, as texts have them or not."""

from __future__ import annotations

import pytest

from wfdash.values.schemas.formats import FORMATS, words_of


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2026-11-21", "2026-02-30"),
        ("date-time", "2026-11-21T14:30:00Z", "2026-11-21"),
        ("date-time", "2026-11-21T14:30+02:00", "1763735400"),
        ("time", "14:30", "25:00"),
        ("duration", "P1DT2H", "90"),
        ("duration", "-PT1.5S", "PT"),
        ("uuid", "123e4567-e89b-42d3-a456-426614174000", "123e4567e89b42d3a456426614174000"),
        ("email", "ana@example.com", "ana@example"),
        ("uri", "https://example.com/", "example"),
        ("ipv4", "192.0.2.1", "192.0.2"),
        ("regex", "^a+$", "("),
        ("base64", "YQ==", "Y"),
        ("base64url", "-_8=", "+/8="),
        ("json-string", "[1]", "[1"),
    ],
)
def test_a_text_has_a_format_or_not(name: str, good: str, bad: str) -> None:
    assert FORMATS[name].takes(good)
    assert not FORMATS[name].takes(bad)


def test_a_format_is_asked_for_with_an_example() -> None:
    assert words_of("date") == "a date such as 2026-11-21"
    assert words_of("house-number") == "a valid house number"
