"""Starts viewer processes (``tests.live.viewers``) before a run of a real server, and adds up what they saw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.server import Server, shell
from tests.live.viewers import Tally

ROOT = Path(__file__).resolve().parents[2]
SERVED = Path(__file__).with_name("beats.py")
SOCKETS_EACH = 1
PEOPLE = """
from tests.live.world import make_person, sign_in
print(*[sign_in(make_person(f"viewer{{n}}", "viewer")) for n in range({people})], sep="\\n")
"""
START = """
from django.contrib.auth.models import User
from wfdash.engines import catalog
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
catalog.load()
print(start_run(viewer_for(User.objects.get(username="admin")), "beating", {message!r}).id)
"""
STORED = """
from checkpoints.models import Event, Run
completed = Run.objects.get(pk={run!r}).phase == "completed"  # before the events are counted: none may come after
seqs = list(Event.objects.filter(run_id={run!r}).order_by("seq").values_list("seq", flat=True))
assert seqs == list(range(1, len(seqs) + 1)), "the stored events have a hole"
print(len(seqs) if completed else 0)
"""


@dataclass(kw_only=True)
class Seen(Tally):
    """What all viewers of all processes saw. Times in milliseconds."""

    viewers: int = 0
    events: int = 0

    def late_at(self, part: float) -> int:
        """Return the milliseconds within which that part (0..1) of the deliveries arrived, rounded up."""
        left = part * self.late.total()
        for millisecond in sorted(self.late):
            left -= self.late[millisecond]
            if left <= 0:
                return millisecond + 1
        return 0

    @property
    def events_each(self) -> float:
        """Events in a message, on average."""
        return round(self.events * self.viewers / max(1, self.messages), 1)

    @property
    def wrong(self) -> dict[str, int]:
        """What must all be 0."""
        return {"lost": self.lost, "doubled": self.doubled, "reordered": self.reordered, "snapshots": self.snapshots}


def start_beating(server: Server, gate: Path, *, rate: int, seconds: int) -> str:
    """Start a run that waits for the gate; returns its id."""
    return shell(server, START.format(message={"gate": str(gate), "rate": rate, "seconds": seconds}))


def count_events(server: Server, run: str) -> int:
    """Return how many events a completed run has; 0 while it goes on."""
    return int(shell(server, STORED.format(run=run)))


class Crowd:
    """So many viewers of one run, spread over processes, each person with a few sockets. Close it when done."""

    def __init__(self, server: Server, run: str, *, viewers: int, processes: int = 1) -> None:
        people = -(-viewers // SOCKETS_EACH)
        cookies = shell(server, PEOPLE.format(people=people)).splitlines()
        self._viewers = viewers
        self._processes = []
        pipe = subprocess.PIPE
        for number in range(processes):
            mine, count = cookies[number::processes], (viewers + number) // processes
            command = [sys.executable, "-m", "tests.live.viewers"]
            process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
            self._processes.append(process)
            self._tell(process, {"port": server.port, "run": run, "cookies": mine, "count": count})
        self._check(self._hear())

    def storm(self) -> float:
        """Let everyone hang up at once and come back; returns the seconds until all had caught up."""
        return self._check(self._ask({"do": "storm"}))

    def wait(self) -> float:
        """Wait until everyone is there and has caught up; returns the seconds that took."""
        return self._check(self._ask({"do": "live"}))

    def trickle(self, share: float) -> None:
        """From now on so many of them (0..1) hang up each second."""
        self._ask({"do": "trickle", "share": share})

    def report(self, last: int) -> Seen:
        """Wait until everyone has the last event; return what was seen, and end."""
        seen = Seen(viewers=self._viewers, events=last)
        for told in self._ask({"do": "report", "last": last}):
            for name in ("lost", "doubled", "reordered", "snapshots", "messages", "bytes", "connects", "refused"):
                setattr(seen, name, getattr(seen, name) + told[name])
            seen.codes.update(told["codes"])
            seen.late.update({int(millisecond): count for millisecond, count in told["late"].items()})
            seen.back += told["back"]
        return seen

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def _ask(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        for process in self._processes:
            self._tell(process, order)
        return self._hear()

    def _tell(self, process: subprocess.Popen[str], order: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()

    def _hear(self) -> list[dict[str, Any]]:
        return [json.loads(process.stdout.readline()) for process in self._processes if process.stdout is not None]

    def _check(self, told: Sequence[dict[str, Any]]) -> float:
        live = sum(one["live"] for one in told)
        assert live == self._viewers, f"{live} of {self._viewers} viewers are live"
        return max(one["seconds"] for one in told)
