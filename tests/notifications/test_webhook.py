"""Webhooks against a real HTTP server on this machine, and against every way to write an address within."""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.notifications.test_signing import is_signed
from wfdash.domain.hooks import new_secret
from wfdash.notifications import letters
from wfdash.notifications.letters import Letter, Undeliverable, is_public, post, refuse_address
from wfdash.notifications.webhook import HookAttempt, Receiver, send_webhook


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append((self.path, dict(self.headers.items()), body))
        status, headers, reply = self.server.reply
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver(settings) -> Iterator[Any]:
    settings.WFDASH_HOOKS_LOCAL = True
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.heard, server.reply = [], (200, {"content-length": "0"}, b"")
    server.url = f"http://127.0.0.1:{server.server_port}/hook?x=1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def letter() -> Letter:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    return Letter(id="n1", kind="opened", at=at, url="https://w/requests/r/", payload={"subject": "Pay?"})


def test_a_delivery_is_signed_and_says_what_happened(receiver) -> None:
    secret = new_secret()
    send_webhook(Receiver(url=receiver.url, secrets=(secret,)), [letter()])
    ((path, headers, body),) = receiver.heard
    assert path == "/hook?x=1"
    assert is_signed(secret, {name.lower(): value for name, value in headers.items()}, body, now=time.time())
    told = json.loads(body)
    assert (told["type"], told["data"]["subject"]) == ("request.opened", "Pay?")
    assert told["data"]["url"] == "https://w/requests/r/"


def test_redirects_are_not_followed(receiver) -> None:
    receiver.reply = (302, {"location": receiver.url, "content-length": "0"}, b"")
    with pytest.raises(OSError, match="302"):
        send_webhook(Receiver(url=receiver.url, secrets=(new_secret(),)), [letter()])
    assert len(receiver.heard) == 1


def test_what_the_receiver_refuses_is_tried_again_later(receiver) -> None:
    receiver.reply = (503, {"content-length": "0"}, b"")
    with pytest.raises(OSError, match="503"):
        send_webhook(Receiver(url=receiver.url, secrets=(new_secret(),)), [letter()])


def test_a_long_reply_is_not_read_to_its_end(receiver) -> None:
    receiver.reply = (200, {}, b"x" * 300_000)
    assert post(receiver.url, b"", {}).status == 200


def test_a_receiver_that_drips_is_cut_off(settings, monkeypatch) -> None:
    settings.WFDASH_HOOKS_LOCAL = True
    monkeypatch.setattr(letters, "SEND_SECONDS", 0.5)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            client, _ = server.accept()
            with client:
                while not stop.wait(0.1):
                    try:
                        client.sendall(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        # It drips until it is told to stop: only the limit of all seconds together ends this.
        with pytest.raises(OSError):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"", {})
        stop.set()
        thread.join()


INSIDE = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0177.0.0.1/",
    "https://localhost/",
    "https://localhost./",
    "https://0.0.0.0/",
    "https://10.1.2.3/",
    "https://172.16.0.1/",
    "https://192.168.1.1:8443/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://224.0.0.1/",
    "https://[ff02::1]/",
    "https://[::127.0.0.1]/",
    "https://[::10.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b:1::7f00:1]/",
    "https://[fec0::1]/",
    "https://[3fff::1]/",
    "https://[5f00::1]/",
    "https://[100::1]/",
    "https://[2001:db8::1]/",
    "https://192.88.99.1/",
    "https://240.0.0.1/",
]


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"])
def test_addresses_of_the_outside_world_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("url", INSIDE)
def test_addresses_inside_are_refused_however_they_are_written(url: str) -> None:
    with pytest.raises((Undeliverable, socket.gaierror)):
        post(url, b"", {})


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "https://",
        "https://a:b@example.org/",
        "https://ex ample.org/",
        "https://①②⑦.⓪.⓪.①/",
        "https://example.org:99999/",
        "https://[::1/",
        "file:///etc/passwd",
        "",
    ],
)
def test_addresses_that_no_webhook_may_have_are_refused_at_once(url: str) -> None:
    with pytest.raises(Undeliverable):
        refuse_address(url)


