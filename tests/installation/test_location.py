"""Commands find the data and the server's address, and never begin a data directory by mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wfdash import cli
from wfdash.installation import location

DJANGO = [["manage", name] for name in ("signin", "work", "createsuperuser", "migrate", "runserver")]


@pytest.mark.parametrize("arguments", [["verify", "pack.json"], *DJANGO], ids=" ".join)
def test_a_command_in_a_wrong_folder_says_so_and_leaves_nothing_behind(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WFDASH_DATA", "")
    for name in ("WFDASH_AUDIT_KEY", "WFDASH_URL", "WFDASH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(arguments) == 1
    assert "No wfdash data in ./wfdash-data. 'wfdash up' creates it; --data" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_that_exists_may_be_migrated(tmp_path) -> None:
    env = {"WFDASH_DATA": str(tmp_path)}
    assert not location.needs_data(["migrate"], env)
    assert location.needs_data(["migrate"], {"WFDASH_DATA": str(tmp_path / "elsewhere")})
    assert location.needs_data(["work"], env)


def test_a_data_directory_that_is_named_is_looked_at(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("WFDASH_DATA", "")
    assert cli.main(["signin", "ana", "--data", str(tmp_path / "there")]) == 1
    assert f"No wfdash data in {tmp_path / 'there'}" in capsys.readouterr().err


def test_data_is_a_database_that_is_more_than_a_name(tmp_path) -> None:
    env = {"WFDASH_DATA": str(tmp_path)}
    (tmp_path / "wfdash.sqlite3").touch()
    assert location.missing_data(env)
    (tmp_path / "wfdash.sqlite3").write_text("SQLite")
    assert not location.missing_data(env)
    server = {"WFDASH_DATA": str(tmp_path / "pg"), "WFDASH_DATABASE": "postgresql://x/y"}
    assert location.missing_data(server)
    assert not location.missing_data(server | {"WFDASH_SECRET_KEY": "x" * 50})


def test_links_lead_to_where_the_server_was_last_up(tmp_path) -> None:
    assert location.noted_address(tmp_path, {}) == "http://127.0.0.1:8000"
    location.note_address(tmp_path, "http://127.0.0.1:8201")
    assert location.noted_address(tmp_path, {}) == "http://127.0.0.1:8201"
    assert (tmp_path / "address").stat().st_mode & 0o077 == 0
    assert location.noted_address(tmp_path, {"WFDASH_URL": "https://flows.example/"}) == "https://flows.example"


@pytest.mark.process
def test_the_package_is_a_command_that_proves_packs_and_checks_settings_without_data(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("WFDASH_", "DJANGO_"))}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    (tmp_path / "pack.json").write_text("{}")
    command = [sys.executable, "-m", "wfdash", "verify", "--without-key", "pack.json"]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert "is not an audit pack" in told.stderr
    command = [sys.executable, "-m", "wfdash", "manage", "check", "--deploy"]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert "System check identified" in told.stdout + told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pack.json"]
