"""``wfdash check`` says everything that is wrong, with file and line, and touches no data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wfdash import cli
from wfdash.installation import workflow_sources

GOOD = """
from wfdash.workflow import Workflow

good = Workflow("good", title="Good")

@good.step(start=True)
async def one(n: int) -> int:
    return n
"""
BAD = """
from wfdash.workflow import Workflow

bad = Workflow("bad")

@bad.step(start=True)
async def one(n: int) -> int:
    return n

@bad.step(after="onee")
async def two(n: int) -> open.__class__:
    return n

empty = Workflow("empty")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(workflow_sources, "_meant", {})
    monkeypatch.delenv("WFDASH_DATA", raising=False)
    (tmp_path / "good.py").write_text(GOOD)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_valid_workflow_is_named_and_nothing_is_left_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "good.py"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("good.py: good is valid, 1 step, version ")
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["good.py"]


def test_all_problems_of_all_sources_come_at_once_with_file_and_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.py").write_text(BAD)
    (folder / "broken.py").write_text("from wfdash.workflow import Workflow\n\nx = (\n")
    (folder / "fails.py").write_text("import good\n\n\nraise ValueError('no key')\n")
    assert cli.main(["check", "good.py", "bad.py", "broken.py", "fails.py", "nothing.py"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "nothing.py does not exist"
    assert "bad.py:10: step 'two' comes after 'onee', which is no step of 'bad': did you mean 'one'?" in lines
    assert "bad.py:14: workflow 'empty' has no step with start=True" in lines
    assert any(line.startswith("broken.py:3: SyntaxError") for line in lines)
    assert "fails.py:4: ValueError: no key" in lines
    assert any(line.startswith("good.py: good is valid") for line in lines)
    assert lines[-1].endswith("problems")
    assert captured.err == ""


def test_programs_get_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.py").write_text(BAD)
    assert cli.main(["check", "--json", "."]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in report["workflows"]] == ["good"]
    assert {one["file"] for one in report["problems"]} == {"bad.py"}
    assert {one["line"] for one in report["problems"]} >= {10, 14}


def test_nothing_to_check_and_a_file_without_workflows_are_errors(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WFDASH_WORKFLOWS", raising=False)
    monkeypatch.delenv("WFDASH_APPS", raising=False)
    assert cli.main(["check"]) == 2
    (folder / "plain.py").write_text("x = 1\n")
    assert cli.main(["check", "plain.py"]) == 1
    assert "No workflow found" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["Refunds", "1st", "a b", "..", "x" * 41])
def test_a_name_that_no_project_can_have_is_refused(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["new", name]) == 2
    assert "is no name for a project" in capsys.readouterr().err


def test_a_new_project_never_overwrites(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "workflows.py").write_text("kept")
    assert cli.main(["new", "mine"]) == 1
    assert "not empty" in capsys.readouterr().err
    assert (folder / "mine" / "workflows.py").read_text() == "kept"
    assert cli.main(["new", "other-one"]) == 0
    assert cli.main(["check", "other-one/workflows.py"]) == 0
    assert "other-one/workflows.py: other-one is valid, 2 steps" in capsys.readouterr().out


LOOPS = """
from wfdash.workflow import Context, Workflow

loops = Workflow("loops")

@loops.step(start=True, after="late")
async def early(n: int, ctx: Context) -> FIRST:
    await ctx.call(len, "abc")
    return n

@loops.step(after=early, when=None)
def late(n: int) -> int:
    return n

@loops.step(after=early)
def beside(n) -> str:
    return "an end of its own"

async def asks(ctx: Context) -> None: ...
"""
CALL = 'ctx.call(len, "abc")'


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("FIRST", "int", True),
        ("FIRST", "int | str", False),
        ("when=None", "when=bool", False),
        *((CALL, one, False) for one in ("ctx.sleep(60)", "ctx.receive('go')", "ctx.ask('Again?')", "asks(ctx)")),
    ],
)
def test_a_loop_that_nothing_leaves_is_a_problem_and_a_message_without_a_type_a_note(
    folder: Path, old: str, new: str, found: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "loops.py").write_text(LOOPS.replace(old, new).replace("FIRST", "int"))
    assert cli.main(["check", "loops.py"]) == found
    *problems, note, _, _ = capsys.readouterr().out.splitlines()
    assert note.startswith("loops.py:15: note: step 'beside' does not say what 'n' is, so it takes any JSON: ")
    named = "loops.py:6: step 'early' is in a loop that never ends (early, late): give an edge of it a when=, "
    assert problems == [f"{named}or let a step return another type to end with"] * found


def test_a_test_of_a_decisions_truth_is_a_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GOOD.replace(
        "n: int) -> int:\n    return n", "n: int, ctx: Context) -> str:\n    if await ctx.ask(Approval("
    )
    text = text.replace("import Workflow", "import Approval, Context, Workflow")
    (folder / "good.py").write_text(f'{text}subject="Pay?")):\n        return "paid"\n    return "rejected"\n')
    assert cli.main(["check", "good.py"]) == 1
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first == "good.py:8: step 'one' tests whether a Decision is true: say .approved"
    assert second.startswith("good.py: good is valid")
