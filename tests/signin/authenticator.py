"""An authenticator in software: makes passkeys and signs with them, as a browser would pass it on."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from django.test import Client
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import Aaguid, AttestedCredentialData, AuthenticatorData

SETTINGS = "/settings/second-factor/"
PASSKEY = "/sign-in/passkey/"
HOST = "testserver"


class Authenticator:
    """One passkey. ``verifies``: it asks for PIN or biometrics; ``origin``: the page that it is used on."""

    def __init__(self, *, verifies: bool = True, origin: str = f"https://{HOST}") -> None:
        self.verifies, self.origin = verifies, origin
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id, self.user = sha256(str(id(self)).encode()).digest(), ""
        self.count = 0

    def named_as(self, other: Authenticator) -> Authenticator:
        """Claim to be another passkey."""
        self.id, self.user = other.id, other.user
        return self

    def make(self, options: Any) -> str:
        """Return the answer to a request for a new passkey."""
        self.user = options["publicKey"]["user"]["id"]
        public = ES256.from_cryptography_key(self.key.public_key())
        data = AttestedCredentialData.create(Aaguid.NONE, self.id, public)
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": bytes(self._data(data))})
        return self._answer("webauthn.create", options, attestationObject=attestation)

    def sign(self, options: Any) -> str:
        """Return the answer to a request for a signature."""
        data, client = self._data(), self._client("webauthn.get", options)
        signature = self.key.sign(bytes(data) + sha256(client).digest(), ec.ECDSA(SHA256()))
        user = websafe_decode(self.user)
        return self._answer("webauthn.get", options, authenticatorData=data, signature=signature, userHandle=user)

    def _data(self, credential: AttestedCredentialData | None = None) -> AuthenticatorData:
        flags = AuthenticatorData.FLAG.UP | (AuthenticatorData.FLAG.UV if self.verifies else 0)
        flags |= AuthenticatorData.FLAG.AT if credential else 0
        return AuthenticatorData.create(sha256(HOST.encode()).digest(), flags, self.count, credential or b"")

    def _client(self, kind: str, options: Any) -> bytes:
        challenge = options["publicKey"]["challenge"]
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _answer(self, kind: str, options: Any, **parts: bytes) -> str:
        parts["clientDataJSON"] = self._client(kind, options)
        response = {name: websafe_encode(bytes(part)) for name, part in parts.items()}
        name = websafe_encode(self.id)
        answer = {"id": name, "rawId": name, "type": "public-key", "response": response}
        return json.dumps({**answer, "clientExtensionResults": {"credProps": {"rk": True}}})


def making(client: Client, name: str = "Phone", **proof: str) -> Any:
    """Return what the settings ask the browser to make, None where they ask for nothing."""
    shown = client.post(SETTINGS, {"act": "name-passkey", "name": name, **proof}).content.decode()
    _, found, rest = shown.partition('<script id="making" type="application/json">')
    return json.loads(rest.partition("</script>")[0]) if found else None


def add_passkey(client: Client, name: str = "Phone", **proof: str) -> Authenticator:
    """Add a passkey on the page of the settings."""
    device = Authenticator()
    added = client.post(SETTINGS, {"act": "add-passkey", "passkey": device.make(making(client, name, **proof))})
    assert added.status_code in (200, 302), added.content.decode()
    return device


def to_sign(client: Client) -> Any:
    """Return what a passkey is to sign in this browser."""
    return client.post(PASSKEY).json()
