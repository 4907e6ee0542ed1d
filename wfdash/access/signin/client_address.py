"""A client's address, behind any number of proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
HOME = 64
"""Leading bits of an IPv6 address that identify one customer, who has all addresses that start with them."""


def address_of(meta: Mapping[str, Any]) -> str:
    """Return the client's address, behind the proxies of the settings."""
    return client_address(meta, settings.WFDASH_PROXIES, behind=settings.WFDASH_HTTPS)


def client_address(meta: Mapping[str, Any], proxies: Sequence[Network], *, behind: bool) -> str:
    """Return the client's address (of IPv6 its /64 network); empty where it cannot be known.

    ``X-Forwarded-For`` is trusted only as far as ``proxies`` wrote it: from its end, up to the first address that is
    not one of them. ``behind``: there is a proxy, so the peer's address is not the client's unless ``proxies`` contains
    it.
    """
    peer = _parse_address(str(meta.get("REMOTE_ADDR", "")))
    if peer is None or (behind and not proxies):
        return ""
    forwarded = str(meta.get("HTTP_X_FORWARDED_FOR", ""))
    hops = [text for part in reversed(forwarded.split(",")) if (text := part.strip())]
    found: Address | None = peer
    while found is not None and hops and any(found in network for network in proxies):
        found = _parse_address(hops.pop(0))
    return "" if found is None else _home(found)


def _parse_address(text: str) -> Address | None:
    """Return a parsed address, also of ``1.2.3.4:5678`` and ``[::1]:5678`` as some proxies write it; IPv4 in IPv6 is
    IPv4.
    """
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _home(address: Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((int(address), HOME), strict=False).network_address)
