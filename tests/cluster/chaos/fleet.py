"""Webs and workers under supervision, and what is done to them."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter

from tests.cluster.crew import Crew

LOOK_SECONDS = 0.1
REST_SECONDS = (0.0, 1.5)
"""How long a supervisor waits before it starts again what has ended."""
FREEZE_SECONDS = (0.5, 8.0)
THAWED_SECONDS = 2.0
"""So long after a process was woken up it has done what it was about to do."""


class Fleet:
    """Keeps every process of a crew running, whatever ends it, and ends, freezes and stops them at random."""

    def __init__(self, crew: Crew, members: dict[str, str], dice: random.Random) -> None:
        """``members``: name -> verb of ``wfdash``."""
        self.done: Counter[str] = Counter()
        """What was done how often."""
        self.problems: list[str] = []
        self._crew, self._members, self._dice = crew, members, dice
        self._expected: set[str] = set()
        self._due: dict[str, float] = {}
        self._frozen: dict[str, float] = {}
        self._thawed = 0.0
        self.database_away = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def start(self) -> None:
        """Start all processes and their supervisor."""
        for name, verb in self._members.items():
            self._crew.start(name, verb)
        self._thread.start()

    def close(self) -> None:
        """End the supervisor and every process."""
        self._over.set()
        self._thread.join()
        self._crew.stop()

    def attack(self) -> None:
        """Do something to one of the processes that run."""
        with self._lock:
            names = [name for name in self._members if name not in self._due and name not in self._frozen]
            if not names:
                return
            name = self._dice.choice(names)
            act = self._dice.choices([self._kill, self._stop, self._freeze], weights=[5, 2, 2])[0]
            act(name)

    def calm(self) -> None:
        """Wake up whatever is frozen, and return."""
        with self._lock:
            for name in list(self._frozen):
                self._thaw(name)

    def is_awake(self) -> bool:
        """Say whether nothing is frozen, and has not been for a moment: what will happen has happened."""
        return not self._frozen and time.monotonic() - self._thawed > THAWED_SECONDS

    def _kill(self, name: str) -> None:
        self._note("SIGKILL", name)
        self._expected.add(name)
        self._crew.running[name].kill()

    def _stop(self, name: str) -> None:
        self._note("SIGTERM", name)
        self._expected.add(name)
        self._crew.running[name].send_signal(signal.SIGTERM)

    def _freeze(self, name: str) -> None:
        self._note("SIGSTOP", name)
        self._crew.running[name].send_signal(signal.SIGSTOP)
        self._frozen[name] = time.monotonic() + self._dice.uniform(*FREEZE_SECONDS)

    def _thaw(self, name: str) -> None:
        del self._frozen[name]
        self._thawed = time.monotonic()
        self._crew.running[name].send_signal(signal.SIGCONT)

    def _note(self, what: str, name: str) -> None:
        self.done[f"{what} of a {self._members[name]}"] += 1

    def _supervise(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with self._lock:
                self._look(time.monotonic())

    def _look(self, now: float) -> None:
        for name, until in list(self._frozen.items()):
            if now >= until:
                self._thaw(name)
        for name, verb in self._members.items():
            if name in self._due:
                if now >= self._due[name]:
                    del self._due[name]
                    self._crew.start(name, verb)
            elif (status := self._crew.running[name].poll()) is not None:
                if self.database_away and status == 1:
                    self.done[f"starts of a {verb} without a database"] += 1
                elif name not in self._expected:
                    self.problems.append(f"{name} ended with {status}, and no one had asked it to")
                self._expected.discard(name)
                self._due[name] = now + self._dice.uniform(*REST_SECONDS)
