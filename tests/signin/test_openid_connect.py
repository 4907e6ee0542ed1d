"""What the provider sends back is believed only as far as it proves itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.cache import cache
from django.test import RequestFactory

from tests.signin.provider import settings_for
from wfdash.access.signin.openid_connect import CLOCK_SECONDS, _Conversation, _errors_of, checked_discovery
from wfdash.domain.errors import SignInFailed

ISSUER = "https://login.example.org/realms/staff"
OTHERS = "https://others.example.org"
KEY, ANOTHER = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
HERE = {name: f"{ISSUER}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
Read = Callable[..., dict[str, Any]]


def public(key: rsa.RSAPrivateKey, **facts: str) -> dict[str, Any]:
    return jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k-1"} | facts


def token(key: Any = KEY, algorithm: str = "RS256", kid: str = "k-1", **changed: Any) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "wfdash", "sub": "s-1", "iat": now, "exp": now + 300, "nonce": "n"} | changed
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(given, key, algorithm, headers={"kid": kid})


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """``read(id_token)`` returns the claims of the provider's answer; ``userinfo`` is what it adds."""
    cache.clear()

    def read(id_token: Any, *, nonce: str = "n", userinfo: Any = None, keys: Any = None) -> dict[str, Any]:
        described = {"issuer": ISSUER, **HERE, "userinfo_endpoint": f"{ISSUER}/me"}
        answers = {
            f"{ISSUER}/.well-known/openid-configuration": described,
            HERE["jwks_uri"]: {"keys": [public(KEY)] if keys is None else keys},
            f"{ISSUER}/me": {"sub": "s-1"} if userinfo is None else userinfo,
        }
        monkeypatch.setattr(_Conversation, "fetch", lambda self, url, **options: answers[url])
        provider = settings_for(ISSUER)
        with _errors_of(provider):
            conversation = _Conversation(RequestFactory().get("/"), provider)
            return dict(conversation.claims({"id_token": id_token, "access_token": "a"}, nonce=nonce))
        raise AssertionError

    return read


def test_a_token_of_the_provider_for_this_client_is_believed(read: Read) -> None:
    found = read(token(), userinfo={"sub": "s-1", "groups": ["money"], "nonce": "x"})
    assert (found["sub"], found["groups"], found["nonce"]) == ("s-1", ["money"], "n")


def test_clocks_may_differ_by_a_minute_and_no_more(read: Read) -> None:
    now = int(time.time())
    assert read(token(exp=now - CLOCK_SECONDS + 5, iat=now - 400))["sub"] == "s-1"
    assert read(token(iat=now + CLOCK_SECONDS - 5))["sub"] == "s-1"
    for late in ({"exp": now - CLOCK_SECONDS - 5}, {"iat": now + CLOCK_SECONDS + 60}):
        with pytest.raises(SignInFailed) as refused:
            read(token(**late))
        assert refused.value.facts["cause"]


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": OTHERS},
        {"aud": "another-client"},
        {"azp": "another-client"},
        {"aud": ["wfdash", "another-client"], "azp": "another-client"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": None},
        {"sub": None},
        {"iat": None},
    ],
)
def test_a_token_for_someone_else_or_without_what_it_needs_is_refused(changed: dict[str, Any], read: Read) -> None:
    with pytest.raises(SignInFailed, match="could not be verified"):
        read(token(**changed))


@pytest.mark.parametrize(
    "forged",
    [
        token(ANOTHER),
        token(kid="k-2"),
        token("hush" * 16, "HS256"),
        token(None, "none"),
        token()[:-4] + "AAAA",
        "no token",
        "",
        None,
        {"a": 1},
    ],
)
def test_a_token_that_the_provider_did_not_sign_is_refused(forged: Any, read: Read) -> None:
    with pytest.raises(SignInFailed, match="could not be verified"):
        read(forged)


@pytest.mark.parametrize("keys", [[], [public(KEY, use="enc")], [public(KEY, alg="PS256")], [{"kid": "k-1"}], [1]])
def test_a_key_that_is_not_for_signing_so_verifies_nothing(keys: list[Any], read: Read) -> None:
    with pytest.raises(SignInFailed):
        read(token(), keys=keys)


@pytest.mark.parametrize("userinfo", [{"sub": "s-2"}, {}, [], "text"])
def test_userinfo_of_someone_else_is_refused(userinfo: Any, read: Read) -> None:
    with pytest.raises(SignInFailed):
        read(token(), userinfo=userinfo)


@pytest.mark.parametrize(
    "config",
    [
        None,
        {"issuer": OTHERS, **HERE},
        {"issuer": ISSUER},
        {"issuer": ISSUER, **HERE, "token_endpoint": "http://login.example.org/token"},
        {"issuer": ISSUER, **HERE, "authorization_endpoint": "javascript:alert(1)"},
        {"issuer": ISSUER, **HERE, "userinfo_endpoint": "file:///etc/passwd"},
    ],
)
def test_a_provider_that_describes_another_or_less_safe_one_is_refused(config: Any) -> None:
    with pytest.raises(SignInFailed, match="could not be verified"), _errors_of(settings_for(ISSUER)):
        checked_discovery(config, ISSUER)
