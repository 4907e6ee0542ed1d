"""One attack on a cluster from beginning to end, and what was seen."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.cluster.chaos.checks import errors_traced_in, faults_in
from tests.cluster.chaos.connections import Counting
from tests.cluster.chaos.cut import CuttableWay
from tests.cluster.chaos.fleet import Fleet
from tests.cluster.chaos.people import Crowd, Person, Replies
from tests.cluster.chaos.viewers import Viewer
from tests.cluster.crew import KEY, Crew
from tests.cluster.pooler import Pooler
from tests.e2e.server import COMMAND, wait_until
from tests.faults.graphs import MIXED
from tests.faults.servers import Postgres
from tests.faults.worlds import GRAPHS, World

PAUSE = 0.2
BACK_SECONDS = 5.0
"""So long after the database is back a process may end that had begun to start without it."""
MUTANT = (sys.executable, "-W", "ignore", "-m", "tests.cluster.chaos.mutants")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of what. Times in seconds."""

    seed: int
    webs: int = 2
    workers: int = 4
    runs: int = 2000
    wanted: int = 120
    """Runs that are open at a time."""
    people: int = 20
    viewers: int = 8
    late_minutes: int = 40
    """By how much the schedule is behind, which starts a run for each minute."""
    pace: tuple[float, float] = (0.5, 3.0)
    """Between two attacks on a process."""
    attacks: int = 0
    """How many there are at least."""
    most_attacks: int = 10**6
    crashes: int = 2
    """Of the database."""
    away: tuple[float, float] = (0.5, 4.0)
    """For how long it is away then."""
    cut: float = 30.0
    """For how long no signal and no hint comes through; 0: never."""
    settle: float = 300.0
    """What is left has so long to end."""
    variables: dict[str, str] = field(default_factory=dict)
    """Of all processes."""


@dataclass
class Report:
    """What was done, what there was, and what was wrong."""

    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def show(self) -> int:
        """Print it; returns how much was wrong."""
        for title, figures in (("done", self.done), ("seen", self.seen)):
            print(f"{title}: " + ", ".join(f"{count} {what}" for what, count in sorted(figures.items())))
        for name, ones in self.wrong.items():
            print(f"WRONG, {name}: {len(ones)}", *ones[:10], sep="\n    ", file=sys.stderr)
        count = sum(map(len, self.wrong.values()))
        print(f"{count} wrong, {self.seconds:.0f} s", flush=True)
        return count


