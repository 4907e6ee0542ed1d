"""Programs that follow runs by socket, hang up at random, and continue at another server from where they were."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

STAY_SECONDS = (0.3, 6.0)
"""How long a viewer stays before it hangs up."""
RETRY_SECONDS = 0.3
LISTEN_SECONDS = 1.0


class Viewer(threading.Thread):
    """Follows one run after the other to its end, as ``choose`` names them."""

    def __init__(
        self, name: str, token: str, servers: Sequence[str], choose: Callable[[random.Random], str], dice: random.Random
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.seen: dict[str, list[tuple[int, str]]] = {}
        """Run -> number and kind of each event, in the order in which they came."""
        self.ended: set[str] = set()
        """Runs that were followed to their end."""
        self.done: Counter[str] = Counter()
        self._token, self._servers, self._choose, self._dice = token, servers, choose, dice
        self.over = threading.Event()

    def run(self) -> None:
        """Follow until told to end."""
        while not self.over.is_set():
            run = self._choose(self._dice)
            if not run or run in self.seen:
                self.over.wait(RETRY_SECONDS)
                continue
            self.seen[run] = []
            while run not in self.ended and not self.over.is_set():
                try:
                    self._watch(run, self._dice.uniform(*STAY_SECONDS))
                except (OSError, WebSocketException, TimeoutError):
                    self.done["connections that failed"] += 1
                    self.over.wait(RETRY_SECONDS)

    def _watch(self, run: str, stay: float) -> None:
        seen = self.seen[run]
        server = self._dice.choice(self._servers).replace("http", "ws", 1)
        after = seen[-1][0] if seen else 0
        headers = {"Authorization": f"Bearer {self._token}"}
        url = f"{server}/live/runs/{run}/?format=json&after={after}"
        end = time.monotonic() + stay
        with connect(url, additional_headers=headers, open_timeout=20, close_timeout=1, proxy=None) as socket:
            self.done["connections"] += 1
            try:
                while time.monotonic() < end and not self.over.is_set() and run not in self.ended:
                    self._take(run, socket)
            except ConnectionClosed as closed:
                code = "no" if closed.rcvd is None else closed.rcvd.code
                self.done[f"connections that the server closed with {code} code"] += 1

    def _take(self, run: str, socket: ClientConnection) -> None:
        try:
            message = json.loads(socket.recv(timeout=LISTEN_SECONDS))
        except TimeoutError:
            return
        if message["type"] == "events":
            self.seen[run] += [(event["seq"], event["kind"]) for event in message["events"]]
            socket.send(json.dumps({"ack": message["last"]}))
        elif message["type"] == "end":
            self.ended.add(run)


def missed(viewers: Sequence[Viewer], events: Callable[[str], list[tuple[int, str]]]) -> list[str]:
    """Say which viewer did not see each event of a run once and in order. ``events(run)``: what there is to see."""
    wrong = []
    for viewer in viewers:
        for run, seen in viewer.seen.items():
            there = events(run)
            wanted = there if run in viewer.ended else there[: len(seen)]
            if seen != wanted:
                at = next(
                    (place for place, pair in enumerate(zip(seen, wanted, strict=False)) if pair[0] != pair[1]), -1
                )
                wrong.append(f"{viewer.name} saw {len(seen)} of {len(wanted)} events of {run}, other ones from {at}")
    return wrong
