from __future__ import annotations

import pytest

from tests.live.world import handshake, open_socket
from wfdash.web.live.authorization import origin_allowed

FOREIGN = [
    None,
    "null",
    "",
    "https://localhost:8000",
    "http://localhost:8001",
    "http://localhost",
    "http://evil.example",
    "http://localhost:8000.evil.example",
    "http://localhost:8000@evil.example",
    "http://user@localhost:8000",
    "http://localhost:8000/path",
    "http://localhost:99999",
    "file://",
    "http://127.0.0.1:8000",
]


def scope(*, origin: str | None, host: str = "localhost:8000", **more: object) -> dict[str, object]:
    return {"type": "websocket", "headers": handshake(origin=origin, host=host), **more}


def test_our_own_pages_are_allowed() -> None:
    assert origin_allowed(scope(origin="http://localhost:8000"))
    assert origin_allowed(scope(origin="http://LOCALHOST:8000"))
    assert origin_allowed(scope(origin="http://localhost", host="localhost:80"))
    assert origin_allowed(scope(origin="http://[::1]:8000", host="[::1]:8000"))
    assert origin_allowed(scope(origin="https://localhost", host="localhost", scheme="wss"))


@pytest.mark.parametrize("origin", FOREIGN)
def test_every_other_origin_is_refused(origin: str | None) -> None:
    assert not origin_allowed(scope(origin=origin))


def test_a_foreign_name_that_resolves_to_us_is_refused() -> None:
    assert not origin_allowed(scope(origin="http://evil.example", host="evil.example"))


def test_two_origins_are_refused() -> None:
    twice = scope(origin="http://localhost:8000")
    twice["headers"].append((b"origin", b"http://localhost:8000"))  # type: ignore[attr-defined]
    assert not origin_allowed(twice)


def test_trusted_origins_are_allowed_exactly(settings) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://desk.example", "https://*.team.example"]
    assert origin_allowed(scope(origin="https://desk.example"))
    assert origin_allowed(scope(origin="https://desk.example:443"))
    assert origin_allowed(scope(origin="https://a.team.example"))
    for near in "http://desk.example", "https://desk.example:8443", "https://evildesk.example", "https://ateam.example":
        assert not origin_allowed(scope(origin=near))


def test_a_proxy_that_ends_tls_is_believed_only_when_declared(settings) -> None:
    forwarded = scope(origin="https://localhost:8000")
    forwarded["headers"].append((b"x-forwarded-proto", b"https"))  # type: ignore[attr-defined]
    assert not origin_allowed(forwarded)
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    assert origin_allowed(forwarded)


@pytest.mark.parametrize("path", ["/live/lists/", "/live/runs/any/"])
@pytest.mark.parametrize("origin", FOREIGN[:7])
async def test_a_foreign_handshake_is_refused_before_anything_is_read(make_hub, cookie, origin, path) -> None:
    hub = make_hub()
    assert await open_socket(hub, path, handshake(cookie, origin=origin)).connect() == (False, 4403)
    assert not hub.reader._connections
