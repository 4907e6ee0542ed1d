"""A git repository as ``patch_review`` uses it: read a diff, try it in a scratch index, apply it.

Nothing here goes through a shell, every command has a timeout, and hooks of the repository never run. Until a patch
is approved, it exists in a scratch index only: no file of it is written, opened or executed.
``WFDASH_REPOSITORIES`` (folders, separated like ``PATH``) says which repositories may be named; empty means none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from checkpoints.records import frozen
from wfdash.examples.patches import FileChange, Patch, Result
from wfdash.examples.pychecks import check_python

DATA = Path(__file__).parent / "data"
TIMEOUT = 60.0
"""Seconds any one command may take."""
QUIET = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"),
    *("-c", "safe.bareRepository=explicit", "-c", "apply.whitespace=nowarn", "-c", "apply.ignoreWhitespace=no"),
)
PLACE = re.compile(r"patch failed: (?P<path>.+):(?P<line>\d+)$", re.MULTILINE)
MOST_FILES = 300
NO_FILE = "000000"
FILES = {"100644", "100755"}
"""Modes that a patched file may have, before and after; others are symbolic links and submodules."""
INHERITED = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT")
"""Environment variables passed on to git."""
PIECE = {True: re.compile(r"^(?=diff --git )", re.MULTILINE), False: re.compile(r"^(?=--- .*\n\+\+\+ )", re.MULTILINE)}


class Refused(ValueError):
    """The repository or the patch cannot be used; the message says which part and why."""


@frozen
class Scratch:
    """A patched index beside the repository, visible only to its ``git --cached``."""

    folder: Path
    env: Mapping[str, str]

    def git(self, *args: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Return the result of git on this index; the caller checks the return code."""
        return git(*args, cwd=self.folder, given=given, more=self.env)


def command(
    *args: str, cwd: Path, given: str = "", more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the result of a program in ``cwd`` with ``given`` as its input; ``Refused`` if it takes longer than
    ``TIMEOUT``.
    """
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env |= {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", **(more or {})}
    try:
        done = subprocess.run(
            args, cwd=cwd, env=env, input=given.encode(errors="replace"), capture_output=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{' '.join(args[:2])} took longer than {TIMEOUT:.0f} s") from error
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(args, done.returncode, out, err)


def git(
    *args: str, cwd: Path, given: str = "", more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Return the result of git without the repository's own hooks; the caller checks the return code."""
    return command("git", *QUIET, *args, cwd=cwd, given=given, more=more)


def open_repository(path: str) -> Path:
    """Return the repository's real folder; ``Refused`` unless it may be patched.

    It must be the top of a repository with a commit, below a folder of ``WFDASH_REPOSITORIES``. The refusal is the same
    for every folder outside of those, so that it does not reveal which folders exist.
    """
    roots = [Path(root).resolve() for root in os.environ.get("WFDASH_REPOSITORIES", "").split(os.pathsep) if root]
    try:
        folder = Path(path).resolve() if path.startswith("/") else None
    except (OSError, RuntimeError, ValueError):
        folder = None
    if folder is None or not any(folder.is_relative_to(root) for root in roots):
        raise Refused(f"{path} is not an allowed repository: choose one below WFDASH_REPOSITORIES")
    if not folder.is_dir():
        raise Refused(f"{path} is not a folder on this server")
    # Before git runs: a folder of tracked files can be a bare repository, whose configuration names programs to run.
    if not (folder / ".git").exists():
        raise Refused(f"{path} is not the top of a git repository with a working tree")
    top = git("rev-parse", "--show-toplevel", cwd=folder)
    if top.returncode or Path(top.stdout.strip()).resolve() != folder:
        raise Refused(f"{path} is not the top of a git repository with a working tree")
    if git("rev-parse", "--verify", "-q", "HEAD", cwd=folder).returncode:
        raise Refused(f"{path} has no commit yet, so there is nothing to patch")
    return folder


def read_diff(folder: Path, diff: str) -> list[FileChange]:
    """Return a diff by file; ``Refused`` for damaged ones and for binary files, which cannot be reviewed here."""
    rows = _line_counts(folder, diff)
    if binary := [path for added, _, path in rows if added == "-"]:
        raise Refused(f"the patch changes binary files, which cannot be reviewed here: {', '.join(binary)}")
    pieces = [
        piece for piece in PIECE["diff --git " in diff].split(diff) if "\n" in piece and piece.startswith(("d", "--- "))
    ]
    if len(rows) > MOST_FILES:
        raise Refused(f"the patch changes {len(rows)} files: split it, the limit is {MOST_FILES}")
    if len(pieces) != len(rows):
        raise Refused(f"the patch names {len(rows)} files but has {len(pieces)} parts: make it with git diff")
    # A part may contain several files or, where git skips it, none: its findings would be about another file.
    if any(_line_counts(folder, piece) != [row] for row, piece in zip(rows, pieces, strict=True)):
        raise Refused("the patch has parts that are not of one file each: make it with git diff")
    if odd := [path for _, _, path in rows if not path.isprintable()]:
        raise Refused(f"the patch names a file with characters that cannot be shown: {odd[0]!a}")
    changes = zip(rows, pieces, strict=True)
    return [
        FileChange(path=path, added=int(plus), removed=int(minus), diff=piece) for (plus, minus, path), piece in changes
    ]


def _line_counts(folder: Path, diff: str) -> list[list[str]]:
    """Return added lines, removed lines and path of each file of a diff, as git counts them."""
    stat = git("apply", "--numstat", "-z", "-", cwd=folder, given=diff)
    if stat.returncode:
        raise Refused(f"this is not a usable patch: {last_line(stat.stderr)}")
    return [row.split("\t", 2) for row in stat.stdout.split("\0") if row.count("\t") == 2]


def check(folder: Path, changes: list[FileChange], diff: str) -> None:
    """Raise ``Refused``, naming the hunk, unless the diff applies to this working tree."""
    tried = git("apply", "--check", "-", cwd=folder, given=diff)
    if tried.returncode:
        raise Refused(explain(tried.stderr, changes))


def explain(error: str, changes: list[FileChange]) -> str:
    """Return git's ``patch failed: path:line`` as a sentence that names the hunk."""
    if not (place := PLACE.search(error)):
        return f"the patch does not apply: {last_line(error)}"
    text = next((change.diff for change in changes if change.path == place["path"]), "")
    heads = re.findall(r"^@@ -(\d+).*?@@", text, re.MULTILINE)
    number = heads.index(place["line"]) + 1 if place["line"] in heads else "?"
    return f"hunk {number} of {place['path']} (line {place['line']}) does not apply: the file reads differently there"


@contextmanager
def scratch(folder: Path, diff: str) -> Iterator[Scratch]:
    """Yield the repository's HEAD with the diff applied, in an index of its own; ``Refused`` if it does not apply.

    Index and new objects are in a temporary folder, removed in any case: the repository is only read.
    """
    objects = git("rev-parse", "--git-path", "objects", cwd=folder).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="wfdash-") as parent:
        (Path(parent) / "objects").mkdir()
        env = {
            "GIT_INDEX_FILE": f"{parent}/index",
            "GIT_OBJECT_DIRECTORY": f"{parent}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((folder / objects).resolve()),
        }
        index = Scratch(folder=folder, env=env)
        for args, given in ((("read-tree", "HEAD"), ""), (("apply", "--cached", "-"), diff)):
            done = index.git(*args, given=given)
            if done.returncode:
                raise Refused(f"the patch does not apply to the last commit: {last_line(done.stderr)}")
        yield index


