"""A real process dies in the middle of an agent: no tool is repeated, and no approval is lost or asked for twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai")

pytestmark = pytest.mark.process
APPROVAL = "1042, 89.9, Desk lamp arrived broken · refund"
UNKNOWN = "Did 'refund' succeed (order 1042, amount 89.9, reason “Desk lamp arrived broken”)?"


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(("look_up begins", "refund done"), id="in tools"),
        pytest.param(("model 1", "model 2", "refund begins", "model 3"), id="elsewhere", marks=pytest.mark.nightly),
    ],
)
def test_wherever_the_process_of_an_agent_is_killed_its_run_ends_as_if_it_had_not_been(
    points: tuple[str, ...], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.agents.dying", str(tmp_path), *points]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    stories = {story["point"]: story for story in map(json.loads, ran.stdout.splitlines())}
    assert tuple(stories) == points
    for point, story in stories.items():
        did = story["did"]
        assert story["killed"] == 1, story
        assert story["output"]["refunded"] == [1042], story
        assert did.count("refund done") == 1, story
        # What had begun and was not recorded is begun again: a turn, a tool that may be repeated, never ``once``.
        repeated = {point} if point != "refund done" else set()
        assert {what for what in did if did.count(what) > 1} == repeated, story
        assert story["asked"] == ([APPROVAL, UNKNOWN] if point.startswith("refund") else [APPROVAL]), story


@pytest.mark.parametrize(
    ("library", "package"),
    [("openai", "agents"), ("adk", "google.adk"), pytest.param("pydantic", "fastmcp", marks=pytest.mark.nightly)],
)
def test_three_approved_calls_of_an_mcp_server_are_made_three_times_whatever_is_killed(
    library: str, package: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    command = [sys.executable, "-m", "tests.agents.dying_mcp", str(tmp_path), library]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    story = json.loads(ran.stdout)
    assert story["output"] == "done", story
    assert story["killed"] == 2, "in the middle of a call, and in a turn of the model"
    deletes = [f"f{number} · delete_file" for number in range(3)]
    assert story["asked"] == [*deletes[:2], "Did 'delete_file' succeed (name f1)?", deletes[2]]
    effects = [what for what in story["ledger"] if what != "server"]
    assert effects == ["list", "delete", "f0", "delete", "f1", "delete", "f2"], story
    assert story["ledger"].count("server") > 3, "each process connects to the server again"
    assert {what for what in story["did"] if story["did"].count(what) > 1} == {"model 3"}
