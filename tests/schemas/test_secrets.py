from __future__ import annotations

from pydantic import BaseModel, SecretStr

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
