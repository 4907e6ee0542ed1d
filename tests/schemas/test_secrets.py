from __future__ import annotations

import pytest
from pydantic import BaseModel, SecretStr

from wfdash.values.schemas.formats import FORMATS, words_of
from wfdash.values.schemas.secrets import HIDDEN, masked, secret_names, unmasked


class Login(BaseModel):
    user: str
    token: SecretStr | None = None


class Input(BaseModel):
    password: SecretStr
    logins: list[Login] = []


VALUE = {"password": "p", "logins": [{"user": "a", "token": "t"}, {"user": "b", "token": None}]}


def test_secrets_are_known_by_their_names_wherever_they_lie():
    assert secret_names(Input.model_json_schema()) == {"password", "token"}
    assert secret_names({}) == frozenset()


def test_secrets_are_hidden_and_come_back_where_they_stayed_hidden():
    names = secret_names(Input.model_json_schema())
    shown = masked(VALUE, names)
    assert shown == {"password": HIDDEN, "logins": [{"user": "a", "token": HIDDEN}, {"user": "b", "token": HIDDEN}]}
    assert unmasked(shown, VALUE, names) == VALUE
    assert unmasked({**shown, "password": "new"}, VALUE, names)["password"] == "new"
    assert unmasked({"logins": [*shown["logins"], {"token": HIDDEN}]}, VALUE, names)["logins"][2] == {"token": HIDDEN}


def test_without_secrets_a_value_is_itself():
    assert masked(VALUE, frozenset()) is VALUE
    assert unmasked(VALUE, {}, frozenset()) is VALUE


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
