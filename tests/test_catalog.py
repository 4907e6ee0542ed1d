from __future__ import annotations

import logging
from pathlib import Path

import pytest

from wfdash.domain.errors import NotFound
from wfdash.engines import catalog

GOOD = """
from wfdash.workflow import Workflow

wf = Workflow("{name}", title="{title}")

@wf.step(start=True)
def only(message: int) -> int:
    return message
"""


@pytest.fixture(autouse=True)
def _fresh_catalog():
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()


@pytest.fixture
def serve(settings, tmp_path: Path):
    def write(**files: str) -> None:
        paths = []
        for name, text in files.items():
            path = tmp_path / f"{name}.py"
            path.write_text(text)
            paths.append(str(path))
        settings.WFDASH_APPS = []
        settings.WFDASH_WORKFLOWS = paths

    return write


def test_a_served_file_is_found_with_its_graph(serve) -> None:
    serve(mine=GOOD.format(name="mine", title="Mine"))
    entry = catalog.get("mine")
    assert entry.description.title == "Mine"
    assert [step.name for step in entry.description.steps] == ["only"]
    assert entry.source.endswith("mine.py")


def test_a_file_that_fails_to_import_is_reported_and_takes_nothing_else_down(serve, caplog, monkeypatch) -> None:
    # A command that ran in this process before says less.
    monkeypatch.setattr(logging.getLogger("wfdash.engines.catalog"), "filters", [])
    serve(broken="import nothing_of_that_name", mine=GOOD.format(name="mine", title="Mine"))
    assert [entry.name for entry in catalog.entries()] == ["mine"]
    (failure,) = catalog.failures()
    assert failure.source.endswith("broken.py")
    assert "nothing_of_that_name" in failure.traceback
    assert "No module named 'nothing_of_that_name'" in caplog.text


def test_a_definition_that_is_not_valid_is_reported(serve) -> None:
    serve(empty='from wfdash.workflow import Workflow\nwf = Workflow("empty")\n')
    assert catalog.entries() == []
    assert "empty" in catalog.failures()[0].error


def test_the_second_workflow_of_a_name_is_refused_and_the_first_stays(serve) -> None:
    serve(a=GOOD.format(name="same", title="First"), b=GOOD.format(name="same", title="Second"))
    assert catalog.get("same").description.title == "First"
    assert "already used" in catalog.failures()[0].error


def test_files_of_one_name_in_two_folders_do_not_meet(settings, tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        path = tmp_path / folder / "workflows.py"
        path.parent.mkdir()
        path.write_text(GOOD.format(name=folder, title=folder))
        paths.append(str(path))
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], paths
    assert {entry.name for entry in catalog.entries()} == {"a", "b"}


def test_an_unknown_name_is_not_found_and_what_was_meant_is_said(serve) -> None:
    serve(mine=GOOD.format(name="onboarding", title="Mine"))
    with pytest.raises(NotFound, match="No workflow named 'nope'"):
        catalog.get("nope")
    with pytest.raises(NotFound, match="Did you mean 'onboarding'"):
        catalog.get("onbording")


def test_the_shipped_examples_load(settings) -> None:
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = ["wfdash.examples"], []
    assert {entry.name for entry in catalog.entries()} >= {"patch_review", "expense_batch", "publish_article"}
    assert catalog.failures() == []


def test_the_workflow_with_which_programs_ask_people_is_loaded_unless_an_installation_forbids_it(settings) -> None:
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS, settings.WFDASH_ASK_PEOPLE = [], [], True
    assert catalog.get("ask_people").source in catalog.SHIPPED
    catalog.load.cache_clear()
    settings.WFDASH_ASK_PEOPLE = False
    assert catalog.find("ask_people") is None
