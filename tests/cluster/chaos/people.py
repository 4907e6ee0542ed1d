"""Programs that start runs, send signals and answer over HTTP, rivals at the same moment, until each has a reply."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from tests.faults.checks import Promised
from tests.faults.graphs import right_answer
from tests.faults.ledger import read_ledger
from tests.faults.tables import Row, Tables

LOOK_SECONDS = 0.3
TRY_SECONDS = (0.05, 0.5)
REPLY_SECONDS = 30.0
RIVALS = 3
ACCEPTED, TOO_LATE = frozenset({200, 201}), frozenset({404, 409})
PASSING = frozenset({429, 502, 503})
"""Replies that say: later."""


@dataclass
class Replies:
    """What the programs were answered."""

    starts: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """Request -> each value that was accepted."""
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def promised(self) -> Promised:
        """Return what was accepted, as the checks of the fault suite want it."""
        return Promised(starts=self.starts, answers={request: values[0] for request, values in self.answers.items()})


@dataclass(frozen=True, kw_only=True)
class Errand:
    """One POST, sent until there is a reply. ``then`` gets the reply's JSON where it was accepted."""

    path: str
    body: dict[str, Any]
    then: Callable[[Any], None]
    key: str = field(default_factory=lambda: uuid4().hex)


class Person(threading.Thread):
    """Runs errands by one token; each try at another server."""

    def __init__(self, name: str, token: str, servers: Sequence[str], replies: Replies, dice: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.errands: queue.Queue[Errand | None] = queue.Queue()
        self._servers, self._replies, self._dice = servers, replies, dice
        self._http = httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=REPLY_SECONDS)
        self.over = threading.Event()

    def run(self) -> None:
        """Run errands until told to end."""
        while (errand := self.errands.get()) is not None:
            try:
                self._run(errand)
            except Exception as error:
                self._replies.problems.append(f"{errand.path}: {type(error).__name__}: {error}")
        self._http.close()

    def _run(self, errand: Errand) -> None:
        while not self.over.is_set():
            try:
                url = self._dice.choice(self._servers) + errand.path
                reply = self._http.post(url, json=errand.body, headers={"Idempotency-Key": errand.key})
            except httpx.TransportError:
                self._replies.counts["no reply, tried again"] += 1
            else:
                if reply.status_code not in PASSING:
                    self._judge(errand, reply)
                    return
                self._replies.counts[f"{reply.status_code}, tried again"] += 1
            time.sleep(self._dice.uniform(*TRY_SECONDS))

    def _judge(self, errand: Errand, reply: httpx.Response) -> None:
        if reply.status_code in ACCEPTED:
            errand.then(reply.json())
        elif reply.status_code in TOO_LATE:
            self._replies.counts["somebody else was first"] += 1
        else:
            self._replies.problems.append(f"{errand.path}: {reply.status_code} {reply.text[:200]}")


class Crowd:
    """People who start ``runs``, of which so many are open at a time, and do everything that is asked of them."""

    def __init__(
        self,
        tables: Tables,
        outside: Path,
        *,
        people: list[Person],
        replies: Replies,
        runs: Sequence[str],
        wanted: int,
        may_judge: Callable[[], bool],
        dice: random.Random,
    ) -> None:
        """``runs``: the workflow of each. ``outside``: the file that effects write to. ``may_judge()``: whether one can
        tell by it what has happened: nothing is about to write to it that does not say so.
        """
        self.replies, self.people = replies, people
        self._tables, self._outside, self._runs, self._wanted = tables, outside, runs, wanted
        self._may_judge, self._dice = may_judge, dice
        self._begun = 0
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="crowd", daemon=True)

    @property
    def all_begun(self) -> bool:
        return len(self.replies.starts) == len(self._runs)

    def start(self) -> None:
        for person in self.people:
            person.start()
        self._thread.start()

    def finish(self) -> None:
        """End everyone, whatever they are about."""
        self._over.set()
        self._thread.join()
        for person in self.people:
            person.over.set()
            person.errands.put(None)
        for person in self.people:
            person.join()

    def _serve(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            try:
                self._start_what_is_missing()
                for request in self._tables.open_requests():
                    self._hand_out(request)
            except psycopg.OperationalError:
                self.replies.counts["no database for the crowd"] += 1
            except Exception as error:
                self.replies.problems.append(f"crowd: {type(error).__name__}: {error}")

    def _start_what_is_missing(self) -> None:
        ended = self._tables.count("'completed','failed','cancelled'")
        while self._begun < len(self._runs) and self._begun - ended < self._wanted:
            number, self._begun = self._begun, self._begun + 1
            workflow = self._runs[number]
            message = {"number": number, "ledger": str(self._outside)}
            body = {"workflow": workflow, "message": message}
            self._send(Errand(path="/api/v1/runs", body=body, then=self._started(number), key=f"start-{number}"), 0)

    def _started(self, number: int) -> Callable[[Any], None]:
        def note(reply: Any) -> None:
            self.replies.starts[f"start-{number}"] = reply["id"]
            if self._runs[number] == "letter":
                body = {"name": "letter", "value": number + 3}
                self._send(Errand(path=f"/api/v1/runs/{reply['id']}/signals", body=body, then=self._signalled))

        return note

    def _signalled(self, reply: Any) -> None:
        self.replies.counts["signals sent"] += 1

    def _hand_out(self, request: Row) -> None:
        id_, subject = request["id"], str(request["card"].get("subject", ""))
        is_effect = request["kind"] == "effect"
        if id_ in self._seen or request["kind"] == "signal" or subject.startswith("Late"):
            return
        if is_effect and not self._may_judge():
            return
        self._seen.add(id_)
        number = request["input"]["number"]
        if subject.startswith("Who is first"):
            for person in self._dice.sample(range(len(self.people)), RIVALS):
                self._answer(id_, f"person {person}", person)
        elif is_effect:
            self._answer(id_, self._judged(request, number))
        else:
            self._answer(id_, right_answer(request["kind"], subject, number))

    def _judged(self, request: Row, number: int) -> Any:
        self.replies.counts["asked whether an effect happened"] += 1
        key = request["card"]["context"]["effect key"]
        happened = any(line.key == key for line in read_ledger(self._outside) if line.kind == "once")
        return {"action": "happened", "result": f"receipt {number}"} if happened else {"action": "again"}

    def _answer(self, request: str, value: Any, person: int | None = None) -> None:
        def note(reply: Any) -> None:
            self.replies.answers[request].append(value)

        self._send(Errand(path=f"/api/v1/requests/{request}/answer", body={"value": value}, then=note), person)

    def _send(self, errand: Errand, person: int | None = None) -> None:
        chosen = self._dice.randrange(len(self.people)) if person is None else person
        self.people[chosen].errands.put(errand)
