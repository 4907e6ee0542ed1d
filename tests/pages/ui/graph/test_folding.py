"""Sub-workflows are one step until someone looks inside."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from tests.pages.runs.test_timeline import at, move
from tests.pages.ui.graph.test_graph import describe
from wfdash.contract import Description
from wfdash.pages.runs.graph import draw
from wfdash.pages.runs.intervals import intervals_by_state
from wfdash.pages.ui.graph import ALL, fold, layout
from wfdash.queries import count_states

NAMES = ["read", "part/a", "part/b", "part/deep/c", "pay"]
EDGES = [("read", "part/a"), ("part/a", "part/b"), ("part/b", "part/deep/c"), ("part/deep/c", "pay")]
PARENTS = {"part/a": "part", "part/b": "part", "part/deep/c": "part/deep"}


def graph() -> Description:
    return describe(NAMES, EDGES, PARENTS)


def link(**changes: str) -> str:
    return f"?{urlencode(changes)}"


def test_a_folded_sub_workflow_is_one_step_between_its_neighbours() -> None:
    folded = fold(graph())
    assert [step.name for step in folded.description.steps] == ["read", "pay", "part"]
    assert [(edge.source, edge.target) for edge in folded.description.edges] == [("read", "part"), ("part", "pay")]
    assert folded.names["part/deep/c"] == "part"
    assert folded.folded == {"part"}


def test_what_is_open_shows_its_steps_and_what_is_folded_inside() -> None:
    folded = fold(graph(), {"part"})
    drawn = layout(folded.description)
    assert {node.name for node in drawn.nodes} == {"read", "part/a", "part/b", "part/deep", "pay"}
    assert [group.name for group in drawn.groups] == ["part"]
    assert fold(graph(), {ALL}).folded == frozenset()


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*NAMES, "x", "x/y"]), max_size=5), st.sets(st.just("x"))
)
def test_whatever_the_parents_are_every_step_is_drawn_as_one_that_is_there(
    parents: dict[str, str], opened: set[str]
) -> None:
    folded = fold(describe(NAMES, EDGES, parents), opened)
    kept = {step.name for step in folded.description.steps}
    assert set(folded.names.values()) <= kept
    assert all(edge.source in kept and edge.target in kept for edge in folded.description.edges)


def test_the_graph_of_a_run_counts_what_is_folded_and_leads_to_steps() -> None:
    moves = [move("read", "running", 0), move("read", "done", 2)]
    moves += [
        move(f"part/{name}", state, 2 + n, name)
        for n, state in enumerate(("running", "done"))
        for name in ("a", "b", "deep/c")
    ]
    moves += [
        move("pay", "running", 4),
        move("pay", "failed", 5),
        move("pay", "retrying", 5),
        move("pay", "running", 9),
    ]
    drawn: Any = draw(graph(), moves, count_states(moves), intervals_by_state(moves, at(10)), link=link, chosen="pay")
    nodes = {node.name: node for node in drawn.nodes}
    assert (nodes["part"].counts, nodes["part"].state, nodes["part"].folded) == ("3/3", "done", True)
    assert (nodes["read"].note, nodes["pay"].note) == ("2.0 s", "6.0 s · 1 retry")
    assert (nodes["read"].href, nodes["part"].href) == ("?step=read", "?unfold=part&step=")
    assert nodes["pay"].chosen
    assert {(edge.source, edge.target) for edge in drawn.edges if edge.travelled} == {("read", "part"), ("part", "pay")}


def test_an_open_sub_workflow_can_be_folded_again() -> None:
    drawn = draw(graph(), [], {}, {}, link=link, opened=("part", "part/deep"))
    assert {group.name: group.address for group in drawn.groups} == {
        "part": "?unfold=part%2Fdeep",
        "part/deep": "?unfold=part",
    }
