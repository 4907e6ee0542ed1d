"""Clocks that are wrong and jump while runs go on."""

from __future__ import annotations

import random
import signal
import time

from tests.e2e.server import wait_until
from tests.faults.checks import Findings, look
from tests.faults.clocks.lies import LIBRARIES, set_clock
from tests.faults.outages.outages import all_ended, client_of
from tests.faults.worlds import World

HOUR = 3600.0
LEASE = 20.0
"""Seconds: much less than the clocks are wrong, much more than a busy machine holds a worker up."""


class Clock:
    """The clock of one worker: wrong from its start, and it may jump. Without the library only Python is lied to."""

    def __init__(self, world: World, name: str, seconds: float) -> None:
        self._file = world.data.with_name(f"clock-{name}")
        self._seconds = seconds
        set_clock(self._file, seconds)
        lie = {"clock": self._file} if LIBRARIES else {"shift": seconds}
        self.worker = world.worker(name, ttl=LEASE, heartbeat=1.0, **lie)

    def jump(self) -> None:
        """Let it be as wrong in the other direction."""
        self._seconds = -self._seconds
        if LIBRARIES:
            set_clock(self._file, self._seconds)
        else:
            self.worker.send(signal.SIGUSR1)


def jump_the_server(world: World, *, jumps: int, seed: int) -> tuple[Findings, list[str]]:
    """Let the clock of the only machine jump by an hour or two, to and fro, while runs go on. Needs the library."""
    dice, world.clock = random.Random(seed), world.data.with_name("clock")
    set_clock(world.clock, 0)
    server = world.server()
    server.start()
    try:
        with client_of(server, world, wanted=8) as client:
            for jump in range(jumps):
                time.sleep(dice.uniform(0.3, 1.0))
                set_clock(world.clock, HOUR if jump % 2 else -HOUR)
            # Forward at last: who fell asleep in the wrong hour wakes up.
            set_clock(world.clock, 3 * HOUR)
            client.start_no_more()
            wait_until(lambda: all_ended(world), seconds=90, what="the end of every run")
    finally:
        server.kill()
    return look(world.tables(), world.ledger, client.promised), client.problems
