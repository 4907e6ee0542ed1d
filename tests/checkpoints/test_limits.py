from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.errors import InvalidValue
from checkpoints.file import FileStorage
from checkpoints.limits import LIMITS, check, cleaned, findable, is_storable, problem_of
from checkpoints.manager import CheckpointManager
from wfdash.workflow import Workflow
from wfdash.workflow.errors import InvalidWorkflow

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


@given(ANY)
def test_only_text_that_every_database_holds_passes(text: str) -> None:
    odd = any(char == "\0" or "\ud800" <= char <= "\udfff" or char == "\uffff" for char in text)
    assert is_storable(text) is not odd
    findable(text).encode()
    cleaned(text).encode()
    assert "\0" not in findable(text) + cleaned(text)


@pytest.mark.parametrize("odd", [7, ("a", "b")])
async def test_an_id_that_is_no_text_is_refused_in_words(odd: Any, tmp_path: Path) -> None:
    async with FileStorage(tmp_path / "runs.sqlite3") as storage:
        for asked in (storage.get_latest(odd), storage.delete_run(odd), CheckpointManager(storage).restore(odd, odd)):
            with pytest.raises(InvalidValue, match="an id is text"):
                await asked


@pytest.mark.parametrize("what", LIMITS)
def test_each_entry_names_itself_its_limit_and_a_remedy(what: str) -> None:
    limit = LIMITS[what]
    check(what, "x" * limit.most)
    with pytest.raises(InvalidValue) as refused:
        check(what, "x" * (limit.most + 1))
    assert str(refused.value).startswith(f"{what}: give {limit.least} to {limit.most} characters")
    assert str(refused.value).endswith(limit.remedy)
    assert isinstance(refused.value, ValueError)
    assert "must be text, not int" in problem_of(what, 7)
    assert "NUL" in problem_of(what, "a\x00")


@pytest.mark.parametrize("name", ["w" * 201, "", "a\x00b", "\ud800"])
def test_a_workflow_with_a_name_that_cannot_be_stored_is_not_valid(name: str) -> None:
    with pytest.raises(InvalidWorkflow, match="workflow name"):
        Workflow(name)


def test_a_title_that_cannot_be_stored_is_not_valid() -> None:
    with pytest.raises(InvalidWorkflow, match="workflow title"):
        Workflow("fine", title="not\x00fine")


def test_a_step_name_that_is_too_long_is_not_valid() -> None:
    flow = Workflow("fine")
    for name in ("s" * 201, "a\x00b"):
        with pytest.raises(InvalidWorkflow, match="step name"):
            flow.step(start=True, name=name)(lambda: 1)


def test_a_step_whose_whole_path_is_too_long_is_named_when_the_workflow_is_built() -> None:
    inner, outer = Workflow("inner"), Workflow("outer")

    @inner.step(start=True, name="i" * 120)
    async def work(message: int) -> int:
        return message

    outer.sub("o" * 120, inner, start=True)
    with pytest.raises(InvalidWorkflow, match="step name: give 1 to 200 characters, not 241"):
        _ = outer.graph


def test_a_blank_name_is_refused_as_blank() -> None:
    with pytest.raises(InvalidWorkflow, match="step name: must not be blank"):
        Workflow("blank").step(name=" ", start=True)(lambda: None)
