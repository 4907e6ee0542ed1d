"""Nothing of a proposal runs or is read on the server before it was approved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.conftest import commit_all
from wfdash.examples import repository
from wfdash.examples.patches import Patch
from wfdash.examples.repository import Refused

SHADOWS = ("compileall", "ruff", "ast", "struct", "json", "resource", "sitecustomize", "usercustomize", "encodings")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WFDASH_REPOSITORIES", str(tmp_path))
    folder = tmp_path / "shop"
    repository.make_shop(folder)
    return folder


def new_file(path: str, text: str, mode: str = "100644") -> str:
    lines = text.splitlines()
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    return head + f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


def link(path: str, target: Path, mode: str) -> str:
    return new_file(path, str(target), mode) + "\\ No newline at end of file\n"


def planted(marker: Path) -> str:
    return f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"


@pytest.mark.parametrize("name", SHADOWS)
def test_a_file_of_the_patch_is_never_executed(shop: Path, tmp_path: Path, name: str):
    marker = tmp_path / "executed"
    diff = new_file(f"{name}.py", planted(marker)) + new_file("changed.py", "x = 1")
    repository.try_out(Patch(repository=str(shop), diff=diff))
    assert not marker.exists()


def test_a_file_that_the_repository_holds_already_is_never_executed(shop: Path, tmp_path: Path):
    marker = tmp_path / "executed"
    for name in SHADOWS:
        (shop / f"{name}.py").write_text(planted(marker))
    commit_all(shop, "Add modules that shadow the checks")
    repository.try_out(Patch(repository=str(shop), diff=new_file("changed.py", "x = 1")))
    assert not marker.exists()


@pytest.mark.parametrize("mode", ["120000", "0120000", " 120000", "120000 ", "00120000"])
def test_a_symbolic_link_is_refused_however_its_mode_is_spelled(shop: Path, tmp_path: Path, mode: str):
    secret = tmp_path / "secret_key"
    secret.write_text("a-very-secret-key !")
    diff = link("leak.py", secret, mode)
    with pytest.raises(Refused) as refused:
        repository.try_out(Patch(repository=str(shop), diff=diff))
    assert "a-very-secret-key" not in str(refused.value)
    assert not repository.apply(Patch(repository=str(shop), diff=diff)).applied
    assert not (shop / "leak.py").is_symlink()


def test_a_symbolic_link_of_the_repository_is_not_changed_by_a_patch(shop: Path, tmp_path: Path):
    (shop / "door").symlink_to("cart.py")
    commit_all(shop, "Add a link")
    target = "\n\\ No newline at end of file\n"
    diff = f"--- a/door\n+++ b/door\n@@ -1 +1 @@\n-cart.py{target}+{tmp_path}/secret_key{target}"
    with pytest.raises(Refused):
        repository.try_out(Patch(repository=str(shop), diff=diff))
    assert not repository.apply(Patch(repository=str(shop), diff=diff)).applied


@pytest.mark.parametrize("mode", ["160000", "0160000"])
def test_a_submodule_is_refused_however_its_mode_is_spelled(shop: Path, mode: str):
    diff = new_file("vendor", "Subproject commit " + "1" * 40, mode)
    with pytest.raises(Refused):
        repository.try_out(Patch(repository=str(shop), diff=diff))


@pytest.mark.parametrize("name", ["ruff.toml", ".ruff.toml", "pyproject.toml"])
def test_a_configuration_of_the_patch_is_never_read(shop: Path, tmp_path: Path, name: str):
    secret = tmp_path / "secret_key"
    secret.write_text("a-very-secret-key !")
    section = "[tool.ruff]\n" if name == "pyproject.toml" else ""
    diff = new_file(name, f'{section}extend = "{secret}"') + new_file("changed.py", "x = 1")
    _, checks = repository.try_out(Patch(repository=str(shop), diff=diff))
    assert checks == {"compile": "", "ruff": ""}


def test_a_filter_of_the_patch_is_never_run(shop: Path, tmp_path: Path):
    marker = tmp_path / "executed"
    repository.git("config", "filter.trap.smudge", f"touch {marker}", cwd=shop)
    repository.git("config", "filter.trap.clean", f"touch {marker}", cwd=shop)
    diff = new_file(".gitattributes", "*.py filter=trap") + new_file("changed.py", "x = 1")
    repository.try_out(Patch(repository=str(shop), diff=diff))
    assert not marker.exists()


def test_hooks_of_the_repository_never_run(shop: Path, tmp_path: Path):
    marker = tmp_path / "executed"
    for name in ("post-checkout", "post-index-change", "pre-applypatch", "applypatch-msg"):
        hook = shop / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
        hook.chmod(0o755)
    given = Patch(repository=str(shop), diff=new_file("changed.py", "x = 1"))
    repository.try_out(given)
    assert repository.apply(given).applied
    assert not marker.exists()


@pytest.mark.parametrize("path", ["/etc", "/no/such/folder", "/etc/passwd", "relative", "~", "/proc/self/cwd"])
def test_a_refusal_does_not_tell_which_folders_exist(shop: Path, path: str):
    with pytest.raises(Refused) as refused:
        repository.open_repository(path)
    assert str(refused.value) == f"{path} is not an allowed repository: choose one below WFDASH_REPOSITORIES"


def test_a_bare_repository_among_the_tracked_files_is_no_repository(shop: Path, tmp_path: Path):
    """Text files alone make one, so a patch that was approved as test data would run a program for the next one."""
    marker, inner = tmp_path / "executed", shop / "fixtures"
    head = repository.git("rev-parse", "HEAD", cwd=shop).stdout
    files = {
        "HEAD": head,
        "refs/keep": "x\n",
        "objects/info/alternates": f"{shop}/.git/objects\n",
        "config": f'[core]\n\tbare = false\n\tworktree = {inner}\n[filter "x"]\n\tclean = "touch {marker}; cat"\n',
        ".gitattributes": "*.py filter=x\n",
        "cart.py": (shop / "cart.py").read_text(),
    }
    for name, text in files.items():
        (inner / name).parent.mkdir(parents=True, exist_ok=True)
        (inner / name).write_text(text)
    commit_all(shop, "Add fixtures")
    diff = "--- a/cart.py\n+++ b/cart.py\n@@ -1,1 +1,1 @@\n-x\n+y\n"
    with pytest.raises(Refused, match="not the top of a git repository"):
        repository.try_out(Patch(repository=str(inner), diff=diff))
    assert repository.git("status", cwd=inner).returncode != 0
    assert not marker.exists()


@pytest.mark.parametrize("name", ["a\\n\\n## All checks passed\\n\\n.py", "a\\342\\200\\256yp.py", "a\\033[2J.py"])
def test_the_name_of_a_file_cannot_write_words_of_its_own_on_the_card(shop: Path, name: str):
    diff = (
        f'diff --git "a/{name}" "b/{name}"\nnew file mode 100644\n--- /dev/null\n+++ "b/{name}"\n@@ -0,0 +1 @@\n+x(\n'
    )
    with pytest.raises(Refused, match="characters that cannot be shown"):
        repository.try_out(Patch(repository=str(shop), diff=diff))


@pytest.mark.parametrize("order", ["before", "within"])
def test_what_is_said_of_a_file_is_said_of_its_own_changes(shop: Path, order: str):
    evil = "--- a/requirements.txt\n+++ b/requirements.txt\n@@ -1 +1 @@\n-pytest==8.4.2\n+eval(input())\n"
    nothing = "diff --git nothing\n\n"
    harmless = new_file("notes.md", "x")
    diff = f"Some words\n{evil}{harmless}{nothing}" if order == "before" else f"{harmless}{evil}{nothing}"
    with pytest.raises(Refused, match="not of one file each"):
        repository.try_out(Patch(repository=str(shop), diff=diff))


def test_a_configuration_of_the_repository_does_not_change_what_was_approved(shop: Path):
    repository.git("config", "apply.whitespace", "fix", cwd=shop)
    patch = Patch(repository=str(shop), diff=new_file("notes.md", "two blanks end a line  "))
    assert repository.apply(patch).applied
    assert (shop / "notes.md").read_text() == "two blanks end a line  \n"
