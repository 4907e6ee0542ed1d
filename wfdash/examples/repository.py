"""A git repository as ``patch_review`` uses it: read a diff, try it in a scratch worktree, apply it.

Nothing here goes through a shell, every command has a timeout, and hooks of the repository never run.
``WFDASH_REPOSITORIES`` (folders, separated like ``PATH``) limits which repositories may be named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from wfdash.examples.patches import FileChange, Patch, Result

DATA = Path(__file__).parent / "data"
TIMEOUT = 60.0
"""Seconds any one command may take."""
QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
PLACE = re.compile(r"patch failed: (?P<path>.+):(?P<line>\d+)$", re.MULTILINE)
MODE = re.compile(r"^(?:new file mode|new mode|index \S+) (120000|160000)$", re.MULTILINE)
PIECE = {True: re.compile(r"^(?=diff --git )", re.MULTILINE), False: re.compile(r"^(?=--- .*\n\+\+\+ )", re.MULTILINE)}


class Refused(ValueError):
    """The repository or the patch cannot be used; the message says which part and why."""


def command(*args: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in ``cwd`` with ``given`` as its input; ``Refused`` if it takes longer than ``TIMEOUT``."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(args, cwd=cwd, env=env, input=given.encode(), capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{' '.join(args[:2])} took longer than {TIMEOUT:.0f} s") from error
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(args, done.returncode, out, err)


def git(*args: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run git without the repository's own hooks; the caller looks at the return code."""
    return command("git", *QUIET, *args, cwd=cwd, given=given)


def open_repository(path: str) -> Path:
    """Return the repository's real folder; ``Refused`` unless it is the top of one with a commit."""
    folder = Path(path).expanduser()
    if not folder.is_absolute() or not folder.is_dir():
        raise Refused(f"{path} is not the absolute path of a folder on this server")
    folder = folder.resolve()
    allowed = [Path(root).resolve() for root in os.environ.get("WFDASH_REPOSITORIES", "").split(os.pathsep) if root]
    if allowed and not any(folder.is_relative_to(root) for root in allowed):
        raise Refused(f"{path} is not below a folder named in WFDASH_REPOSITORIES")
    top = git("rev-parse", "--show-toplevel", cwd=folder)
    if top.returncode:
        raise Refused(f"{path} is not a git repository with a working tree: {last_line(top.stderr)}")
    if Path(top.stdout.strip()).resolve() != folder:
        raise Refused(f"{path} is only a folder inside the repository {top.stdout.strip()}: name that one")
    if git("rev-parse", "--verify", "-q", "HEAD", cwd=folder).returncode:
        raise Refused(f"{path} has no commit yet, so there is nothing to patch")
    return folder


def read_diff(folder: Path, diff: str) -> list[FileChange]:
    """Split a diff by file; ``Refused`` for damaged ones, binary files, symbolic links and submodules."""
    if found := MODE.search(diff):
        raise Refused(f"the patch makes a {'symbolic link' if found[1] == '120000' else 'submodule'}: do that by hand")
    stat = git("apply", "--numstat", "-z", "-", cwd=folder, given=diff)
    if stat.returncode:
        raise Refused(f"this is not a usable patch: {last_line(stat.stderr)}")
    rows = [row.split("\t", 2) for row in stat.stdout.split("\0") if row.count("\t") == 2]
    if binary := [path for added, _, path in rows if added == "-"]:
        raise Refused(f"the patch changes binary files, which nobody can review here: {', '.join(binary)}")
    pieces = [
        piece for piece in PIECE["diff --git " in diff].split(diff) if "\n" in piece and piece.startswith(("d", "--- "))
    ]
    if len(pieces) != len(rows):
        raise Refused(f"the patch names {len(rows)} files but has {len(pieces)} parts: make it with git diff")
    changes = zip(rows, pieces, strict=True)
    return [
        FileChange(path=path, added=int(plus), removed=int(minus), diff=piece) for (plus, minus, path), piece in changes
    ]


