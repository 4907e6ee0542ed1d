from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from wfdash import settings
from wfdash.cli import processes
from wfdash.installation.environment import read_database


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


def test_every_setting_that_the_environment_gives_is_in_the_docs() -> None:
    root = Path(__file__).parent.parent
    read = re.findall(
        r"""(?:environ(?:\.get)?[(\[]|env_\w+\()["'](WFDASH_\w+)""", (root / "wfdash/settings.py").read_text()
    )
    said = "".join(page.read_text() for page in (root / "docs").glob("*.md"))
    assert len(read) > 20
    assert [name for name in read if f"`{name}" not in said and f" {name}=" not in said] == []
