"""How a command ends that a person or a pipe ends: without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


def run_to_end(command: Callable[[], int]) -> int:
    """Run a command with all its output and return its exit status.

    A reader that closes the pipe, such as ``head``, has what it wanted: that is no failure.
    """
    try:
        status = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer would fail once more when the process ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
