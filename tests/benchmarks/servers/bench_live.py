"""Hundreds of viewers of one run on a real ``wfdash up`` with its embedded worker: are they all told, once, in order?

Three stories per database: *steady* (everyone stays), *storms* (all hang up at once and come back with their cursor,
five times; others now and then by chance), *restarts* (SIGTERM, then SIGKILL in mid-stream). Latency is from the
event's own time, which is set before its commit, to its arrival at a viewer that had caught up.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import psutil

from tests.benchmarks.world import Report, percentile
from tests.e2e.server import Server, wait_until
from tests.live.crowd import SERVED, Crowd, Seen, count_events, start_beating

STORMS = 5
BAR = 500


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of it."""

    viewers: int = 500
    rate: int = 50
    seconds: int = 60
    processes: int = 2


class Database(Server):
    """A server on PostgreSQL, if it has an address."""

    url_of_database = ""

    @property
    def env(self) -> dict[str, str]:
        """With the database's address."""
        return super().env | ({"WFDASH_DATABASE": self.url_of_database} if self.url_of_database else {})


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a process had used by then. Seconds, bytes."""

    process: int
    at: float
    memory: int
    processor: float


@dataclass
class Watch:
    """What the server costs, twice a second, over all its processes."""

    server: Server
    samples: list[Sample] = field(default_factory=list)
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> Watch:
        self._thread = Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.5):
            number = self.server.process_id
            try:
                process = psutil.Process(number)
                used, memory = process.cpu_times(), process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            taken = used.user + used.system
            self.samples.append(Sample(process=number, at=time.monotonic(), memory=memory, processor=taken))

    def memory(self) -> str:
        """Return the memory of the latest process: at its start, at its end, at most, growth in its second half."""
        mine = [sample for sample in self.samples if sample.process == self.samples[-1].process]
        sizes = [sample.memory / 1e6 for sample in mine]
        grows = slope(mine[len(mine) // 2 :])
        return f"{sizes[0]:.0f} -> {sizes[-1]:.0f} MB, at most {max(sizes):.0f}, {grows:+.1f} MB/min"

    def processor(self) -> float:
        """Return the processor's seconds per second, while there was a process."""
        pairs = [pair for pair in pairwise(self.samples) if pair[0].process == pair[1].process]
        return sum(b.processor - a.processor for a, b in pairs) / sum(b.at - a.at for a, b in pairs)


def slope(samples: Sequence[Sample]) -> float:
    """Return the growth of memory in MB per minute (least squares)."""
    middle = sum(sample.at for sample in samples) / len(samples)
    mean = sum(sample.memory for sample in samples) / len(samples)
    up = sum((sample.at - middle) * (sample.memory - mean) for sample in samples)
    return up / (sum((sample.at - middle) ** 2 for sample in samples) or 1) * 60 / 1e6


def steady(server: Server, crowd: Crowd, size: Size) -> None:
    """No one leaves."""


def storms(server: Server, crowd: Crowd, size: Size) -> None:
    """Everyone leaves at once, again and again; some leave by chance."""
    crowd.trickle(0.02)
    waits = []
    for _ in range(STORMS):
        time.sleep(size.seconds / (STORMS + 1) / 2)
        waits.append(crowd.storm())
    print(f"  storms over after {', '.join(f'{wait:.1f}' for wait in waits)} s")


def restarts(server: Server, crowd: Crowd, size: Size) -> None:
    """The server stops, and is killed, in the middle."""
    for end in (server.stop, server.kill):
        time.sleep(size.seconds / 4)
        end()
        server.start()
        print(f"  everybody back {crowd.wait():.1f} s after the restart")


def play(server: Server, folder: Path, size: Size, story: Callable[[Server, Crowd, Size], None]) -> tuple[Seen, Watch]:
    """Play a story to a crowd; return what was seen."""
    gate = folder / f"gate-{time.monotonic_ns()}"
    run = start_beating(server, gate, rate=size.rate, seconds=size.seconds)
    crowd = Crowd(server, run, viewers=size.viewers, processes=size.processes)
    try:
        with Watch(server) as watch:
            gate.touch()
            story(server, crowd, size)
            last = wait_until(
                lambda: count_events(server, run), seconds=size.seconds * 3 + 60, what="the run", pause=0.5
            )
            return crowd.report(last), watch
    finally:
        crowd.close()


def judge(report: Report, title: str, seen: Seen, watch: Watch) -> None:
    """Add a story's rows."""
    for what, count in seen.wrong.items():
        report.at_most(f"{title}: {what}", count, 0, "events")
    report.note(f"{title}: events x viewers", f"{seen.events} x {seen.viewers}, {seen.events_each} a message")
    for part in (0.5, 0.95, 0.99):
        told = f"{title}: event -> viewer, p{part * 100:.0f}"
        report.at_most(told, seen.late_at(part), BAR) if part == 0.99 else report.note(told, f"{seen.late_at(part)} ms")
    back = f"p50 {percentile(seen.back, 0.5):.0f}, p99 {percentile(seen.back, 0.99):.0f} ms"
    report.note(f"{title}: hung up -> caught up again", f"{back} ({seen.connects} connects, {seen.refused} refused)")
    report.note(f"{title}: the server's memory", watch.memory())
    report.note(f"{title}: the server's processor", f"{watch.processor():.2f} of a core, load {os.getloadavg()[0]:.1f}")


@contextmanager
def databases(wanted: str) -> Iterator[dict[str, str]]:
    """Give name -> address of the databases to play on; SQLite has none."""
    if wanted == "sqlite":
        yield {"SQLite": ""}
        return
    from tests.faults.servers import Postgres

    postgres = Postgres()
    both = {"SQLite": "", "PostgreSQL": postgres.new_database()}
    yield {name: url for name, url in both.items() if wanted in {"", name.lower()}}
    postgres.cleanup()


def main() -> int:
    """Play all stories on both databases and print what was seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--viewers", type=int, default=Size.viewers)
    parser.add_argument("--rate", type=int, default=Size.rate)
    parser.add_argument("--seconds", type=int, default=Size.seconds)
    parser.add_argument("--database", default="", choices=["", "sqlite", "postgresql"])
    parser.add_argument("--story", default="", choices=["", "steady", "storms", "restarts"])
    given = parser.parse_args()
    size = Size(viewers=given.viewers, rate=given.rate, seconds=given.seconds)
    stories = [story for story in (steady, storms, restarts) if given.story in {"", story.__name__}]
    report = Report("live")
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-") as folder, databases(given.database) as urls:
        for name, url in urls.items():
            server = Database(Path(folder) / name, files=[SERVED])
            server.url_of_database = url
            server.start()
            for story in stories:
                seen, watch = play(server, Path(folder), size, story)
                judge(report, f"{name}, {story.__name__}", seen, watch)
            server.stop()
            assert "Traceback" not in server.log(), server.log()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
