"""What a server prints when it comes up: how to sign in, and what its provider has to know."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sign_in_text(name: str, base: str, command: str = "wfdash signin NAME", *, terminal: bool) -> str:
    """Return how to sign in: a link for ``name`` where only its owner sees it, or where no one ever signed in."""
    from checkpoints.models.user_model import User

    if terminal or not User.objects.filter(last_login__isnull=False).exists():
        return f"Sign in as {name} (works once): {sign_in_link(name, base)}\n  For others: {command}"
    return f"For a one-time sign-in link: {command.replace('NAME', name)}"


def print_problems(settings: Any) -> None:
    """Print why people cannot sign in at the provider of the settings, where that is so."""
    for words in settings.WFDASH_OIDC_PROBLEMS:
        print(f"Sign-in with OpenID Connect is off: {words}", file=sys.stderr)


def provider_text(settings: Any) -> str:
    """Return the redirect URI that the OpenID Connect provider has to know; empty where none is set."""
    from django.urls import reverse

    from wfdash.rendering.addresses import absolute

    if settings.WFDASH_OIDC is None:
        return ""
    callback = absolute(reverse("wfdash:sign-in-callback"))
    return f"\n  People sign in with {settings.WFDASH_OIDC.name}. Its redirect URI for wfdash: {callback}"


def typed_as(path: str) -> str:
    """Return how to type this command again, from the path by which it was called."""
    if path.endswith("__main__.py"):
        return "python -m wfdash"
    found = shutil.which("wfdash")
    reached = found is not None and os.path.realpath(found) == os.path.realpath(path)
    return path if Path(path).name == "wfdash" and not reached else "wfdash"


def sign_in_link(name: str, base: str) -> str:
    """Return the address of a one-time link that signs a person in."""
    from checkpoints.models.user_model import User, has_name
    from wfdash.signin.links import create_link

    return create_link(User.objects.get(has_name(name)), base=base)


def in_thread(make: Callable[[], str]) -> str:
    """Return the result of a call that queries: the server announces itself from its event loop, where Django refuses
    to.
    """
    from concurrent.futures import ThreadPoolExecutor

    from checkpoints.database.alias import connection

    def call() -> str:
        try:
            return make()
        finally:
            connection().close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
