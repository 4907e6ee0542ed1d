"""The provider of the sign-in tests, whose access tokens are JWTs for a resource, and which signs what a test tells it.

Run with a port: ``python -m tests.signin.minting 8080``.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import flask
import jwt
import oidc_provider_mock
from oidc_provider_mock import _storage

SCOPES = ("see", "inspect", "start", "operate")
_asked = [0]


def sign(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return a token with the provider's signature: a good one, but for what is given."""
    key = _storage.storage.jwk.get_op_key("sign")
    now, issuer = int(time.time()), flask.request.host_url.rstrip("/")
    good = {"iss": issuer, "iat": now, "exp": now + 300, "jti": "1", "client_id": "an-agent"}
    header = {"kid": _storage.storage.jwk.thumbprint(), "typ": "at+jwt", **header}
    return jwt.encode({**good, **claims}, key, algorithm="RS256", headers=header)


def count_keys() -> None:
    _asked[0] += flask.request.path == "/jwks"


def with_access_token(reply: flask.Response) -> flask.Response:
    """Put a JWT for the resource that was asked for in the place of the mock's own access token."""
    if flask.request.path == "/oauth2/token" and "resource" in flask.request.form and reply.status_code == 200:
        says = dict(reply.get_json())
        person = _storage.storage.get_access_token(says["access_token"]).user_id
        claims = {"sub": person, "aud": flask.request.form["resource"], "scope": says["scope"]}
        reply.set_data(flask.json.dumps(says | {"access_token": sign({}, claims)}))
    return reply


def main(port: int) -> None:
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    _storage.Client.SCOPES_SUPPORTED += SCOPES
    app = oidc_provider_mock.app(require_nonce=False)
    app.add_url_rule("/mint", "mint", view_func=lambda: sign(**flask.request.get_json()), methods=["POST"])
    app.add_url_rule("/asked", "asked", view_func=lambda: str(_asked[0]))
    app.before_request(count_keys)
    app.after_request(with_access_token)
    app.run(port=port, use_reloader=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