def test_a_host_with_one_inner_address_among_its_own_is_refused(monkeypatch) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 443)) for ip in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(Undeliverable, match="private network"):
        post("https://rebind.example/", b"", {})


def test_a_name_is_looked_up_once_and_the_connection_goes_where_that_said(monkeypatch) -> None:
    """DNS that says something else the second time changes nothing: there is no second time."""
    looked, reached = [], []

    def look_up(*args: Any, **_: Any) -> list[Any]:
        looked.append(args[0])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]

    def connect(address: Any, timeout: float) -> Any:
        reached.append(address)
        raise OSError("far away")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(OSError, match="far away"):
        post("https://rebind.example/", b"", {})
    assert (looked, reached) == (["rebind.example"], [("93.184.216.34", 443)])


def test_public_addresses_are_public() -> None:
    assert all(is_public(ipaddress.ip_address(text)) for text in ("93.184.216.34", "2606:2800:220:1::1", "8.8.8.8"))
    assert is_public(ipaddress.ip_address("::ffff:8.8.8.8"))


def test_loopback_is_refused_without_the_setting_and_inner_addresses_with_it(settings, receiver) -> None:
    with pytest.raises(Undeliverable):
        post("http://192.168.0.1/", b"", {})
    settings.WFDASH_HOOKS_LOCAL = False
    with pytest.raises(Undeliverable):
        post(receiver.url, b"", {})


def test_a_host_inside_is_reached_only_if_an_operator_allows_its_name(settings, receiver) -> None:
    settings.WFDASH_HOOKS_LOCAL = False
    settings.WFDASH_HOOKS_HOSTS = ["127.0.0.1"]
    assert post(receiver.url, b"", {}, inside=settings.WFDASH_HOOKS_HOSTS).status == 200
    for url in (receiver.url.replace("127.0.0.1", "localhost"), "http://127.0.0.1.example/", "http://10.0.0.1/"):
        with pytest.raises((Undeliverable, OSError)):
            post(url, b"", {}, inside=settings.WFDASH_HOOKS_HOSTS)
    send_webhook(Receiver(url=receiver.url, secrets=(new_secret(),)), [letter()])
    assert len(receiver.heard) == 2


def test_each_attempt_is_kept_with_status_time_and_the_beginning_of_the_response(receiver) -> None:
    kept: list[tuple[str, HookAttempt]] = []
    to = Receiver(url=receiver.url, secrets=(new_secret(),), keep=lambda *each: kept.append(each))
    receiver.reply = (500, {}, b"no room\x00" + b"x" * 9_000)
    with pytest.raises(OSError, match="500"):
        send_webhook(to, [letter()])
    with pytest.raises(Undeliverable):
        send_webhook(Receiver(url="https://10.0.0.1/", secrets=(), keep=to.keep), [letter()])
    (first, attempt), (_, refused) = kept
    assert (first, attempt.status, len(attempt.answer)) == ("n1", 500, 500)
    assert attempt.answer.startswith("no room\N{REPLACEMENT CHARACTER}x")
    assert attempt.ms >= 0
    assert (refused.status, "private network" in refused.error) == (None, True)


def test_the_documented_check_takes_what_is_sent_and_nothing_else(receiver) -> None:
    page = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()
    documented: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], documented)
    old, new = new_secret(), new_secret()
    send_webhook(Receiver(url=receiver.url, secrets=(new, old)), [letter()])
    ((_, headers, body),) = receiver.heard
    given = {name.lower(): value for name, value in headers.items()}
    check = documented["is_from_wfdash"]
    assert check(new, given, body)
    assert check(old, given, body)
    assert not check(new_secret(), given, body)
    assert not check(new, given, body + b" ")
    assert not check(new, given | {"webhook-timestamp": "1"}, body)
