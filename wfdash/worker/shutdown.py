"""How a process that drives runs ends: soon, whatever still runs in its threads."""

from __future__ import annotations

import logging
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
"""For threads that still read or write."""


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
    """End the process, even while a plain function of a step still runs in its thread: at once then.

    Python would wait for it, maybe forever. Its run was released, and repeats that step where it continues.
    For other threads it waits a little.
    """
    if any(thread.name.startswith("wfdash-step") for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    # Python waits for every thread, and one may be waiting for a database that does not answer.
    impatience = threading.Timer(LEAVE_SECONDS, os._exit, [status])
    impatience.daemon = True
    impatience.start()
    sys.exit(status)
