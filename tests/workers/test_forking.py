"""Tests by several workers: what one runs, and what becomes of one that ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.workers.forking import Distribution
from tests.workers.grouping import group_of

ROOT = Path(__file__).resolve().parents[2]
SHARED = """
import os

import pytest


@pytest.fixture(scope="module")
def worker(request, tmp_path_factory):
    yield request.config.workerinput["workerid"]
    print("the module is over")


@pytest.mark.parametrize("number", range(4))
def test_of_this_file(worker, number, tmp_path):
    assert tmp_path.parent.name == worker
    print("ran", worker, os.getpid())
    assert not os.environ["SHOWN"]
"""
DYING = """
import os

import pytest


@pytest.mark.parametrize("number", range(5))
def test_that_may_die(number):
    if number == 2:
        os._exit(3)


def test_that_fails():
    print("printed before")
    assert "said" == "heard"


def test_that_warns():
    import warnings

    warnings.warn("careful")
"""

LEAVING = """
import threading


def test_that_leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
"""


def run_pytest(folder: Path, *arguments: str, **env: str) -> str:
    """Return what pytest prints of a folder's tests, which know nothing of Django and are run by workers."""
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", folder, "-p", "tests.workers.forking"]
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, "-W", "error", *arguments, folder],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return f"{done.stdout}{done.stderr}status {done.returncode}"


def test_each_group_is_run_by_the_worker_that_began_it_and_groups_in_order() -> None:
    rest, first, second = Distribution(["a", "b", "a", "c", "b"]), deque[int](), deque[int]()
    assert [rest.next_of(worker) for worker in (first, second, first, first, second, second)] == [0, 1, 2, 3, 4, None]


def test_tests_that_share_a_server_are_of_one_group() -> None:
    def group(name: str, *fixtures: str) -> str:
        item: Any = SimpleNamespace(nodeid=name, name=name, fixturenames=fixtures, get_closest_marker=lambda mark: None)
        return group_of(item)

    assert group("a.py::one", "shared_demo") == group("c.py::one", "shared_demo") == "shared_demo"
    assert group("b.py::one") == group("b.py::two") == "b.py"


def test_a_file_is_run_by_one_worker_and_all_is_reported_as_without_workers(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(SHARED)
    said = run_pytest(tmp_path, "-n", "2", "-rA", SHOWN="")
    ran = re.findall(r"ran (\w+) (\d+)", said)
    workers = {name for name, _ in ran}
    # One worker runs both files where the other begins too late.
    assert workers <= {"gw0", "gw1"}
    assert (len(ran), len(set(ran))) == (8, len(workers))
    assert "8 passed" in said
    assert said.count("the module is over") == 2


def test_a_worker_that_ends_fails_its_test_and_another_runs_the_others(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text(DYING)
    said = run_pytest(tmp_path, "-n", "2", "--durations", "3")
    assert "3 failed, 4 passed" in said
    # Whichever asked first.
    assert re.search("worker gw[01] ended with status 3 in this test", said)
    assert re.search(r"FAILED .*test_dying.py::test_that_may_die\[2\]", said)
    assert "EOFError" not in said
    assert "printed before" in said
    assert "UserWarning: careful" in said
    assert said.endswith("status 1")


def test_no_more_tests_are_run_after_as_many_failures_as_were_allowed(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py", "test_three.py"):
        (tmp_path / name).write_text(SHARED)
    said = run_pytest(tmp_path, "-n", "1", "--maxfail", "2", SHOWN="yes")
    # One more has begun when the second failure is heard of.
    assert re.search(r"stopping after [23] failures", said)
    assert re.search(r"[23] failed in", said)


def test_a_worker_that_does_not_end_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_leaving.py").write_text(LEAVING)
    (tmp_path / "conftest.py").write_text("from tests.workers import forking\n\nforking.STOP_SECONDS = 0.3\n")
    said = run_pytest(tmp_path, "-n", "1")
    assert "not ended after their last test, because of what it left: gw0" in said
    assert said.endswith("status 1")
