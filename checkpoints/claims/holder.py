"""The name of this process as a claim holder, and whether another holder on this machine has ended.

The claim of a killed process need not expire: another process on the same machine can see that it has ended.
A holder of which that is uncertain (another machine, another container, no ``/proc``) counts as alive.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path

PROC = Path("/proc")
DEAD = frozenset("ZX")
"""States of a process that has ended and was not waited for by its parent."""


def process_name() -> str:
    """Return the unique name of this process: ``host:pid:place-start:``. Holders put other parts before and after."""
    pid = os.getpid()
    return f"{socket.gethostname()[:100]}:{pid}:{boot_and_namespace()}-{start_time(pid) or 0}:"


def is_gone(worker: str) -> bool:
    """Return whether the holder of that name was a process of this machine that has ended."""
    *_, host, pid, origin = ("", "", "", *worker.split(":")[:-1])
    where, _, start = origin.partition("-")
    known = bool(where) and where == boot_and_namespace() and host == socket.gethostname()[:100] and pid.isdigit()
    return known and start.isdigit() and _has_ended(int(pid), int(start))


def _has_ended(pid: int, start: int) -> bool:
    if (PROC / str(pid) / "stat").exists():
        return start_time(pid) != start
    # /proc may hide the processes of other users, which can still be asked whether they exist.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@cache
def boot_and_namespace() -> str:
    """Return a digest of this machine's boot id and pid namespace; empty where they are unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text()
        return sha256(f"{boot}{os.readlink(PROC / 'self/ns/pid')}".encode()).hexdigest()[:12]
    except OSError:
        return ""


def start_time(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None if it does not run."""
    try:
        facts = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if facts[0] in DEAD else int(facts[19])
