"""Checks of Python source text that never import, run or open anything of the tree it came from.

The text goes to the standard input of a program that starts in an empty folder: nothing beside it can shadow a module
or configure a linter.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

TIMEOUT = 60.0
"""Seconds that one check of all files may take."""
MAX_FILES = 200
"""Files that are checked; the complaints say how many were not."""
LINTS = "E4,E7,E9,F"
"""Ruff's rules for errors in any project; others depend on files beside the checked one."""
COMPILE = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
for path, text in json.load(sys.stdin).items():
    try:
        compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        print(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        print(f"{path}: cannot be compiled: {type(error).__name__} {error}")
"""
"""Run by ``python -I -S``: isolated from the environment, the current folder and installed packages."""


def check_python(sources: Mapping[str, str]) -> dict[str, str]:
    """Return check name -> complaints (empty: none) for Python sources by path; ``{}`` if there is no Python.

    ``compile`` looks at the syntax; ``ruff`` lints where it is installed.
    """
    python = {path: text for path, text in sources.items() if path.endswith((".py", ".pyi"))}
    if not python:
        return {}
    checked = dict(list(python.items())[:MAX_FILES])
    results = {"compile": _compile(checked)}
    if ruff := find_ruff():
        results["ruff"] = _lint(ruff, checked)
    if more := len(python) - len(checked):
        results["not checked"] = f"{more} more Python files: only the first {MAX_FILES} are checked"
    return results


def find_ruff() -> Path | None:
    """Return ruff's program as installed beside this Python, None if it is not."""
    program = Path(sysconfig.get_path("scripts")) / "ruff"
    return program if program.is_file() else None


def _compile(sources: Mapping[str, str]) -> str:
    done = _run([sys.executable, "-I", "-S", "-c", COMPILE], json.dumps(sources))
    return done.stdout.strip() if done.returncode == 0 else f"the compiler gave up (exit {done.returncode})"


def _lint(ruff: Path, sources: Mapping[str, str]) -> str:
    options = ["check", "--isolated", "--no-cache", "-q", "--output-format=concise", f"--select={LINTS}"]
    found = [_run([str(ruff), *options, f"--stdin-filename={path}", "-"], text) for path, text in sources.items()]
    return "\n".join((done.stdout + done.stderr).strip() for done in found if done.returncode)


def _run(command: list[str], text: str) -> subprocess.CompletedProcess[str]:
    """Return the result of a program run in an empty folder, without this process's environment; a timeout is a
    complaint.
    """
    with tempfile.TemporaryDirectory(prefix="wfdash-") as empty:
        try:
            done = subprocess.run(
                command,
                cwd=empty,
                env={"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
                input=text.encode(errors="replace"),
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, f"took longer than {TIMEOUT:.0f} s", "")
    out, err = (part.decode(errors="replace") for part in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(command, done.returncode, out, err)
