"""Several servers and workers that start together on one PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.cluster.crew import KEY, Crew
from tests.e2e.server import wait_until

pytestmark = [pytest.mark.process, pytest.mark.postgres]


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, new_database: str) -> Iterator[Crew]:
    """Give two servers and two workers that were started on an empty database and are up; it is migrated."""
    crew = Crew(tmp_path_factory.mktemp("crew"), new_database)
    try:
        for name, verb in {"one": "worker", "two": "worker", "left": "web", "right": "web"}.items():
            crew.start(name, verb)
        wait_until(lambda: "Waiting for the database's schema" in crew.said("one"), what="a worker that waits")
        several = [crew.start(f"migrate-{n}", "migrate") for n in range(2)]
        assert [process.wait(60) for process in several] == [0, 0], crew.said("migrate-0") + crew.said("migrate-1")
        wait_until(lambda: crew.get("left", "/livez") == crew.get("right", "/livez") == 200, what="both servers")
        wait_until(lambda: "started" in crew.said("one") and "started" in crew.said("two"), what="both workers")
        yield crew
    finally:
        crew.stop()


def test_all_that_start_together_on_an_empty_database_come_up(crew: Crew) -> None:
    for name in ("one", "two", "left", "right", "migrate-0", "migrate-1"):
        assert "Traceback" not in crew.said(name), crew.said(name)
    lines = crew.said("one").splitlines()
    waited = [line for line in lines if line.startswith("Waiting for the database's schema")]
    assert 1 <= len(waited) <= 20
    assert "'wfdash migrate' does it" in waited[0]
    did = {crew.said(f"migrate-{n}").splitlines()[-1] for n in range(2)}
    assert "The database was up to date" in did
    assert any(re.fullmatch(r"The database is up to date; \d\d migrations applied", words) for words in did), did


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


def test_a_process_waits_for_a_database_that_answers_and_does_not_write_yet(crew: Crew) -> None:
    """So does one that recovers; look, keys and first administrator are tried again, as connecting is."""
    set_read_only(crew.database, "on")
    try:
        late = {f"late-{verb}": crew.start(f"late-{verb}", verb) for verb in ("web", "worker")}
        for name in late:
            wait_until(lambda name=name: "Waiting for the database: cannot" in crew.said(name), what=f"{name} waits")
    finally:
        set_read_only(crew.database, "off")
    wait_until(lambda: crew.get("late-web", "/readyz") == 200, what="the server")
    wait_until(lambda: "started" in crew.said("late-worker"), what="the worker")
    for name, process in late.items():
        assert process.poll() is None, crew.said(name)
        assert "Traceback" not in crew.said(name)
        process.kill()
        process.wait()


def set_read_only(database: str, to: str) -> None:
    """Let new sessions write nothing, as those of a standby, or again."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {to}')  # type: ignore[arg-type]


def test_a_new_secret_key_takes_the_place_of_its_fallback(crew: Crew) -> None:
    def migrate(name: str, **env: str) -> int:
        return crew.start(name, "migrate", **env).wait(60)

    assert migrate("rotated", WFDASH_SECRET_KEY="the-next-one", WFDASH_SECRET_KEY_FALLBACKS=KEY) == 0
    assert migrate("former") == 1
    assert crew.start("lost", "migrate", "--new-secret-key").wait(60) == 0
    assert "Its secret key is this one from now on" in crew.said("lost")
    assert migrate("as-before") == 0
