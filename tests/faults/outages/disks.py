"""Real small filesystems (tmpfs): filled to the last byte, made read-only, and freed again. Mounting needs root."""

from __future__ import annotations

import contextlib
import errno
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.e2e.server import wait_until
from tests.faults.checks import Findings, look
from tests.faults.outages.outages import all_ended, client_of, completed
from tests.faults.servers import Postgres
from tests.faults.worlds import Process, World

SQLITE_MB = 8
POSTGRES_MB = 160
"""A new data directory takes 40, its log another 16 to 80."""
SECONDS = 90.0
MOST = 30


class Disk:
    """A filesystem of its own, of a fixed size."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def fill(self, server: int) -> None:
        """Use up all that is left, regardless of who needs it."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (2**16, 2**12):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Give it back."""
        self._filler.unlink(missing_ok=True)

    def set_read_only(self, on: bool) -> None:
        """Mount it again, read-only or not; no one may have a file open for writing."""
        mount(str(self.place), options=f"remount,{'ro' if on else 'rw'}")


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Disk]:
    """Mount a filesystem there."""
    place.mkdir(exist_ok=True)
    mount(str(place), options=f"size={megabytes}m,mode=0755")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def mount(place: str, *, options: str) -> None:
    """Mount a tmpfs, or mount it again. ``OSError`` if that is not allowed here."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip())


def why_no_disk() -> str | None:
    """Say why no filesystem can be mounted here, None if one can."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with small_disk(Path(folder), 1):
                return None
        except OSError as error:
            return f"no filesystem can be mounted here: {error}"


class Limit:
    """What a disk that is full is where none can be mounted: the kernel lets no file of the server grow."""

    def __init__(self, world: World) -> None:
        self._files = (world.sqlite_file, world.sqlite_file.with_name(world.sqlite_file.name + "-wal"))
        self._limited: set[int] = set()

    def fill(self, server: int) -> None:
        """Let nothing grow beyond what the smaller file has reached: in a long write-ahead log there is room again
        whenever it starts from its beginning.
        """
        if server not in self._limited:
            self._limited.add(server)
            size = min(file.stat().st_size for file in self._files)
            resource.prlimit(server, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def free(self) -> None:
        """Let files grow again."""
        while self._limited:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(
                    self._limited.pop(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )


def fill_and_free(world: World, disk: Disk | Limit, *, whole: Callable[[World], None]) -> tuple[Findings, list[str]]:
    """Let a client's runs go on while the disk fills and is freed. Returns what was found, and every refusal."""
    server = world.server()
    server.start()
    crew = [world.worker("one").start()] if world.database else []

    def said() -> bool:
        disk.fill(server.pid)
        # Where no run gets on there may be nothing left to answer or start: someone wants one more.
        client.wanted = min(client.wanted + 1, MOST)
        return any(": 503" in one for one in client.problems) and "is unavailable" in words_of(server.log(), crew)

    try:
        with client_of(server, world, wanted=8) as client:
            wait_until(lambda: completed(world) >= 3, seconds=SECONDS, what="completed runs")
            wait_until(said, seconds=SECONDS, what="a refused command and a word in the log")
            # A full PostgreSQL may refuse new sessions, too; what is whole is looked at once more in the end.
            with contextlib.suppress(psycopg.OperationalError):
                whole(world)
            disk.free()
            known = completed(world)
            wait_until(lambda: completed(world) > known, seconds=SECONDS, what="another completed run")
            client.start_no_more()
            wait_until(lambda: all_ended(world), seconds=SECONDS, what="the end of every run")
    finally:
        disk.free()
        for process in crew:
            process.kill()
        server.kill()
    unseen = "OperationalError"  # the client's own look at the tables
    refusals = [one for one in client.problems if not one.startswith(unseen)]
    return look(world.tables(), world.ledger, client.promised), refusals


def words_of(log: str, crew: list[Process]) -> str:
    return log + "".join(process.output.read_text() for process in crew)


@contextmanager
def postgres_on_a_small_disk() -> Iterator[tuple[Postgres, Disk]]:
    """Give a server whose whole data directory lies on a small disk."""
    with tempfile.TemporaryDirectory(prefix="wfdash-disk-") as folder:
        place = Path(folder) / "disk"
        Path(folder).chmod(0o755)
        with small_disk(place, POSTGRES_MB) as disk:
            server = Postgres(place / "pg")
            try:
                yield server, disk
            finally:
                disk.free()
                with contextlib.suppress(Exception):
                    server.cleanup()
