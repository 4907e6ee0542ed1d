"""Settings that must not be served to others, each with its remedy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach what listens on the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def refusals(*, host: str, demo: bool, env: Mapping[str, str]) -> list[str]:
    """Return why a server must not start; empty for one that only this machine can reach.

    ``env`` contains the ``WFDASH_*`` variables. With ``WFDASH_HTTPS=1`` a proxy exposes it to others on any address.
    """
    beyond, https = not is_loopback(host), env.get("WFDASH_HTTPS") == "1"
    if not beyond and not https:
        return []
    hosts = [name.strip() for name in env.get("WFDASH_HOSTS", "").split(",") if name.strip()]
    private = env.get("WFDASH_PLAIN_HTTP") == "1"
    found = {
        "Set WFDASH_HOSTS to the host names people will use, like WFDASH_HOSTS=flows.example.org": not hosts,
        "WFDASH_HOSTS=* accepts every host name. List the host names people will use": "*" in hosts,
        "WFDASH_DEBUG=1 shows settings and code on error pages. Remove it": env.get("WFDASH_DEBUG") == "1",
        "--demo adds well-known accounts, including an administrator. Remove it and start with a new data "
        "directory (--data)": demo,
        "--reload runs whatever is saved in a file at once. Remove it": env.get("WFDASH_RELOAD") == "1",
        "Passwords and answers would be sent unencrypted. Use an HTTPS proxy and set WFDASH_HTTPS=1, or set "
        "WFDASH_PLAIN_HTTP=1 if the network is private": not https and not private,
    }
    return [words for words, wrong in found.items() if wrong]


def refusal_text(found: list[str], host: str) -> str:
    """Return the text to print, with the remedies as a list."""
    lines = "".join(f"\n  - {words}" for words in found)
    reason = f"this server would be reachable by others (it would listen on {host}), and the configuration is unsafe"
    return f"Not started: {reason}:{lines}"
