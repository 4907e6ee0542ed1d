"""A real OpenID Connect provider on this machine, and browsers that sign in there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx
from django.http import HttpResponse
from django.test import Client

from tests.e2e.server import free_port, wait_until
from wfdash.installation.provider import Provider

CALLBACK = re.compile(r"/sign-in/provider/callback/\?(\S+)")


@contextmanager
def running_provider(*, mints: bool = False) -> Iterator[str]:
    """Serve a provider in a process of its own until the end of the block; its issuer. ``mints``: the one that gives
    access tokens for a resource.
    """
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    plain = ["oidc_provider_mock", "--require-nonce", "true", "--port"]
    command = [sys.executable, "-m", *(["tests.signin.minting"] if mints else plain), str(port)]
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **silent) as process:
        try:
            wait_until(lambda: process.poll() is None and _answers(issuer), what="a provider that answers")
            yield issuer
        finally:
            process.terminate()


def _answers(issuer: str) -> bool:
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration").status_code == 200
    except httpx.TransportError:
        return False


def settings_for(issuer: str, **given: Any) -> Provider:
    return Provider(
        **{"issuer": issuer, "client_id": "wfdash", "client_secret": "hush", "name": "Keycloak", "creates": True}
        | given
    )


def enrol(issuer: str, subject: str, **claims: Any) -> None:
    """Let the provider know a person, or tell other things of them from now on."""
    httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()


def set_out(client: Client, next_page: str = "") -> str:
    """Press the button of the sign-in page, and return the address at the provider."""
    page = client.post("/sign-in/provider/", {"next": next_page})
    assert page.status_code == 200, page.content.decode()
    address = unescape(re.search(r'class="button" href="([^"]+)"', page.content.decode())[1])
    assert page.headers["Refresh"] == f"0; url={address}"
    return address


def consent(address: str, subject: str, **form: str) -> str:
    """Sign in on the provider's page, and return where it sends the browser."""
    answer = httpx.post(address, data={"sub": subject} | form)
    assert answer.status_code == 302, answer.text
    return f"/sign-in/provider/callback/?{CALLBACK.search(answer.headers['location'])[1]}"


def sign_in_as(subject: str, client: Client | None = None, next_page: str = "") -> tuple[Client, HttpResponse]:
    """Sign in at the provider; return the browser and the answer to its return."""
    client = client or Client()
    return client, client.get(consent(set_out(client, next_page), subject))
