"""Rewriting of asserts, shared by workers that begin together in a fresh checkout.

All of them collect every file in the same order, so each would find that no other has compiled the next one yet: eight
seconds of a processor per worker. Instead each compiles its share beforehand, and reads the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def rewrite_share(config: pytest.Config) -> None:
    """Compile this worker's share of the files, where several workers are to run all of them."""
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    folders = [config.rootpath / name for name in config.getini("testpaths")]
    files = sorted(path for folder in folders for path in folder.rglob("test_*.py"))
    for path in files[number::count]:
        compile_one(config, path)


def compile_one(config: pytest.Config, path: Path) -> None:
    """Compile a file as pytest would when it imports it, unless that has been done."""
    folder = rewrite.get_cache_dir(path)
    compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, compiled) is None:
        folder.mkdir(exist_ok=True)
        digest, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, compiled)
