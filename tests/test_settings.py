from __future__ import annotations

from pathlib import Path

import pytest

from wfdash import settings


@pytest.mark.parametrize(
    ("url", "named"), [("mysql://root:secret@db/wfdash", "mysql://"), ("wfdash.sqlite3", "without a scheme")]
)
def test_a_database_that_is_not_supported_is_refused_with_what_is(
    url: str, named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WFDASH_DATABASE", url)
    with pytest.raises(ValueError, match="Give postgresql://") as refused:
        settings.database(tmp_path)
    assert named in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_postgresql_url_is_read_with_its_socket_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WFDASH_DATABASE", "postgresql://ana:p%40ss@/runs?host=/run/pg")
    found = settings.database(tmp_path)
    assert (found["NAME"], found["USER"], found["PASSWORD"], found["HOST"]) == ("runs", "ana", "p@ss", "/run/pg")
