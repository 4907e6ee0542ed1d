"""Which pages may open a socket: only those of this server.

A browser sends cookies with a socket from any page, so only the Origin distinguishes our pages from others. Scheme,
host and port must all match: Channels' host validator accepts every port of a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

PORTS = {"http": 80, "https": 443}
LOOPBACK = [".localhost", "127.0.0.1", "[::1]"]

Origin = tuple[str, str, int]


def origin_allowed(scope: Mapping[str, Any]) -> bool:
    """Say whether the handshake comes from this server's own pages or a trusted origin."""
    claimed = _parse(header(scope, b"origin"))
    host = header(scope, b"host")
    if claimed is None or not _host_served(host):
        return False
    return claimed == _parse(f"{_scheme(scope)}://{host}") or any(
        _trusts(t, claimed) for t in settings.CSRF_TRUSTED_ORIGINS
    )


def header(scope: Mapping[str, Any], name: bytes) -> str:
    """Return a header that was sent exactly once, else an empty string."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return values[0].decode("latin1") if len(values) == 1 else ""


def _scheme(scope: Mapping[str, Any]) -> str:
    proxy: tuple[str, str] | None = settings.SECURE_PROXY_SSL_HEADER
    if proxy and header(scope, proxy[0].removeprefix("HTTP_").replace("_", "-").lower().encode()) == proxy[1]:
        return "https"
    return "https" if scope.get("scheme") == "wss" else "http"


def _host_served(host: str) -> bool:
    """Return whether this server answers for the host. A foreign name that resolves to us agrees with its own
    Origin.
    """
    allowed = settings.ALLOWED_HOSTS or (LOOPBACK if settings.DEBUG else [])
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, allowed)


def _parse(text: str) -> Origin | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname or _more_than_an_origin(parts):
        return None
    return parts.scheme, parts.hostname, port or PORTS[parts.scheme]


def _more_than_an_origin(parts: SplitResult) -> bool:
    return bool(parts.path or parts.query or parts.fragment or parts.username is not None)


def _trusts(trusted: str, claimed: Origin) -> bool:
    known = _parse(trusted)
    if known is None:
        return False
    scheme, host, port = known
    same_host = is_same_domain(claimed[1], host[1:]) if host.startswith("*.") else claimed[1] == host
    return same_host and (claimed[0], claimed[2]) == (scheme, port)
