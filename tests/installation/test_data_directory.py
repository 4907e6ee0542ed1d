from __future__ import annotations

import stat
from pathlib import Path

import pytest

from wfdash.installation.location import create_private, keep_private, make_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("inside", [[], ["lost+found"], ["wfdash.sqlite3", "notes.txt"], ["static"]])
def test_a_data_directory_that_was_open_is_closed(inside: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in inside:
        (folder / name).touch()
    folder.chmod(0o755)
    make_private(folder)
    assert mode(folder) == 0o700


def test_a_new_data_directory_is_private(tmp_path: Path) -> None:
    make_private(tmp_path / "new" / "data")
    assert mode(tmp_path / "new" / "data") == 0o700


@pytest.mark.parametrize(("bits", "inside"), [(0o755, "thesis.tex"), (0o1777, "secret_key")])
def test_a_folder_that_is_not_wfdash_s_own_is_left_as_it_is_and_refused(bits: int, inside: str, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / inside).touch()
    folder.chmod(bits)
    with pytest.raises(ValueError, match="chmod 700"):
        make_private(folder)
    assert mode(folder) == bits


def test_someone_else_s_folder_is_refused_only_if_anyone_may_write_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, bits: int) -> None:
        raise PermissionError

    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o2775)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setattr(Path, "chmod", refuse)
    make_private(volume)
    with pytest.raises(ValueError, match="chown"):
        make_private(open_to_all)


def test_files_are_closed_and_made_for_their_owner_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch(0o644)
    old.chmod(0o644)
    keep_private(old, tmp_path / "missing")
    create_private(new)
    assert (mode(old), mode(new)) == (0o600, 0o600)
    old.write_text("kept")
    create_private(old)
    assert old.read_text() == "kept"
