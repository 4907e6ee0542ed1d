from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.examples.conftest import commit_all
from wfdash.examples import repository
from wfdash.examples.patches import Patch
from wfdash.examples.repository import Refused


def one_line(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def test_opens_the_top_of_a_repository(shop: Path):
    assert repository.open_repository(str(shop)) == shop


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("relative/shop", "not an allowed repository"),
        ("{shop}/../../shop", "not an allowed repository"),
        ("{shop}/missing", "not a folder"),
        ("{shop}/tests", "not the top"),
        ("/\0", "not an allowed repository"),
    ],
)
def test_refuses_what_is_not_the_top_of_a_repository(shop: Path, path: str, reason: str):
    with pytest.raises(Refused, match=reason):
        repository.open_repository(path.format(shop=shop))


def test_refuses_a_plain_folder_and_a_repository_without_a_commit(tmp_path: Path):
    with pytest.raises(Refused, match="not the top of a git repository"):
        repository.open_repository(str(tmp_path))
    repository.git("init", "-q", ".", cwd=tmp_path)
    with pytest.raises(Refused, match="no commit yet"):
        repository.open_repository(str(tmp_path))


def test_no_repository_may_be_patched_unless_a_folder_is_named(shop: Path, monkeypatch: pytest.MonkeyPatch):
    for named in ("", str(shop / "tests")):
        monkeypatch.setenv("WFDASH_REPOSITORIES", named)
        with pytest.raises(Refused, match="WFDASH_REPOSITORIES"):
            repository.open_repository(str(shop))
    monkeypatch.delenv("WFDASH_REPOSITORIES")
    with pytest.raises(Refused, match="WFDASH_REPOSITORIES"):
        repository.open_repository(str(shop))
    monkeypatch.setenv("WFDASH_REPOSITORIES", str(shop.parent))
    assert repository.open_repository(str(shop)) == shop


def test_splits_a_patch_by_file_and_counts_its_lines(shop: Path, patch: str):
    changes = repository.read_diff(shop, patch)
    assert [(change.path, change.added, change.removed) for change in changes] == [
        ("README.md", 2, 0),
        ("cart.py", 3, 1),
        ("prices.py", 8, 3),
        ("requirements.txt", 1, 1),
        ("tests/test_cart.py", 10, 1),
    ]
    assert "".join(change.diff for change in changes) == patch


def test_reads_plain_unified_diffs_and_mailed_patches_too(shop: Path):
    plain = "--- a/requirements.txt\n+++ b/requirements.txt\n@@ -1 +1 @@\n-pytest==8.4.2\n+pytest==9.0.1\n"
    assert [change.path for change in repository.read_diff(shop, plain)] == ["requirements.txt"]
    mailed = (
        "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Raise pytest\n\n---\n"
        + one_line("new.txt")
        + "-- \n2.39.5\n"
    )
    assert [change.path for change in repository.read_diff(shop, mailed)] == ["new.txt"]


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("this is not a patch\n", "not a usable patch"),
        ("", "not a usable patch"),
        ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n", "corrupt patch at line"),
        ("diff --git a/b.bin b/b.bin\nindex 1..2 100644\nBinary files a/b.bin and b/b.bin differ\n", "binary"),
    ],
)
def test_refuses_what_no_one_can_review(shop: Path, diff: str, reason: str):
    with pytest.raises(Refused, match=reason):
        repository.read_diff(shop, diff)


@pytest.mark.parametrize("path", ["../outside.txt", "/tmp/outside.txt", ".git/hooks/pre-commit", "door/outside.txt"])
def test_a_patch_cannot_leave_the_repository(shop: Path, tmp_path: Path, path: str):
    (tmp_path / "elsewhere").mkdir()
    (shop / "door").symlink_to(tmp_path / "elsewhere")
    commit_all(shop, "Add a door")
    assert not repository.apply(Patch(repository=str(shop), diff=one_line(path))).applied
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "outside.txt").exists()
    assert not (shop / ".git/hooks/pre-commit").exists()


def test_names_the_hunk_that_does_not_apply(shop: Path, patch: str):
    text = (shop / "cart.py").read_text()
    (shop / "cart.py").write_text(text.replace("for _, price, count", "for name, price, count"))
    with pytest.raises(Refused, match=r"hunk 2 of cart\.py \(line 15\) does not apply"):
        repository.check(shop, repository.read_diff(shop, patch), patch)


def test_the_repository_is_only_read_while_a_patch_is_tried_out(shop: Path, patch: str):
    def files() -> set[Path]:
        return set(shop.rglob("*"))

    before = files()
    repository.try_out(Patch(repository=str(shop), diff=patch))
    assert files() == before


def test_the_scratch_index_is_gone_even_after_an_error(shop: Path, patch: str):
    def used(index: repository.Scratch) -> Path:
        return Path(index.env["GIT_INDEX_FILE"])

    with pytest.raises(RuntimeError), repository.scratch(shop, patch) as index:
        assert used(index).is_file()
        raise RuntimeError("the step died")
    assert not used(index).parent.exists()


def test_a_patch_that_fits_the_files_but_not_the_last_commit_is_refused(shop: Path, patch: str):
    (shop / "new.txt").write_text("x\n")
    diff = "--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-x\n+y\n"
    with pytest.raises(Refused, match="does not apply to the last commit"):
        repository.try_out(Patch(repository=str(shop), diff=diff))


def test_applies_to_the_repository_itself_and_only_once(shop: Path, patch: str):
    given = Patch(repository=str(shop), diff=patch)
    done = repository.apply(given)
    assert done.applied
    assert "5 files changed" in done.summary
    assert "ROUND_HALF_UP" in (shop / "prices.py").read_text()
    again = repository.apply(given)
    assert not again.applied
    assert "does not apply" in again.summary


def test_a_command_that_hangs_is_stopped(shop: Path, monkeypatch: pytest.MonkeyPatch):
    def hang(*args: object, **kwargs: object) -> None:
        raise subprocess.TimeoutExpired("git", 60)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(Refused, match="git status took longer than 60 s"):
        repository.command("git", "status", cwd=shop)
