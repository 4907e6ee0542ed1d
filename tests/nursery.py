"""Processes that begin with the libraries imported: forked from one that has done so, and nothing else.

Most of a server's start are imports of what no setting changes: of the libraries and, with Django set up for no one,
of wfdash itself. A fork sets Django up again, for its own settings. ``start`` takes the commands that the tests use, of
``wfdash`` and of ``python -m``, and returns what ``subprocess.Popen`` would. Commands as people run them are tested
by ``test_cli``.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, gettempdir
from typing import IO, Any, TypeAlias

ROOT = Path(__file__).resolve().parents[1]
COMMAND = str(Path(sys.executable).with_name("wfdash"))
LIBRARIES = """
django.contrib.admin.options django.contrib.auth.hashers django.contrib.messages.api django.contrib.staticfiles.finders
django.core.cache.backends.locmem django.core.handlers.asgi django.core.mail django.core.management
django.core.management.commands.migrate django.db.backends.sqlite3.base django.db.migrations.executor django.db.models
django.forms django.template.defaultfilters django.template.loader django.template.loader_tags
django.test.client django.urls django.views.decorators.cache
twisted.internet.asyncioreactor twisted.internet.tcp twisted.protocols.tls twisted.web.http
autobahn.websocket.protocol service_identity whitenoise.middleware
argon2 cronsim cryptography.hazmat.primitives.ciphers.aead fast_sugiyama heroicons jsonschema markdown_it nh3 psycopg
prometheus_client pydantic.json_schema pygments.formatters pygments.lexers pyotp referencing qrcode.image.svg uuid_utils
checkpoints.manager checkpoints.sql.sqlite
wfdash.client wfdash.domain.cron wfdash.records wfdash.values.schemas wfdash.workflow
"""
"""What reads no settings, starts no thread and opens nothing."""
FRAMEWORKS = "openai mcp langsmith"
"""What takes the frameworks longest to import, where it is installed; what begins anything is left to who needs it."""
OURS = "wfdash.actions wfdash.engines.catalog wfdash.web.http wfdash.web.live.sockets wfdash.urls wfdash.worker.worker"
"""What needs models, reads settings only when it is called, and opens nothing. No ``admin``: it reads them at once."""
SHARED = "NURSERY"
"""The variable that tells processes which others started where the nursery takes orders."""
MOST = 2**18
"""Bytes of an order, its environment included."""
START_SECONDS, RUN_SECONDS, STOP_SECONDS = 60.0, 180.0, 10.0
"""Limits that only a failure reaches; the first start imports the libraries."""


class Child:
    """A process of the nursery: what ``subprocess.Popen`` tells of one."""

    def __init__(self, status: IO[str]) -> None:
        self._status = status
        if not select.select([status], [], [], START_SECONDS)[0]:
            raise TimeoutError(f"the nursery started nothing within {START_SECONDS:g} s")
        self.pid = int(status.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status once it has ended; raises ``TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(self._status.readline())
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a word."""
        self.send_signal(signal.SIGKILL)


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
    told, status = os.pipe()
    order = json.dumps({"command": command, "env": env, "cwd": str(cwd)})
    try:
        socket.send_fds(nursery(), [order.encode()], [*given, status])
    except ConnectionError:
        # That nursery has died; its place may have been taken.
        nursery.cache_clear()
        socket.send_fds(nursery(), [order.encode()], [*given, status])
    os.close(status)
    return Child(os.fdopen(told))


