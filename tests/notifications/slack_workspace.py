"""A workspace of Slack on this machine: its Web API by HTTP, its Socket Mode by a websocket, and what people do."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlencode

from websockets.sync.server import ServerConnection, serve

SECRET, TEAM = "shhh", "T1"
BLOCKS = {"header": 150, "section": 3000}


@dataclass
class Workspace:
    """Keeps what it was called with. ``refuses``: method -> status, headers, and error of its next call."""

    url: str = ""
    socket_url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    refuses: dict[str, tuple[int, dict[str, str], str]] = field(default_factory=dict)
    sockets: list[ServerConnection] = field(default_factory=list)
    acks: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def posted(self) -> list[str]:
        """Return the places of the messages that were sent."""
        return list(self.messages)

    def answer(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        """Do what Slack does for a method."""
        if method in ("chat.postMessage", "chat.update"):
            check_blocks(given["blocks"])
        if method == "chat.postMessage":
            place = f"D{given['channel']}:{next(self.numbers)}.0"
            self.messages[place] = given
            return {"channel": place.partition(":")[0], "ts": place.partition(":")[2]}
        if method == "chat.update":
            self.messages[f"{given['channel']}:{given['ts']}"] |= given
        if method == "conversations.open":
            return {"channel": {"id": f"D{given['users']}"}}
        if method == "conversations.history":
            mine = [(place, one) for place, one in self.messages.items() if place.startswith(f"{given['channel']}:")]
            found = [{"ts": place.partition(":")[2], "metadata": one.get("metadata")} for place, one in mine]
            return {"messages": found}
        if method == "auth.test":
            return {"team_id": TEAM}
        return {"url": self.socket_url}

    def texts(self, place: str) -> str:
        """Return all that a message says."""
        blocks = self.messages[place]["blocks"]
        return "\n".join(one["text"]["text"] for one in blocks if "text" in one)

    def buttons(self, place: str) -> dict[str, dict[str, Any]]:
        """Return its buttons by action, but for the link."""
        elements = self.messages[place]["blocks"][-1]["elements"]
        return {one["action_id"]: one for one in elements if "value" in one}

    def press(self, place: str, action: str, person: str, team: str = TEAM) -> dict[str, Any]:
        """Return what Slack tells of a press."""
        channel, _, at = place.partition(":")
        return {
            "type": "block_actions",
            "team": {"id": team},
            "user": {"id": person},
            "trigger_id": f"trigger{next(self.numbers)}",
            "channel": {"id": channel},
            "message": {"ts": at},
            "actions": [{**self.buttons(place)[action], "action_ts": f"{next(self.numbers)}.1"}],
        }

    def submit(self, person: str, **values: str) -> dict[str, Any]:
        """Return what Slack tells of the modal that was opened last."""
        view = next(given["view"] for method, given in reversed(self.calls) if method == "views.open")
        state = {"values": {name: {"value": {"value": text}} for name, text in values.items()}}
        who = {"team": {"id": TEAM}, "user": {"id": person}}
        return {"type": "view_submission", **who, "view": {**view, "id": f"V{next(self.numbers)}", "state": state}}


def check_blocks(blocks: list[dict[str, Any]]) -> None:
    """Fail as Slack does where a message is beyond its limits."""
    assert 0 < len(blocks) <= 50
    for one in blocks:
        if "text" in one:
            assert one["text"]["type"] == "plain_text", "texts of others are never markup"
            assert 0 < len(one["text"]["text"]) <= BLOCKS[one["type"]]
        for button in one.get("elements", []):
            assert len(button["text"]["text"]) <= 75
            assert len(button.get("value", "")) <= 2000


def signed(body: str, *, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    """Return the headers with which Slack signs a body."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}


def form_of(payload: dict[str, Any]) -> str:
    """Return an interaction as Slack posts it."""
    return urlencode(payload if "command" in payload else {"payload": json.dumps(payload)})


@contextmanager
def workspace(*, sockets: bool = False) -> Iterator[Workspace]:
    """Serve on free ports of this machine."""
    found = Workspace()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            is_json = "json" in self.headers["content-type"]
            given = json.loads(body) if is_json else dict(parse_qsl(body))
            method = self.path.rpartition("/")[2]
            found.calls.append((method, given))
            status, headers, error = found.refuses.pop(method, (200, {}, ""))
            reply = {"ok": False, "error": error} if error else {"ok": True, **found.answer(method, given)}
            said = json.dumps(reply).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(said))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    def hold(socket: ServerConnection) -> None:
        socket.send(json.dumps({"type": "hello"}))
        found.sockets.append(socket)
        for text in socket:
            found.acks.append(json.loads(text))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with server, serve(hold, "127.0.0.1", 0) if sockets else nullcontext() as live:
        found.url = f"http://127.0.0.1:{server.server_address[1]}/api/"
        threads = [threading.Thread(target=server.serve_forever, args=(0.01,))]
        if live is not None:
            found.socket_url = f"ws://127.0.0.1:{live.socket.getsockname()[1]}/"
            threads.append(threading.Thread(target=live.serve_forever))
        for thread in threads:
            thread.start()
        yield found
        server.shutdown()
        if live is not None:
            live.shutdown()
        for thread in threads:
            thread.join()
