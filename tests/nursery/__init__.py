"""Processes that begin with the libraries imported: forked by multiprocessing's server, which imports them once.

Most of a server's start are imports of what no setting changes. ``start`` takes the commands that the tests use, of
``wfdash`` and of ``python -m``, and returns what ``subprocess.Popen`` would. Commands as people run them are tested
by ``test_cli``.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeAlias

COMMAND = str(Path(sys.executable).with_name("wfdash"))
RUN_SECONDS = 180.0
"""A limit that only a failure reaches."""
PRELOADED = "tests.nursery.preloaded"
multiprocessing.set_forkserver_preload([PRELOADED])


class Child(ForkServerProcess):
    """A process of the nursery, with the words of ``subprocess.Popen``; it ends with this process."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended; raises ``TimeoutExpired``."""
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.name, timeout or 0)
        return self.exitcode

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self.exitcode

    returncode = property(poll)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.pid and self.poll() is None:
            os.kill(self.pid, number)


Process: TypeAlias = Child | subprocess.Popen[bytes]


def start(
    command: Sequence[str],
    *,
    env: dict[str, str],
    cwd: Path,
    stdin: IO[Any] | None = None,
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> Process:
    """Start a command. What the linker is to load beforehand takes a new process, and no fork."""
    if "LD_PRELOAD" in env:
        return subprocess.Popen(command, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)
    given = [file.fileno() if file else place for place, file in enumerate((stdin, stdout, stderr))]
    # Files are no arguments for another process, connections are.
    files = [Connection(os.dup(number)) for number in given]
    child = Child(target=become, args=(list(command), env, cwd, files), daemon=True)
    child.start()
    return child


def run(command: Sequence[str], *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it printed."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        status = start(command, env=env, cwd=cwd, stdout=out, stderr=err).wait(RUN_SECONDS)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


def become(command: list[str], env: dict[str, str], cwd: Path, files: list[Connection]) -> None:
    """Take over files, folder, environment and arguments, and run the command."""
    # Its server says nothing of what it could not import.
    importlib.import_module(PRELOADED)
    for place, file in enumerate(files):
        os.dup2(file.fileno(), place)
        file.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # Such a process may start others.
    multiprocessing.current_process().daemon = False
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        execute(command)
    finally:
        # What multiprocessing leaves out.
        atexit._run_exitfuncs()


def execute(command: list[str]) -> None:
    """Do what a new process would do for a command."""
    program, *arguments = command
    if program == COMMAND:
        from wfdash.cli import main

        sys.argv = command
        sys.exit(main())
    if arguments[:2] == ["-W", "ignore"]:
        warnings.simplefilter("ignore")
        arguments = arguments[2:]
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    sys.path[:0] = [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
