"""A server that is asked to stop answers what it has begun, and sends its clients elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from autobahn.websocket.types import ConnectionDeny
from daphne.ws_protocol import WebSocketProtocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests import nursery
from tests.cluster.winding import MUCH, PIECE
from tests.e2e.server import free_port, wait_until
from tests.faults.worlds import ROOT

pytestmark = pytest.mark.process
CLIENTS = 12


class Winding:
    def __init__(self, folder: Path, drain: float) -> None:
        self.port, self._output = free_port(), folder / "output"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
        env = kept | {"WFDASH_DATA": str(folder / "data"), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", "-m", "tests.cluster.winding", str(self.port), str(drain)]
        with self._output.open("wb") as output:
            self.process = nursery.start(command, stdout=output, stderr=output, env=env, cwd=ROOT)
        self.until("ready", 1)

    def said(self) -> str:
        return self._output.read_text()

    def until(self, word: str, count: int) -> None:
        """Return once it has said a word so often."""
        wait_until(lambda: self.said().split().count(word) == count, what=f"{count} times {word!r}")

    def get(self, path: str) -> str:
        """Return the body of an answer; empty if the connection ended without one."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except (URLError, OSError):
            return ""


@pytest.fixture
def wind(tmp_path: Path) -> Iterator[Callable[[float], Winding]]:
    """Start one that lets requests end for so many seconds."""
    started: list[Winding] = []

    def start(drain: float) -> Winding:
        started.append(Winding(tmp_path, drain))
        return started[-1]

    yield start
    for winding in started:
        winding.process.kill()
        winding.process.wait()


def close_code_of(client: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        client.recv(timeout=60)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def close_code(url: str) -> int:
    """Connect, and return the code with which the server closes the socket."""
    with connect(url) as client:
        return close_code_of(client)


def test_every_request_that_has_begun_is_answered_and_sockets_are_sent_away(wind) -> None:
    winding = wind(60.0)
    url = f"ws://127.0.0.1:{winding.port}"
    with ThreadPoolExecutor(CLIENTS + 1) as clients, connect(f"{url}/") as client:
        winding.until("socket", 1)
        late = clients.submit(close_code, f"{url}/late")
        winding.until("late", 1)
        answers = [clients.submit(winding.get, "/slow") for _ in range(CLIENTS)]
        winding.until("request", CLIENTS)
        winding.process.send_signal(signal.SIGTERM)
        assert close_code_of(client) == 1012
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", winding.port))
        assert late.result() == 1012
        assert [answer.result() for answer in answers] == ["done"] * CLIENTS
    assert winding.process.wait(60) == 0


@pytest.mark.parametrize("again", [True, False], ids=["asked again", "time is up"])
def test_what_takes_longer_is_cut_off(wind, again: bool) -> None:
    winding = wind(300.0 if again else 0.2)
    with ThreadPoolExecutor(1) as clients:
        answer = clients.submit(winding.get, "/never")
        winding.until("request", 1)
        winding.process.send_signal(signal.SIGTERM)
        if again:
            time.sleep(0.1)  # two signals at once are one
            winding.process.send_signal(signal.SIGTERM)
        assert winding.process.wait(60) == 0
        assert answer.result() == ""


def test_a_slow_client_gets_all_that_was_sent_before_the_close(wind) -> None:
    winding = wind(0.0)
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        narrow.connect(("127.0.0.1", winding.port))
        with connect(f"ws://127.0.0.1:{winding.port}/last", sock=narrow, max_queue=1) as client:
            winding.until("socket", 1)
            # While this one takes nothing; autobahn gives a client one second.
            assert close_code(f"ws://127.0.0.1:{winding.port}/broken") == 1011
            time.sleep(1.2)
            assert sum(len(client.recv(timeout=60)) for _ in range(MUCH)) == MUCH * PIECE
            assert close_code_of(client) == 1000
    assert "Traceback" not in winding.said()


def test_a_server_without_connections_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    from wfdash.cli import server

    class Protocol:
        looks = 0

        def check_timeouts(self) -> None:
            self.looks += 1

    class Broken:
        def check_timeouts(self) -> None:
            raise OSError

    timers: list[Callable[[], None]] = []
    monkeypatch.setattr(server.reactor, "callLater", lambda seconds, call: timers.append(call))
    serving, protocol = server.Server(application=None, endpoints=["tcp:port=0"]), Protocol()
    serving.connections = {}
    serving.application_checker()
    serving.timeout_checker()
    assert timers == []
    for one in (Broken(), protocol):
        serving.protocol_connected(one)
    assert timers == [serving.application_checker]
    for _ in range(4):
        timers.pop()()
    assert protocol.looks == 2
    serving.connections.clear()
    timers.pop()()
    assert timers == []


def test_a_server_that_is_nearly_out_of_files_refuses_sockets_and_keeps_none() -> None:
    from wfdash.cli import server

    serving = server.Server(application=None, endpoints=["tcp:port=0"])
    serving.most, serving.connections = 90, {}
    protocol = object.__new__(WebSocketProtocol)
    protocol.transport = SimpleNamespace(getHandle=lambda: SimpleNamespace(fileno=lambda: 90))
    with pytest.raises(ConnectionDeny) as refused:
        serving.protocol_connected(protocol)
    assert refused.value.code == 503
    serving.protocol_disconnected(protocol)
    assert serving.connections == {}
