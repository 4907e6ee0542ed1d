"""How a process that drives runs ends: soon, whatever still runs in its threads."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from django.conf import settings

DRAIN_SECONDS = 30.0
"""For running steps to end, in a worker process."""
SERVER_DRAIN_SECONDS = 5.0
"""The same in a server that runs workflows: with the rest less than the ten seconds many supervisors wait."""
RELEASE_SECONDS = 4.0
"""For a worker to let go of its runs after that."""
STOP_SECONDS = 7.0
"""For both at least, where there is a database to wait for."""
LEAVE_SECONDS = 2.0
"""For what sends or writes something when the process ends."""


def drain_seconds(default: float) -> float:
    """Return for how long running steps may end when the process is asked to: ``WFDASH_DRAIN``, else ``default``."""
    return default if settings.WFDASH_DRAIN is None else float(settings.WFDASH_DRAIN)


def stop_seconds(drain: float) -> float:
    """Return for how long a worker may take to stop that drains for so long."""
    return max(STOP_SECONDS, drain + RELEASE_SECONDS)


def exit_after(seconds: float, status: int) -> None:
    """End the process with this status then, even if its event loop is blocked until then."""
    impatience = threading.Timer(seconds, os._exit, [status])
    impatience.daemon = True
    impatience.start()


def exit_process(status: int) -> None:
    """End the process, whatever still runs in its threads: a plain function of a step, or a wait for the database.

    Not by ``sys.exit``: Python would wait for its threads, maybe forever, then look through all objects for garbage,
    which takes seconds on a busy machine, and no deadline holds any more while it does. The run of such a step was
    released, and repeats the step where it continues.
    """
    exit_after(LEAVE_SECONDS, status)
    atexit._run_exitfuncs()  # the log's, and those of telemetry, which send what they hold
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
