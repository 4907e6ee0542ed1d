"""Which files were really synced between two moments: a library in front of libc's tells of every call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("syncs.c")

Syncs = dict[str, list[tuple[int, str]]]
"""Process id and file of each sync, by the name of the act during which it happened."""


def build_library(folder: Path) -> Path:
    """Compile the library. Without a compiler the tests are left out, in CI they fail."""
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None or not sys.platform.startswith("linux"):
        reason = "tracing syncs needs Linux and a C compiler (cc): install gcc"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    library = folder / "syncs.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    library.chmod(0o755)
    return library


def environment(library: Path, log: Path) -> dict[str, str]:
    """Return what makes a process tell of its syncs in ``log``, which anyone may write."""
    log.touch()
    log.chmod(0o666)
    return {"LD_PRELOAD": str(library), "SYNC_LOG": str(log)}


def play(log: Path, data: Path, env: Mapping[str, str]) -> Syncs:
    """Play the scenes in a process of their own and return what was synced during each."""
    everything = {**os.environ, "WFDASH_DATA": str(data), "DJANGO_SETTINGS_MODULE": "wfdash.settings", **env}
    command = [sys.executable, "-m", "tests.durability.scenes", str(log)]
    done = subprocess.run(command, env=everything, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return read_syncs(log)


def read_syncs(log: Path) -> Syncs:
    """Read the log: an act begins with ``> name`` and ends with ``<``, once its caller knows that it is done."""
    syncs: Syncs = {}
    act = ""
    for line in log.read_text().splitlines():
        mark, _, rest = line.partition(" ")
        if mark == ">":
            act, syncs[rest] = rest, []
        elif mark == "<":
            act = ""
        elif act:
            syncs[act].append((int(mark), rest))
    return syncs