def changed_blobs(index: Scratch) -> dict[str, str]:
    """Return path -> blob id of every file that the patch adds or changes, as git sees it.

    ``Refused`` if anything but a plain file is added, changed or removed: the text of a patch can write a mode in many
    ways, git's index knows the result.
    """
    raw = index.git("diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", "-z", "HEAD").stdout
    parts = raw.split("\0")
    blobs = {}
    for entry, path in zip(parts[0::2], parts[1::2], strict=False):
        before, after, _, blob, _ = entry.removeprefix(":").split(" ")
        if odd := {before, after} - FILES - {NO_FILE}:
            kind = "symbolic link" if "120000" in odd else "submodule"
            raise Refused(f"the patch touches {path}, a {kind}: make this change manually")
        if after != NO_FILE:
            blobs[path] = blob
    return blobs


def read_sources(index: Scratch, blobs: Mapping[str, str]) -> dict[str, str]:
    """Return path -> text of the Python files among those, read from git's objects."""
    python = {path: blob for path, blob in blobs.items() if path.endswith((".py", ".pyi"))}
    return {path: index.git("cat-file", "blob", blob).stdout for path, blob in python.items()}


def apply_to(folder: Path, changes: list[FileChange], diff: str) -> None:
    """Apply the diff to that working tree, all of it or nothing, and verify the result."""
    check(folder, changes, diff)
    done = git("apply", "-", cwd=folder, given=diff)
    if done.returncode or git("apply", "--check", "--reverse", "-", cwd=folder, given=diff).returncode:
        raise Refused(f"git apply did not do it: {last_line(done.stderr) or 'the files are not as expected'}")


def try_out(patch: Patch) -> tuple[list[FileChange], dict[str, str]]:
    """Apply the patch in a scratch index; return its changes and the complaints of ``check_python`` about the result.

    ``Refused`` if it does not apply, both to the last commit and to the current files.
    """
    folder, changes = _usable(patch)
    with scratch(folder, patch.diff) as index:
        return changes, check_python(read_sources(index, changed_blobs(index)))


def apply(patch: Patch) -> Result:
    """Apply the patch to the repository itself and return the result, which may say why nothing was changed."""
    try:
        folder, changes = _usable(patch)
        with scratch(folder, patch.diff) as index:
            changed_blobs(index)
        apply_to(folder, changes, patch.diff)
    except Refused as refusal:
        return Result(applied=False, summary=str(refusal))
    return Result(applied=True, summary=git("apply", "--stat", "-", cwd=folder, given=patch.diff).stdout)


def _usable(patch: Patch) -> tuple[Path, list[FileChange]]:
    """Return the repository and what the patch changes in it; ``Refused`` unless it applies to its files."""
    folder = open_repository(patch.repository)
    changes = read_diff(folder, patch.diff)
    check(folder, changes, patch.diff)
    return folder, changes


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
    """Return the last line that is not blank."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")