def run(command: Sequence[str], *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it printed."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        status = start(command, env=env, cwd=cwd, stdout=out, stderr=err).wait(RUN_SECONDS)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, status, out.read(), err.read())


@cache
def nursery() -> socket.socket:
    """Return the socket that takes orders: of the nursery that processes share, or of one of this process's own."""
    if SHARED not in os.environ:
        Nursery().tend()
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.connect(os.environ[SHARED])
    return ours


class Nursery:
    """A nursery for this process and those that it starts, as the address in their environment says.

    It begins when ``tend`` is called, and ends with this process. ``watched`` can be read when that is to be called:
    at the first order, or because it has died.
    """

    def __init__(self) -> None:
        # An address has at most 107 bytes.
        folder = TemporaryDirectory(prefix="nursery-", dir=None if len(gettempdir()) < 80 else "/tmp")
        atexit.register(folder.cleanup)
        self.watched = self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(f"{folder.name}/orders")
        self._door.listen()
        os.environ[SHARED] = f"{folder.name}/orders"
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)

    def tend(self) -> None:
        """Begin it, again if it has died."""
        self.end()
        # Its standard input, which ends with this process; and this one hears if it ends.
        self.watched, theirs = socket.socketpair()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
        command = [sys.executable, "-m", "tests.nursery", str(self._door.fileno())]
        with theirs:
            self._process = subprocess.Popen(command, env=kept, cwd=ROOT, pass_fds=[self._door.fileno()], stdin=theirs)

    def end(self) -> None:
        """End it, if it lives."""
        if self._process is None:
            return
        self.watched.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(door: socket.socket) -> None:
    """Fork for every order until standard input ends; returns in a process that has become a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    senders: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([sys.stdin, door, *senders], [], [])
        if sys.stdin in ready:
            os._exit(0)
        if door in ready:
            senders.append(door.accept()[0])
        for sender in [one for one in senders if one in ready]:
            order, files, _, _ = socket.recv_fds(sender, MOST, 4)
            if not order:
                senders.remove(sender)
                sender.close()
            elif os.fork() == 0:
                for one in (door, *senders):
                    one.close()
                return keep(json.loads(order), files)
            for file in files:
                os.close(file)


def keep(order: dict[str, Any], files: list[int]) -> None:
    """Fork the command itself and tell its id, then its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = files
    pid = os.fork()
    if pid == 0:
        os.close(status)
        return become(order, standard)
    for file in {*standard, 0, 1, 2}:
        os.close(file)
    os.write(status, f"{pid}\n".encode())
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, f"{ended}\n".encode())
    os._exit(0)


def become(order: dict[str, Any], files: list[int]) -> None:
    """Take over files, folder, environment and arguments, and run the command."""
    for place, file in enumerate(files):
        os.dup2(file, place)
    for file in set(files) - {0, 1, 2}:
        os.close(file)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    program, *arguments = order["command"]
    if program == COMMAND:
        from wfdash.cli import main

        sys.argv = [program, *arguments]
        sys.exit(main())
    if arguments[:2] == ["-W", "ignore"]:
        warnings.simplefilter("ignore")
        arguments = arguments[2:]
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    sys.path[:0] = [order["cwd"], *order["env"].get("PYTHONPATH", "").split(os.pathsep)]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def import_ours() -> None:
    """Import wfdash with its models, on an empty folder; then Django is again as if no one had set it up."""
    from django.apps import AppConfig, apps
    from django.conf import empty, settings
    from django.db import connections

    with TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "wfdash.settings", "WFDASH_DATA": folder}
        # As django.setup() does, but for what apps do once they are ready, and for daphne, which opens an event loop.
        for config in (AppConfig.create(name) for name in settings.INSTALLED_APPS if name != "daphne"):
            config.apps, apps.app_configs[config.label] = apps, config
        apps.apps_ready = True
        for config in apps.app_configs.values():
            config.import_models()
        apps.clear_cache()
        apps.models_ready = True
        for module in OURS.split():
            importlib.import_module(module)
    apps.app_configs.clear()
    apps.apps_ready = apps.models_ready = False
    apps.clear_cache()
    # Django has no word for taking settings back: this is what it keeps of them.
    settings._wrapped = empty
    del sys.modules["wfdash.settings"]
    for alias in connections:
        with contextlib.suppress(AttributeError):
            del connections[alias]
    del connections.settings
    connections._settings = None
    assert "twisted.internet.reactor" not in sys.modules


def main() -> None:
    """Import everything, then take orders."""
    door = socket.socket(fileno=int(sys.argv[1]))
    for library in [*LIBRARIES.split(), *filter(find_spec, FRAMEWORKS.split())]:
        importlib.import_module(library)
    import_ours()
    gc.collect()
    gc.freeze()
    serve(door)


if __name__ == "__main__":
    main()
