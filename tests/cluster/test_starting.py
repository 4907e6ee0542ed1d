"""Several servers and workers that start together on one PostgreSQL."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests import nursery
from tests.e2e.server import COMMAND, free_port, wait_until
from tests.faults.worlds import ROOT, World

pytestmark = [pytest.mark.process, pytest.mark.postgres]
KEY = "one-key-for-every-process-of-this-test"


class Crew:
    """Processes on one database, each with a data directory of its own. ``stop`` ends those that run."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        self.ports: dict[str, int] = {}
        self._running: dict[str, nursery.Process] = {}

    def start(self, name: str, verb: str, *arguments: str, **more: str) -> nursery.Process:
        """Start ``wfdash VERB``; a server listens on a port of its own."""
        data = self.folder / name
        world = World(data, database=self.database, migrated=True)
        env = world.env | {"WFDASH_SECRET_KEY": KEY} | more
        del env["WFDASH_EMBED"]
        if verb in {"up", "web"}:
            self.ports[name] = free_port()
            arguments = ("--port", str(self.ports[name]), *arguments)
        with self.log(name).open("ab") as log:
            started = nursery.start([COMMAND, verb, *arguments], stdout=log, stderr=log, env=env, cwd=ROOT)
        self._running[name] = started
        return started

    def log(self, name: str) -> Path:
        """Return the file with what a process printed."""
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        """Return what a process printed."""
        return self.log(name).read_text() if self.log(name).exists() else ""

    def get(self, name: str, path: str) -> int:
        """Return the status of an answer of a server, 0 if there is none."""
        asked = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=10)
        try:
            asked.request("GET", path)
            return asked.getresponse().status
        except OSError:
            return 0
        finally:
            asked.close()

    def stop(self) -> None:
        """End what runs."""
        for process in self._running.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, new_database: str) -> Iterator[Crew]:
    """Give two servers and two workers that were started on an empty database; it is migrated."""
    crew = Crew(tmp_path_factory.mktemp("crew"), new_database)
    try:
        for name, verb in {"one": "worker", "two": "worker", "left": "web", "right": "web"}.items():
            crew.start(name, verb)
        wait_until(lambda: "Waiting for the database's schema" in crew.said("one"), what="a worker that waits")
        several = [crew.start(f"migrate-{n}", "migrate") for n in range(2)]
        assert [process.wait(60) for process in several] == [0, 0], crew.said("migrate-0") + crew.said("migrate-1")
        yield crew
    finally:
        crew.stop()


def test_all_that_start_together_on_an_empty_database_come_up(crew: Crew) -> None:
    wait_until(lambda: crew.get("left", "/livez") == crew.get("right", "/livez") == 200, what="both servers")
    wait_until(lambda: "started" in crew.said("one") and "started" in crew.said("two"), what="both workers")
    for name in ("one", "two", "left", "right", "migrate-0", "migrate-1"):
        assert "Traceback" not in crew.said(name), crew.said(name)
    lines = crew.said("one").splitlines()
    waited = [line for line in lines if line.startswith("Waiting for the database's schema")]
    assert 1 <= len(waited) <= 20
    assert "'wfdash migrate' does it" in waited[0]


def test_connections_say_what_their_process_does(crew: Crew) -> None:
    wait_until(lambda: {"web", "worker"} <= roles(crew.database), what="connections of both kinds")


def roles(database: str) -> set[str]:
    """Return the second word of the names of the connections to a database."""
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchall()
    return {words[1] for (name,) in found if len(words := name.split()) > 1}


def test_a_process_with_another_secret_key_refuses_to_start_and_says_what_to_set(crew: Crew) -> None:
    strangers = [crew.start(f"stranger-{verb}", verb, WFDASH_SECRET_KEY="its own") for verb in ("web", "worker", "up")]
    assert [stranger.wait(60) for stranger in strangers] == [1, 1, 1]
    for verb in ("web", "worker", "up"):
        assert "set WFDASH_SECRET_KEY" in crew.said(f"stranger-{verb}")


def test_a_new_secret_key_takes_the_place_of_its_fallback(crew: Crew) -> None:
    def migrate(name: str, **env: str) -> int:
        return crew.start(name, "migrate", **env).wait(60)

    assert migrate("rotated", WFDASH_SECRET_KEY="the-next-one", WFDASH_SECRET_KEY_FALLBACKS=KEY) == 0
    assert migrate("former") == 1
    lost = crew.start("lost", "migrate", "--new-secret-key")
    assert lost.wait(60) == 0
    assert migrate("as-before") == 0
