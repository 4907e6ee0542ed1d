"""A small shop in a real git repository, and the patch that is to be reviewed."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfdash.examples import repository


def commit_all(folder: Path, message: str) -> None:
    repository.git("add", "--all", cwd=folder)
    repository.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", message, cwd=folder)


@pytest.fixture(autouse=True)
def _allow_repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WFDASH_REPOSITORIES", str(tmp_path))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    repository.make_shop(folder)
    return folder


@pytest.fixture
def patch() -> str:
    return (repository.DATA / "decimal.diff").read_text()


@pytest.fixture
def contents(shop: Path):
    """Return every tracked or new file of the shop with its text, to see what changed."""

    def read() -> dict[str, str]:
        files = [path for path in shop.rglob("*") if path.is_file() and ".git" not in path.parts]
        return {str(path.relative_to(shop)): path.read_text() for path in sorted(files)}

    return read
