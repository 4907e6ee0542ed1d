"""How a command ends that a person or a pipe ends: without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from traceback import walk_tb

from checkpoints.errors import InvalidConfig

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


def run_to_end(command: Callable[[], int]) -> int:
    """Run a command with all its output and return its exit status.

    A reader that closes the pipe, such as ``head``, has what it wanted: that is no failure. A setting that cannot be
    read ends it with its message alone.
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
    except (ValueError, InvalidConfig) as error:
        if not (isinstance(error, InvalidConfig) or _of_settings(error)):
            raise
        sys.stderr.write(f"{error}\n")
        return 1
    return status


def _of_settings(error: Exception) -> bool:
    """Return whether Django's settings raised this while they were imported."""
    module = os.environ.get("DJANGO_SETTINGS_MODULE")
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == module for frame in frames)
