"""Workflow files read again in the same process: what changed is served, what fails keeps its last good version."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from wfdash.engines import catalog
from wfdash.installation.workflow_sources import author_modules, is_code_of

SOURCE = """
from wfdash.workflow import Workflow
from {helper} import SAID

wf = Workflow("{name}")

@wf.step(start=True)
def only(message: int) -> str:
    return SAID
"""
MORE = """
@wf.step(after=only)
def more(said: str) -> str:
    return said
"""


class Files:
    """A folder with a served file and the helper that it imports."""

    def __init__(self, folder: Path) -> None:
        self.helper_name = f"helper_{uuid4().hex}"
        self.file, self.helper = folder / "flow.py", folder / f"{self.helper_name}.py"
        self.write()

    def write(self, *, more: str = "", name: str = "flow", said: str = "'one'") -> None:
        self.file.write_text(SOURCE.format(helper=self.helper_name, name=name) + more)
        self.helper.write_text(f"SAID = {said}\n")


@pytest.fixture
def files(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Files(tmp_path)
    settings.WFDASH_APPS = []
    settings.WFDASH_WORKFLOWS = [str(made.file)]
    catalog.load.cache_clear()
    assert catalog.load().failures == []
    yield made
    catalog.load.cache_clear()


def said() -> str:
    return catalog.get("flow").definition.graph.nodes["only"].function(1)


def test_a_changed_file_is_served_and_its_change_is_said(files):
    files.write(more=MORE)
    found = catalog.reload()
    assert found.words[0].startswith("flow: ")
    assert "more" in found.words[0]
    assert [step.name for step in catalog.get("flow").description.steps] == ["only", "more"]


def test_a_changed_helper_counts_as_a_change(files):
    assert said() == "one"
    files.helper.write_text("SAID = 'two'\n")
    catalog.reload()
    assert said() == "two"


def test_nothing_changed_is_no_change(files):
    assert catalog.reload().words == ()


def test_what_does_not_load_keeps_its_last_good_version_and_names_the_line(files):
    for where, broken in ((files.file, "\n\ndef (:\n"), (files.helper, "SAID = \n")):
        before = where.read_text()
        where.write_text(broken)
        (failure,) = catalog.reload().failures
        assert failure.kept == ("flow",)
        assert failure.where == f"{where}:{3 if where == files.file else 1}"
        assert said() == "one"
        assert all(name in sys.modules for name in (files.helper_name,))
        where.write_text(before)
        assert catalog.reload().failures == ()


def test_a_graph_that_is_not_valid_keeps_the_last_good_one(files):
    files.write(more=MORE.replace("after=only", "after='nothing'"))
    (failure,) = catalog.reload().failures
    assert (failure.kept, said()) == (("flow",), "one")


def test_a_workflow_that_is_gone_is_gone(files):
    files.write(name="other")
    assert set(catalog.reload().words) == {"flow was removed", "other was added"}
    assert catalog.find("flow") is None


def test_what_runs_ends_with_the_code_it_began_with(files):
    began = catalog.get("flow").definition
    files.write(said="'two'")
    catalog.reload()
    assert began.graph.nodes["only"].function(1) == "one"
    assert catalog.get("flow").definition is not began


def test_modules_of_python_and_of_wfdash_are_not_read_again(files):
    names = author_modules([files.file.parent, Path(catalog.__file__).resolve().parents[1]])
    assert files.helper_name in names
    assert not {"wfdash.engines.catalog", "checkpoints.records", "django"} & set(names)


@pytest.mark.parametrize("times", [1, 20])
def test_saving_again_and_again_serves_the_latest(files, times):
    for number in range(times):
        files.helper.write_text(f"SAID = '{number:02}'\n")  # as many bytes, within a second
        catalog.reload()
        assert said() == f"{number:02}"


def test_installed_code_is_an_author_s_only_in_the_package_that_is_served(monkeypatch: pytest.MonkeyPatch):
    assert is_code_of("/home/ada/graphs/steps.py", "graph.py")
    assert not is_code_of(json.__file__, "graph.py")
    assert not is_code_of("/usr/lib/python3/dist-packages/agents/factory.py", "graph.py")
    assert is_code_of(json.decoder.__file__, "json")
