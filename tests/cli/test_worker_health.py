"""The health port of a worker answers probes and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.db import DatabaseError

from wfdash import cli
from wfdash.cli import worker_health
from wfdash.cli.worker_health import serve_health
from wfdash.installation.stopping import Stopping
from wfdash.web.pages.site import health

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def port() -> Iterator[int]:
    server = serve_health("127.0.0.1", 0)
    yield server.server_port
    server.shutdown()
    server.server_close()


def ask(port: int, path: str, token: str = "", method: str = "GET") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers=headers, method=method), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_it_says_whether_the_process_lives_and_can_work(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(health.PROBE_SECONDS, "/readyz", 60.0)
    assert ask(port, "/livez") == (200, "ok\n")
    status, told = ask(port, "/readyz")
    assert (status, told.splitlines()[0]) == (200, "ready")
    assert ask(port, "/livez", method="HEAD") == (200, "")
    ours = Stopping()
    monkeypatch.setattr(health, "stopping", ours)
    ours.begin()
    assert ask(port, "/readyz")[0] == 503


def test_metrics_are_for_those_who_have_the_token(port: int, settings) -> None:
    settings.WFDASH_METRICS_TOKEN = "a secret of the scraper"
    assert ask(port, "/metrics")[0] == 403
    status, told = ask(port, "/metrics", token="a secret of the scraper")
    assert status == 200
    assert "wfdash_commit_seconds_count" in told


@pytest.mark.parametrize("path", ["/", "/runs/", "/admin/", "/api/v1/runs", "/livez/../metrics"])
def test_nothing_else_is_there(port: int, path: str) -> None:
    assert ask(port, path) == (404, "not found\n")


@pytest.mark.parametrize(
    ("text", "address"),
    [("9000", ("127.0.0.1", 9000)), ("0.0.0.0:9000", ("0.0.0.0", 9000)), ("[::1]:9000", ("::1", 9000))],
)
def test_the_port_may_have_a_host(text: str, address: tuple[str, int]) -> None:
    assert cli._parser().parse_args(["worker", "--health-port", text]).health_port == address


@pytest.mark.parametrize(
    "arguments",
    [
        ["--health-port", "nine"],
        ["--health-port", "host:"],
        ["--drain", "soon"],
        ["--limit", "0"],
        ["--workflows", ","],
        ["--queues", ","],
    ],
)
def test_what_is_no_port_time_number_or_name_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["worker", *arguments])
    assert "is no" in capsys.readouterr().err


def test_a_database_that_is_away_is_no_end_of_the_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: object) -> None:
        raise DatabaseError

    monkeypatch.setitem(worker_health.VIEWS, "/metrics", fail)
    assert ask(port, "/metrics") == (503, "the database did not respond\n")
