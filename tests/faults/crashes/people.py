"""Someone who starts runs and answers requests over HTTP, again and again until the server has said yes.

What the server said yes to is remembered: none of it may be lost, whatever happens to the server afterwards.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.client import Person
from tests.e2e.server import Server
from tests.faults.checks import Promised
from tests.faults.graphs import NAMES, right_answer
from tests.faults.ledger import read_ledger
from tests.faults.tables import Row, Tables

LOOK_SECONDS = 0.1
"""Every look at PostgreSQL is a connection of its own, which costs the server more than a run does."""


class Client(threading.Thread):
    """Keeps ``wanted`` runs open until told to start no more, and answers everything."""

    def __init__(self, server: Server, tables: Tables, ledger: Path, *, wanted: int) -> None:
        super().__init__(name="client", daemon=True)
        self.starts: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.problems: list[str] = []
        self.lost_replies = 0
        self.starting = True
        self._person = Person(server, "admin")
        self._tables, self._ledger, self.wanted = tables, ledger, wanted
        self._over, self._start = threading.Event(), threading.Lock()

    def start_no_more(self) -> None:
        """Start no further run; returns once the server has answered the start that is under way."""
        with self._start:
            self.starting = False

    @property
    def promised(self) -> Promised:
        """What was said yes to."""
        return Promised(starts=self.starts, answers=self.answers)

    def finish(self) -> None:
        self._over.set()
        self.join()
        self._person.close()

    def run(self) -> None:
        """Start and answer until told to end; a server that is away is tried again."""
        while not self._over.is_set():
            try:
                self._start_what_is_missing()
                for request in self._tables.open_requests():
                    self._answer(request)
            except httpx.TransportError:
                self.lost_replies += 1
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}")
            self._over.wait(LOOK_SECONDS)

    def _start_what_is_missing(self) -> None:
        runs = self._tables.count("'completed','failed'")
        while len(self.starts) - runs < self.wanted and not self._over.is_set():
            number = len(self.starts)
            message = {"number": number, "ledger": str(self._ledger)}
            body = {"workflow": NAMES[number % len(NAMES)], "message": message, "key": f"start-{number}"}
            with self._start:
                if not self.starting:
                    return
                reply = self._post("/api/v1/runs", body)
            if reply.status_code != 201:
                self.problems.append(f"start {number}: {reply.status_code} {reply.text[:300]}")
                return
            self.starts[f"start-{number}"] = reply.json()["id"]

    def _answer(self, request: Row) -> None:
        value = self._value(request)
        reply = self._post(f"/api/v1/requests/{request['id']}/answer", {"value": value})
        if reply.status_code == 200:
            self.answers[request["id"]] = value
        elif reply.status_code != 409:
            self.problems.append(f"answer: {reply.status_code} {reply.text[:300]}")

    def _value(self, request: Row) -> Any:
        number = request["input"]["number"]
        if request["kind"] != "effect":
            return right_answer(request["kind"], request["card"]["subject"], number)
        key = request["card"]["context"]["effect key"]
        happened = any(line.key == key for line in read_ledger(self._ledger) if line.kind == "once")
        return {"action": "happened", "result": f"receipt {number}"} if happened else {"action": "again"}

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        token = self._person.http.cookies.get("csrftoken", "")
        return self._person.http.post(path, json=body, headers={"X-CSRFToken": token})