def check(folder: Path, changes: list[FileChange], diff: str) -> None:
    """``Refused``, naming the hunk, unless the diff applies to this working tree as it is."""
    tried = git("apply", "--check", "-", cwd=folder, given=diff)
    if tried.returncode:
        raise Refused(explain(tried.stderr, changes))


def explain(error: str, changes: list[FileChange]) -> str:
    """Turn git's ``patch failed: path:line`` into a sentence that names the hunk."""
    if not (place := PLACE.search(error)):
        return f"the patch does not apply: {last_line(error)}"
    text = next((change.diff for change in changes if change.path == place["path"]), "")
    heads = re.findall(r"^@@ -(\d+).*?@@", text, re.MULTILINE)
    number = heads.index(place["line"]) + 1 if place["line"] in heads else "?"
    return f"hunk {number} of {place['path']} (line {place['line']}) does not apply: the file reads differently there"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A worktree of the repository's HEAD in a temporary folder, removed again whatever happens."""
    with tempfile.TemporaryDirectory(prefix="wfdash-") as parent:
        tree = Path(parent).resolve() / "tree"
        try:
            made = git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD", cwd=folder)
            if made.returncode:
                raise Refused(f"no scratch worktree: {last_line(made.stderr)}")
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree), cwd=folder)
            git("worktree", "prune", cwd=folder)


def check_python(tree: Path, paths: list[str]) -> dict[str, str]:
    """Compile (and lint, if ruff is installed) those files; return check name -> complaints, empty when fine."""
    files = [path for path in paths if path.endswith((".py", ".pyi")) and (tree / path).is_file()]
    checks = {
        "compileall": ["-m", "compileall", "-q"],
        "ruff": ["-m", "ruff", "check", "--no-cache", "-q", "--output-format=concise"],
    }
    if not files:
        return {}
    results = {}
    for name, args in checks.items():
        if name == "compileall" or find_spec(name):
            done = command(sys.executable, *args, *(f"./{path}" for path in files), cwd=tree)
            results[name] = (done.stdout + done.stderr).strip() if done.returncode else ""
    return results


def apply_to(folder: Path, changes: list[FileChange], diff: str) -> None:
    """Apply the diff to that working tree, all of it or nothing, and look that it arrived."""
    check(folder, changes, diff)
    done = git("apply", "-", cwd=folder, given=diff)
    if done.returncode or git("apply", "--check", "--reverse", "-", cwd=folder, given=diff).returncode:
        raise Refused(f"git apply did not do it: {last_line(done.stderr) or 'the files are not as expected'}")


def try_out(patch: Patch) -> tuple[list[FileChange], dict[str, str]]:
    """Apply the patch in a scratch worktree; return what it changes and what ``check_python`` says of the result.

    ``Refused`` if it does not apply, to the last commit as well as to the files as they are now.
    """
    folder = open_repository(patch.repository)
    changes = read_diff(folder, patch.diff)
    check(folder, changes, patch.diff)
    with scratch(folder) as tree:
        apply_to(tree, changes, patch.diff)
        return changes, check_python(tree, [change.path for change in changes])


def apply(patch: Patch) -> Result:
    """Apply the patch to the repository itself, or say why nothing was changed."""
    try:
        folder = open_repository(patch.repository)
        apply_to(folder, read_diff(folder, patch.diff), patch.diff)
    except Refused as refusal:
        return Result(applied=False, summary=str(refusal))
    return Result(applied=True, summary=git("apply", "--stat", "-", cwd=folder, given=patch.diff).stdout)


def make_shop(folder: Path) -> None:
    """Create the demo's repository: a small shop with one commit, to which ``data/decimal.diff`` applies."""
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    author = ("-c", "user.name=wfdash", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false")
    fill = ("apply", "--index", str(DATA / "shop.diff"))
    for args in (("init", "-q", "-b", "main", "."), fill, (*author, "commit", "-q", "-m", "Open the shop")):
        done = git(*args, cwd=making)
        if done.returncode:
            raise Refused(f"the demo repository could not be made in {making}: {last_line(done.stderr)}")
    making.rename(folder)


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")
