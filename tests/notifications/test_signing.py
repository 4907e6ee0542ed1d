from __future__ import annotations

import base64
import hmac
from contextlib import suppress
from hashlib import sha256

import pytest

from wfdash.domain.hooks import Received, Unsigned, check_signature, new_secret
from wfdash.notifications.webhook import signature, signed_headers

BODY = b'{"type":"request.opened"}'


def test_the_signature_is_what_the_standard_says() -> None:
    """The example of the specification's own libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    made = signature([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def is_signed(secret: str, headers: dict[str, str], body: bytes, *, now: float) -> bool:
    with suppress(Unsigned):
        check_signature("standard", Received(headers=headers, body=body), [secret], "", now)
        return True
    return False


def test_what_was_signed_is_recognised_and_nothing_else() -> None:
    secret = new_secret()
    headers = signed_headers([secret], "m1", 1000, BODY)
    assert is_signed(secret, headers, BODY, now=1200)
    assert not is_signed(secret, headers, BODY + b" ", now=1200)
    assert not is_signed(secret, headers | {"webhook-id": "m2"}, BODY, now=1200)
    assert not is_signed(secret, headers, BODY, now=1301)
    assert not is_signed(new_secret(), headers, BODY, now=1200)
    assert not is_signed(secret, {}, BODY, now=1200)


def test_two_secrets_sign_while_a_receiver_changes_over() -> None:
    old, new = new_secret(), new_secret()
    headers = signed_headers([new, old], "m1", 1000, BODY)
    assert is_signed(old, headers, BODY, now=1000)
    assert is_signed(new, headers, BODY, now=1000)


def test_secrets_are_long_and_never_the_same() -> None:
    first, second = new_secret(), new_secret()
    assert first != second
    key = base64.b64decode(first.removeprefix("whsec_"))
    assert len(key) == 32
    expected = base64.b64encode(hmac.new(key, b"m.1." + BODY, sha256).digest()).decode()
    assert signature([first], "m", 1, BODY) == f"v1,{expected}"


def test_a_secret_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="whsec_"):
        signature(["whsec_?"], "m", 1, BODY)
