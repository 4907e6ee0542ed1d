"""``wfdash doctor`` finds what is wrong with an installation, and says why it matters and what to do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone

from checkpoints.database import installation_key
from checkpoints.database.high_water_mark import refuse_hidden_writers
from checkpoints.ids import new_run_id
from checkpoints.models import AuditEntry, Claim, Notice, Run, WorkerBeat
from checkpoints.models.operations import Installation
from wfdash import cli
from wfdash.cli import doctor, processes, upkeep
from wfdash.cli.doctor import Finding, Severity, as_json, as_text, database, installation
from wfdash.queries.runs.retention import VERB

SQLITE, POSTGRES = "sqlite_alias", pytest.param("postgres_alias", marks=pytest.mark.postgres)


@pytest.fixture(params=[SQLITE, POSTGRES])
def alias(
    request: pytest.FixtureRequest,
    settings: Any,
    tmp_path: Path,
    django_db_blocker: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """Give a database with a worker that lives, in a healthy installation."""
    settings.WFDASH_DATABASE_ALIAS = name = request.getfixturevalue(request.param)
    settings.DATABASE_ROUTERS = ["checkpoints.database.router.Router"]
    tmp_path.chmod(0o700)
    settings.WFDASH_DATA_DIR = tmp_path
    settings.SECRET_KEY = "k" * 50
    settings.WFDASH_AUDIT_KEY = "a key of its own"
    # Programs of the tests, in the way of settings.
    for variable in {*os.environ} & {"WFDASH_CHROMIUM", "WFDASH_PGBOUNCER", "WFDASH_SKIP_NOTHING"}:
        monkeypatch.delenv(variable)
    with django_db_blocker.unblock():
        now = timezone.now()
        # Other tests of this process have left runs in the same database.
        empty()
        WorkerBeat.objects.create(pk="w1", started=now, seen=now, serves={"refund": "1"})
        yield name
        empty()


def empty() -> None:
    """Remove what tests about an installation look at."""
    for model in (Claim, Notice, Run, WorkerBeat, Installation):
        model.objects.all().delete()


def problems(found: list[Finding]) -> dict[str, str]:
    return {one.check: one.found for one in found if one.severity is Severity.PROBLEM}


def test_a_healthy_installation_has_no_problem(alias: str, tmp_path: Path) -> None:
    found = doctor.examine()
    assert problems(found) == {}, as_text(found)
    checks = {one.check for one in found}
    assert {"versions", "keys", "data", "database", "migrations", "workers", "claims", "outbox", "signals"} <= checks
    assert ("connections" in checks) is (alias == "postgres")


def test_what_stands_still_is_found_with_its_remedy(alias: str) -> None:
    past = timezone.now() - timedelta(hours=1)
    WorkerBeat.objects.update(seen=past)
    run = Run.objects.create(id=new_run_id(), workflow="refund", family="f", created=past, updated=past)
    Claim.objects.create(run=run, token="t", worker="gone", epoch=0, expires=past)
    Notice.objects.create(id="n", kind="asked", channel="mail", created=past, due=past)
    found = doctor.examine()
    assert set(problems(found)) == {"workers", "claims", "outbox"}
    assert "unserved" not in {one.check for one in found}
    assert all(one.why and one.remedy for one in found if one.severity is not Severity.OK)


def test_a_copy_that_is_only_looked_at_may_stand_still(alias: str, settings: Any) -> None:
    past = timezone.now() - timedelta(hours=1)
    WorkerBeat.objects.all().delete()
    Notice.objects.create(id="n", kind="asked", channel="mail", created=past, due=past)
    settings.WFDASH_HOLD = True
    assert [(one.severity, one.check) for one in database.work()] == [(Severity.ADVICE, "workers")]


def test_runs_that_no_worker_has_the_code_for_are_counted(alias: str) -> None:
    now = timezone.now()
    Run.objects.create(id=new_run_id(), workflow="billing", family="f", created=now, updated=now)
    waits = {"unserved": "1 run waits for a worker: none has the workflow billing"}
    assert problems([*database.served_runs()]) == waits


def test_a_deployment_waits_for_an_old_worker_while_open_runs_need_it(alias: str) -> None:
    now = timezone.now()
    WorkerBeat.objects.create(pk="w2", started=now + timedelta(seconds=1), seen=now, serves={"refund": "2"})
    Run.objects.create(id=new_run_id(), workflow="refund", version="1", family="f", created=now, updated=now)
    assert problems(doctor.examine(deploy=True)) == {"workers": "w1 must stay: open runs 1 of refund 1"}
    Run.objects.update(version="2")
    found = doctor.examine(deploy=True)
    assert problems(found) == {}
    assert "refund 2, open runs: 1, served by w2" in as_text(found)
    assert "w1 may go: no open run needs its old versions" in as_text(found)
    WorkerBeat.objects.filter(pk="w2").delete()
    gone = "refund 2, open runs: 1, and no running worker has this version"
    assert problems(doctor.examine(deploy=True)) == {"versions": gone}


@pytest.mark.parametrize("alias", [POSTGRES], indirect=True)
def test_a_store_whose_locks_do_not_show_who_writes_is_refused(alias: str) -> None:
    refuse_hidden_writers()
    with connections[alias].cursor() as cursor:
        cursor.execute("CREATE TEMP VIEW pg_locks AS SELECT * FROM pg_catalog.pg_locks WHERE locktype = 'advisory'")
        cursor.execute("SELECT set_config('search_path', 'pg_temp,' || current_schema() || ',pg_catalog', false)")
        try:
            with pytest.raises(ImproperlyConfigured, match="does not show which transactions write events"):
                refuse_hidden_writers()
        finally:
            cursor.execute("RESET search_path; DROP VIEW pg_temp.pg_locks")


def test_two_packages_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, file in {"one": "RECORD", "two": "top_level.txt", "wfdash": "RECORD"}.items():
        (folder := tmp_path / f"{name}-1.dist-info").mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\n")
        (folder / file).write_text(f"checkpoints/a.py,,\n{name}/a.py,," if file == "RECORD" else "checkpoints\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "alone: one, two has files in it" in problems([*installation.versions()])["versions"]
    with pytest.raises(ImproperlyConfigured, match="Install wfdash again, in a virtual environment of its own"):
        processes._refuse_settings()
    assert upkeep._report([])["problems"][0]["message"].startswith("The package 'checkpoints'")


@pytest.mark.parametrize("alias", [SQLITE], indirect=True)
def test_many_runs_that_are_never_removed_are_an_advice(alias: str, settings: Any, monkeypatch: Any) -> None:
    now = timezone.now()
    Run.objects.create(id=new_run_id(), workflow="refund", family="f", created=now, updated=now)
    monkeypatch.setattr(database, "MANY_RUNS", 0)
    (found,) = database.kept_runs()
    assert (found.severity, found.check) == (Severity.ADVICE, "retention")
    settings.WFDASH_KEEP_RUNS = {"*": 90, "payments": 3650}
    (found,) = database.kept_runs()
    assert found.found == f"1 runs, the oldest of {now:%Y-%m-%d}; ended ones are kept: 90 days, payments: 3650 days"


@pytest.mark.parametrize(("days", "severity"), [(91, Severity.ADVICE), (90.02, Severity.OK)])
def test_old_runs_that_no_worker_removes_are_an_advice(alias: str, settings: Any, days: float, severity: str) -> None:
    settings.WFDASH_KEEP_RUNS = 90
    at = timezone.now() - timedelta(days=days)
    phase = {"phase": "completed", "finished": at}
    Run.objects.create(id=new_run_id(), workflow="refund", family="f", created=at, updated=at, **phase)
    AuditEntry.objects.filter(verb=VERB).delete()
    (found,) = database.kept_runs()
    assert (found.severity, found.check) == (severity, "retention")
    assert ("in the last hour none was removed" in found.found) is (severity is Severity.ADVICE)


@pytest.mark.parametrize("alias", [POSTGRES], indirect=True)
def test_another_secret_key_than_the_databases_is_found(alias: str, settings: Any) -> None:
    Installation.objects.create(pk=1, key=installation_key.fingerprint("k" * 50))
    assert problems([*database.secret_key()]) == {}
    settings.SECRET_KEY = "j" * 50
    (found,) = database.secret_key()
    assert found.severity is Severity.PROBLEM
    assert found.remedy.startswith("Set WFDASH_SECRET_KEY")


@pytest.mark.parametrize(
    ("roles", "needed"),
    [({}, 0), ({"web": 2}, 56), ({"web": 1, "worker": 2}, 90), ({"up": 1}, 60), ({"web": 2, "worker": 2}, 118)],
)
def test_of_all_processes_that_execute_one_needs_the_connections_of_who_leads(roles: Any, needed: int) -> None:
    assert database.connections_needed(roles) == needed


@pytest.mark.parametrize("alias", [POSTGRES], indirect=True)
def test_more_processes_than_the_server_has_connections_for_are_advised_how_many(alias: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(database, "LEADING", 9_000)
    with connections[alias].cursor() as cursor:
        cursor.execute("SET application_name = 'wfdash worker storage host:1'")
        try:
            (found,) = database.connection_room()
        finally:
            cursor.execute("RESET application_name")
    assert (found.severity, found.check) == (Severity.ADVICE, "connections")
    assert re.search(r"connections are open; .*[0-9]+ worker.* may open 9\d{3}$", found.found)
    assert re.match(r"Raise max_connections to 9\d\d0, or put a pooler", found.remedy)


def test_a_database_that_does_not_answer_is_the_last_that_is_asked(settings: Any, monkeypatch: Any) -> None:
    class Away:
        def ensure_connection(self) -> None:
            raise OSError("connection refused\nmore")

    monkeypatch.setattr(installation, "EXAMINATIONS", ())
    monkeypatch.setattr(database, "connection", Away)
    (found,) = doctor.examine()
    assert (found.check, found.found) == ("database", "no connection: connection refused")


def test_an_examination_that_fails_does_not_keep_the_others_from_looking() -> None:
    def living_room() -> Iterator[Finding]:
        yield Finding(severity=Severity.OK, check="room", found="tidy")
        raise PermissionError("may not look")

    tidy, failed = doctor.run(living_room)
    assert tidy.found == "tidy"
    assert (failed.check, failed.found) == ("living room", "cannot be examined: PermissionError: may not look")


def test_an_archive_that_holds_up_the_removal_of_old_runs_is_found(settings: Any, tmp_path: Path) -> None:
    settings.WFDASH_ARCHIVE, settings.WFDASH_KEEP_RUNS = str(tmp_path / "archive"), 90
    assert "is not there" in problems([*database.archive()])["archive"]
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive").chmod(0o777)
    assert "every user of this machine can write" in problems([*database.archive()])["archive"]
    (tmp_path / "archive").chmod(0o700)
    assert [one.severity for one in database.archive()] == [Severity.OK]
    settings.WFDASH_KEEP_RUNS = None
    assert [*database.archive()] == []


def test_a_data_directory_that_others_can_read_and_an_address_no_one_reaches_are_problems(
    settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "secret_key").touch(0o644)
    tmp_path.chmod(0o755)
    settings.WFDASH_DATA_DIR = tmp_path
    settings.WFDASH_URL, settings.ALLOWED_HOSTS = "https://flows.example.org", ["localhost"]
    found = [*installation.data_directory(), *installation.address()]
    assert set(problems(found)) == {"data", "address"}
    settings.ALLOWED_HOSTS, settings.WFDASH_HTTPS = [".example.org"], True
    words = [one.found for one in installation.address() if one.severity is Severity.ADVICE]
    assert words == ["WFDASH_PROXIES is empty behind HTTPS", "WFDASH_ORIGINS does not list https://flows.example.org"]


def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nhost:/x {tmp_path} nfs4 rw 0 0\n")
    assert installation.file_system_of(tmp_path, mounts) == "nfs4"
    assert installation.file_system_of(Path("/"), mounts) == "ext4"
    assert installation.file_system_of(tmp_path, tmp_path / "none") == ""


def test_the_report_has_the_worst_last_and_programs_get_counts() -> None:
    bad = Finding(severity=Severity.PROBLEM, check="claims", found="3 stuck", why="None looks.", remedy="Start one.")
    good = Finding(severity=Severity.OK, check="keys", found="one")
    assert as_text([bad, good]).splitlines() == [
        "ok       keys         one",
        "problem  claims       3 stuck",
        "                      Why: None looks.",
        "                      Do: Start one.",
        "",
        "1 problem, 0 advice",
    ]
    report = as_json([bad, good])
    assert (report["problems"], report["findings"][0]["severity"]) == (1, "problem")


def test_the_command_ends_with_one_where_there_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bad = Finding(severity=Severity.PROBLEM, check="claims", found="3 stuck", why="None looks.", remedy="Start one.")
    monkeypatch.setattr(doctor, "examine", lambda **_: [bad])
    (tmp_path / "wfdash.sqlite3").write_text("not empty")
    monkeypatch.setenv("WFDASH_DATA", str(tmp_path))
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == 1
    monkeypatch.setattr(doctor, "examine", lambda **_: [])
    assert cli.main(["doctor"]) == 0


def test_a_low_limit_of_open_files_is_advised_against(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda what: (256, 256))
    (found,) = installation.open_files()
    assert found.severity is Severity.ADVICE
    assert "LimitNOFILE" in found.remedy
