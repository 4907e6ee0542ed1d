from __future__ import annotations

import subprocess

import pytest

from wfdash.examples import pychecks
from wfdash.examples.pychecks import check_python


def test_python_is_compiled_and_linted_and_the_rest_is_left_alone():
    assert check_python({"README.md": "import os"}) == {}
    assert "SyntaxError" in check_python({"broken.py": "def broken(:\n"})["compile"]
    checks = check_python({"unused.py": "import os\n", "fine.pyi": "x: int\n"})
    assert checks["compile"] == ""
    assert "unused.py:1" in checks["ruff"]
    assert "F401" in checks["ruff"]


@pytest.mark.parametrize("text", ["(" * 5000, "-" * 200_000 + "1", "x = \0", "a." * 100_000 + "b", "\ud800"])
def test_source_that_no_compiler_likes_is_a_complaint(text: str):
    assert check_python({"odd.py": text})["compile"] != ""


def test_a_check_that_hangs_is_a_complaint(monkeypatch: pytest.MonkeyPatch):
    def hang(*args: object, **kwargs: object) -> None:
        raise subprocess.TimeoutExpired("python", 60)

    monkeypatch.setattr(subprocess, "run", hang)
    assert check_python({"slow.py": ""})["compile"] == "the compiler gave up (exit 1)"


def test_more_files_than_are_checked_are_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pychecks, "MAX_FILES", 1)
    assert "1 more Python files" in check_python({"a.py": "", "b.py": ""})["not checked"]
