"""Rewriting of asserts in a fresh checkout, by two processes: it takes as long as collecting all tests does later."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def rewrite_beside(config: pytest.Config) -> None:
    """Begin a process that compiles the files of tests from the last one on, until it meets this one, which imports."""
    if sys.dont_write_bytecode:
        return
    multiprocessing.get_context("fork").Process(target=rewrite_backwards, args=(config,), daemon=True).start()


def rewrite_backwards(config: pytest.Config) -> None:
    """Compile the files of tests from the last to the first, until one has been compiled already."""
    folders = [config.rootpath / name for name in config.getini("testpaths")]
    files = (path for folder in folders for path in folder.rglob("test_*.py"))
    for path in sorted(files, reverse=True):
        if not compile_one(config, path):
            break


def compile_one(config: pytest.Config, path: Path) -> bool:
    """Compile a file as pytest would when it imports it; False if that has been done."""
    folder = rewrite.get_cache_dir(path)
    compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, compiled) is not None:
        return False
    folder.mkdir(exist_ok=True)
    digest, code = rewrite._rewrite_test(path, config)
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, compiled)
    return True
