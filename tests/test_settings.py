from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkpoints.errors import InvalidConfig
from wfdash import settings
from wfdash.cli import processes
from wfdash.installation.defaults import read_settings
from wfdash.installation.environment import read_database, unknown_settings


@pytest.mark.parametrize(
    ("url", "named"), [("mysql://root:secret@db/wfdash", "mysql://"), ("wfdash.sqlite3", "without a scheme")]
)
def test_a_database_that_is_not_supported_is_refused_with_what_is(url: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Give postgresql://") as refused:
        read_database(tmp_path, {"WFDASH_DATABASE": url})
    assert named in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_postgresql_url_is_read_with_its_socket_folder(tmp_path: Path) -> None:
    found = read_database(tmp_path, {"WFDASH_DATABASE": "postgresql://ana:p%40ss@/runs?host=/run/pg"})
    assert (found["NAME"], found["USER"], found["PASSWORD"], found["HOST"]) == ("runs", "ana", "p@ss", "/run/pg")


def test_no_examples_are_served_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WFDASH_APPS", raising=False)
    assert settings.WFDASH_APPS == []


def test_the_demo_adds_its_examples_and_its_repository_to_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WFDASH_APPS", "shop,wfdash.examples")
    processes.add_to("WFDASH_APPS", "wfdash.examples", separator=",")
    assert os.environ["WFDASH_APPS"] == "shop,wfdash.examples"
    processes.add_to("WFDASH_APPS", "parcels", separator=",")
    assert os.environ["WFDASH_APPS"] == "shop,wfdash.examples,parcels"


def test_a_secret_key_that_is_missing_beside_a_database_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WFDASH_SECRET_KEY", raising=False)
    first = settings.read_secret(tmp_path)
    (tmp_path / "wfdash.sqlite3").touch()
    assert settings.read_secret(tmp_path) == first
    assert not capsys.readouterr().err
    (tmp_path / "secret_key").unlink()
    assert settings.read_secret(tmp_path) != first
    assert "Put the former one back" in capsys.readouterr().err


def test_what_is_called_like_a_setting_and_is_none_is_named_with_what_was_meant() -> None:
    given = {"WFDASH_LIMITS": "5", "WFDASH_MAIL_FILE": "x", "WFDASH_OIDC_NAME": "x", "WFDASH_XYZ": "1", "HOME": "/"}
    said = ["WFDASH_LIMITS is no setting: did you mean WFDASH_LIMIT?", "WFDASH_XYZ is no setting"]
    assert unknown_settings(given) == said


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("WFDASH_EMBED", "yes", "must be 0 or 1"),
        ("WFDASH_LIMIT", "0", "a number from 1 up"),
        ("WFDASH_DRAIN", "soon", "must be seconds, 0 or more"),
        ("WFDASH_LINK_DAYS", "-1", "must be days, 0 or more"),
        ("WFDASH_APPRISE", "ana", "must be JSON"),
        ("WFDASH_RETENTION", "{", "WFDASH_RETENTION: "),
    ],
)
def test_a_text_of_another_kind_is_refused_with_the_name_of_the_setting(name: str, text: str, words: str) -> None:
    with pytest.raises((ValueError, InvalidConfig), match=words) as refused:
        read_settings({name: text})
    assert name in str(refused.value)