class Story:
    """A cluster on one database, with all who use it."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        postgres: Postgres,
        database: str,
        *,
        migrated: bool = False,
        pooled: bool = False,
    ) -> None:
        """``database``: an empty one of that server, unless it is ``migrated``. ``pooled``: through a pooler."""
        self.plan, self.postgres, self.database = plan, postgres, database
        dice = random.Random(plan.seed)
        self._pace = random.Random(plan.seed + 1)
        self.world = World(folder / "plays", database=database, migrated=True)
        self.world.more = {"WFDASH_SECRET_KEY": KEY} | plan.variables
        if not migrated:
            self.world.run("migrate", "-v0")
        self.way = CuttableWay(socket_file(database))
        self.pooler = Pooler(server_of(database), size=20) if pooled else None
        given = {"WFDASH_WORKFLOWS": str(GRAPHS), "WFDASH_UNDO": "0", "WFDASH_DRAIN": "5"}
        direct = {"WFDASH_DATABASE_DIRECT": through(self.way, database)}
        name = urlsplit(database).path.lstrip("/")
        usual = database if self.pooler is None else self.pooler.url(name)
        program = MUTANT if "WFDASH_MUTANT" in plan.variables else (COMMAND,)
        self.crew = Crew(folder, usual, program=program, **given, **direct, **plan.variables)
        members = {f"web-{n}": "web" for n in range(plan.webs)} | {f"worker-{n}": "worker" for n in range(plan.workers)}
        self.fleet = Fleet(self.crew, members, dice)
        self.replies = Replies()
        self.viewers: list[Viewer] = []
        self._dice = dice

    def play(self) -> Report:
        """Attack while runs are started, until all have ended; then look at everything."""
        began, report = time.monotonic(), Report()
        plan = {"schedules": 1, "minutes": self.plan.late_minutes, "ledger": str(self.world.ledger)}
        (schedule,) = self.world.play("concurrency.sweepers.plan", **plan)
        token = self.world.play("token")
        crowd = None
        try:
            self.fleet.start()
            wait_until(self._all_serve, what="servers that answer", pause=PAUSE)
            crowd = self._crowd(token)
            with self._counted(report), self._followed(token), self._attacked():
                crowd.start()
                wait_until(lambda: self._enough(crowd), seconds=3600, what="the last start and attack", pause=PAUSE)
            self.fleet.calm()
            self._settle()
            self._end_viewers()
        finally:
            if crowd is not None:
                crowd.finish()
            self._end_viewers()
            self.fleet.close()
            self.way.close()
            if self.pooler is not None:
                self.pooler.stop()
        report.done = self.fleet.done + self.replies.counts
        for viewer in self.viewers:
            report.done += viewer.done
        report.wrong["tracebacks"] = [
            f"{name}: {error}" for name in self.crew.running for error in errors_traced_in(self.crew.said(name))
        ]
        seen, wrong = faults_in(self.world, self.replies, self.viewers, self.fleet.problems, schedule)
        report.seen += seen
        report.wrong = {name: ones for name, ones in (report.wrong | wrong).items() if ones}
        report.seconds = time.monotonic() - began
        return report

    def _all_serve(self) -> bool:
        return all(self.crew.get(name, "/readyz") == 200 for name in self.crew.ports)

    def _servers(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.crew.ports.values()]

    def _crowd(self, token: str) -> Crowd:
        people = [
            Person(f"person {n}", token, self._servers(), self.replies, random.Random(self.plan.seed + 100 + n))
            for n in range(self.plan.people)
        ]
        return Crowd(
            self.world.tables(),
            self.world.ledger,
            people=people,
            replies=self.replies,
            runs=[MIXED[number % len(MIXED)] for number in range(self.plan.runs)],
            wanted=self.plan.wanted,
            may_judge=self.fleet.is_awake,
            dice=random.Random(self.plan.seed + 2),
        )

    @contextmanager
    def _followed(self, token: str) -> Iterator[None]:
        def choose(dice: random.Random) -> str:
            runs = list(self.replies.starts.values())
            return dice.choice(runs[-self.plan.wanted :]) if runs else ""

        for n in range(self.plan.viewers):
            dice = random.Random(self.plan.seed + 200 + n)
            self.viewers.append(Viewer(f"viewer {n}", token, self._servers(), choose, dice))
            self.viewers[-1].start()
        yield

    def _end_viewers(self) -> None:
        for viewer in self.viewers:
            viewer.over.set()
        for viewer in self.viewers:
            viewer.join()

    @contextmanager
    def _attacked(self) -> Iterator[None]:
        over = threading.Event()
        attacks = [threading.Thread(target=self._attack, args=[over])]
        attacks += [threading.Thread(target=self._harm, args=[over])]
        for attack in attacks:
            attack.start()
        try:
            yield
        finally:
            over.set()
            for attack in attacks:
                attack.join()

    @contextmanager
    def _counted(self, report: Report) -> Iterator[None]:
        counting = Counting(self.world.tables())
        counting.start()
        try:
            yield
        finally:
            counting.over.set()
            counting.join()
            report.seen.update({f"connections of a {role} at most": count for role, count in counting.most.items()})
            report.wrong = {"connections": counting.excess()}

    def _attack(self, over: threading.Event) -> None:
        for _ in range(self.plan.most_attacks):
            if over.wait(self._pace.uniform(*self.plan.pace)):
                return
            self.fleet.attack()

    def _harm(self, over: threading.Event) -> None:
        """Crash the database and cut the signals off, one after the other, spread over the starts."""
        harms = [self._crash] * self.plan.crashes
        harms[len(harms) // 2 : len(harms) // 2] = [self._cut] * bool(self.plan.cut)
        for place, harm in enumerate(harms, start=1):
            share = self.plan.runs * place // (len(harms) + 1)
            while len(self.replies.starts) < share:
                if over.wait(PAUSE):
                    return
            harm(over)

    def _crash(self, over: threading.Event) -> None:
        self.fleet.done["database crashes"] += 1
        self.fleet.database_away = True
        self.postgres.crash()
        time.sleep(self._pace.uniform(*self.plan.away))
        self.postgres.restart()
        over.wait(BACK_SECONDS)
        self.fleet.database_away = False

    def _cut(self, over: threading.Event) -> None:
        self.fleet.done["times that signals were cut off"] += 1
        self.way.cut()
        over.wait(self.plan.cut)
        self.way.mend()

    def _enough(self, crowd: Crowd) -> bool:
        harmed = self.fleet.done["database crashes"] == self.plan.crashes
        cut = self.fleet.done["times that signals were cut off"] or not self.plan.cut
        done = sum(count for what, count in self.fleet.done.items() if what.startswith("SIG"))
        return bool(crowd.all_begun and harmed and cut and done >= self.plan.attacks)

    def _settle(self) -> None:
        tables = self.world.tables()
        tables.change("UPDATE checkpoints_schedule SET next_at=NULL")

        def ended() -> bool:
            return tables.count("'completed','failed','cancelled'") == len(tables.runs()) and not tables.claims()

        try:
            wait_until(ended, seconds=self.plan.settle, what="the end of every run", pause=1.0)
        except AssertionError as error:
            self.replies.problems.append(str(error))


def socket_file(database: str) -> str:
    """Return the file of the socket of a database's server."""
    parts = urlsplit(database)
    return f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.{parts.port or 5432}"


def server_of(database: str) -> dict[str, str]:
    """Return Django's settings of a database whose server listens on a socket."""
    parts = urlsplit(database)
    facts = {"HOST": parse_qs(parts.query)["host"][0], "PORT": str(parts.port or ""), "NAME": parts.path.lstrip("/")}
    return facts | {"USER": parts.username or "postgres"}


def through(way: CuttableWay, database: str) -> str:
    """Return the address of a database that leads through what can be cut."""
    parts = urlsplit(database)
    name = parts.username or "postgres"
    return f"postgresql://{name}@127.0.0.1:{way.port}{parts.path}"
