"""How a process that drives runs ends: soon, whatever still runs in its threads."""

from __future__ import annotations

import logging
import os
import sys
import threading

STOP_SECONDS = 7.0
"""For a worker to let go of its runs."""
LEAVE_SECONDS = 2.0
"""For threads that still read or write. Together less than the ten seconds after which most supervisors kill."""


def exit_after_timeout(status: int) -> None:
    """End the process with this status in ``STOP_SECONDS``, even if its event loop is blocked until then."""
    impatience = threading.Timer(STOP_SECONDS, os._exit, [status])
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
