from __future__ import annotations

from typing import Any

import pytest
from django.db.backends.postgresql.base import DatabaseWrapper

from checkpoints.errors import InvalidConfig
from checkpoints.sql import conninfo
from checkpoints.sql.conninfo import parameters_of, settings_of

URL = "postgresql://ana:p%40ss@db:5433/runs"


def sides(url: str) -> list[dict[str, Any]]:
    """Return the parameters of Django's connections and of the storage's."""
    settings = settings_of(url)
    whole = {**settings, "AUTOCOMMIT": True, "TIME_ZONE": None, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
    return [DatabaseWrapper(whole).get_connection_params(), parameters_of(settings)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sslmode", "verify-full"),
        ("sslrootcert", "/etc/ca.pem"),
        ("connect_timeout", "5"),
        ("target_session_attrs", "read-write"),
        ("application_name", "runs"),
    ],
)
def test_an_option_of_the_url_reaches_django_and_the_storage(name: str, value: str) -> None:
    for parameters in sides(f"{URL}?{name}={value}"):
        assert parameters[name] == value


def test_a_server_that_is_unreachable_is_given_up_soon_unless_the_url_says_otherwise() -> None:
    for parameters in sides(f"{URL}?keepalives_idle=60"):
        assert parameters["keepalives_idle"] == "60"
        assert (parameters["tcp_user_timeout"], parameters["connect_timeout"]) == (15_000, 10)
    assert parameters_of({"NAME": "runs"})["tcp_user_timeout"] == 15_000


def test_several_hosts_and_a_socket_folder_are_read() -> None:
    for parameters in sides("postgresql://ana@one:5432,two:5433/runs"):
        assert (parameters["host"], parameters["port"]) == ("one,two", "5432,5433")
    for parameters in sides("postgresql://ana@/runs?host=/run/pg"):
        assert parameters["host"] == "/run/pg"


def test_what_postgresql_does_not_know_is_refused_by_name_and_without_the_password() -> None:
    with pytest.raises(InvalidConfig, match="unknown PostgreSQL option 'sslmod'") as refused:
        settings_of(f"{URL}?sslmod=require")
    assert "p@ss" not in str(refused.value)
    with pytest.raises(InvalidConfig, match="no URL that PostgreSQL understands") as refused:
        settings_of("postgresql://ana:sec%zzret@db/runs")
    assert "sec" not in str(refused.value)
    with pytest.raises(InvalidConfig, match="DATABASES: unknown PostgreSQL option 'sslmod'"):
        parameters_of({"NAME": "runs", "OPTIONS": {"sslmod": "require"}})


def test_each_connection_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conninfo, "_role", [""])
    names = [parameters["fallback_application_name"] for parameters in sides(URL)]
    assert [name.split()[:2] for name in names] == [["wfdash", "pages"], ["wfdash", "storage"]]
    assert all(len(name) < 64 for name in names)


def test_the_name_of_a_connection_says_what_its_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conninfo, "_role", [""])
    conninfo.be_process("worker")
    names = [parameters["fallback_application_name"] for parameters in sides(URL)]
    assert [name.split()[:3] for name in names] == [["wfdash", "worker", "pages"], ["wfdash", "worker", "storage"]]


@pytest.mark.parametrize(("text", "read"), [("none", None), ("0", 0), ("5", 5)])
def test_prepared_statements_can_be_turned_off(text: str, read: int | None) -> None:
    for parameters in sides(f"{URL}?prepare_threshold={text}"):
        assert parameters["prepare_threshold"] == read


def test_a_wrong_threshold_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="prepare_threshold must be none or a number"):
        settings_of(f"{URL}?prepare_threshold=soon")


def test_options_of_ones_own_replace_ours_and_may_be_none_at_all() -> None:
    assert [p.get("options") for p in sides(URL)] == ["-c jit=off"] * 2
    assert [p.get("options") for p in sides(f"{URL}?options=-c%20work_mem%3D8MB")] == ["-c work_mem=8MB"] * 2
    assert [p.get("options") for p in sides(f"{URL}?options=")] == [None] * 2


def test_what_is_djangos_alone_does_not_reach_the_driver() -> None:
    options = {"isolation_level": 2, "pool": True, "server_side_binding": True, "sslmode": "require"}
    found = parameters_of({"NAME": "runs", "OPTIONS": options | {"assume_role": "run owner"}})
    assert found.keys() - conninfo.PATIENCE - {"client_encoding", "fallback_application_name"} == {
        "dbname",
        "options",
        "sslmode",
    }
    assert found["options"] == "-c role=run\\ owner"


def test_behind_a_pooler_nothing_is_sent_or_prepared_that_it_cannot_follow() -> None:
    settings = settings_of(URL, pooled=True)
    assert settings["DISABLE_SERVER_SIDE_CURSORS"] is True
    django, storage = sides(f"{URL}?prepare_threshold=none&options=")
    for parameters in (parameters_of(settings), django, storage):
        assert parameters["prepare_threshold"] is None
        assert "options" not in parameters or not parameters["options"]


def test_a_project_behind_a_pooler_says_so_as_django_has_it() -> None:
    assert parameters_of({"NAME": "runs", "DISABLE_SERVER_SIDE_CURSORS": True})["prepare_threshold"] is None
