from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("agent_framework")

from checkpoints.agent_framework import run_of_workflow, stored_id, workflow_id
from checkpoints.limits import problem_of

NAMES = st.text(st.sampled_from("ab:%\0\ud8003A "), max_size=6) | st.text(max_size=300)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_two_things_never_share_a_place(one: tuple[str, str], other: tuple[str, str]) -> None:
    for place in (run_of_workflow, stored_id):
        assert (place(*one) == place(*other)) is (one == other)


@given(NAMES, NAMES)
def test_every_name_has_a_place_that_every_storage_keeps(scope: str, name: str) -> None:
    assert problem_of("run id", run_of_workflow(scope, name)) == ""
    assert problem_of("checkpoint id", stored_id(scope, name)) == ""
    assert problem_of("workflow name", workflow_id(name)) == ""
