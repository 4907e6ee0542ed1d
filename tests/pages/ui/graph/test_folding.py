"""Sub-workflows are one step until someone looks inside."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from tests.pages.runs.test_timeline import at, move
from tests.pages.ui.graph.test_graph import describe, touch
from wfdash.contract import Description, EdgeInfo
from wfdash.queries.step_states import count_states
from wfdash.web.pages.runs.state import draw
from wfdash.web.pages.runs.timeline import intervals_by_state
from wfdash.web.pages.ui.graph import ALL, draw_definition, fold, layout, opened_in

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
    moves += [move("pay", *turn) for turn in (("running", 4), ("failed", 5), ("retrying", 5), ("running", 9))]
    drawn: Any = draw(graph(), moves, count_states(moves), intervals_by_state(moves, at(10)), link=link, chosen="pay")
    nodes = {node.name: node for node in drawn.nodes}
    assert (nodes["part"].counts, nodes["part"].state, nodes["part"].folded) == ("3/3", "done", True)
    assert (nodes["read"].note, nodes["pay"].note) == ("2.0 s", "6.0 s · 1 retry")
    assert (nodes["read"].href, nodes["part"].href) == ("?step=read", "?unfold=part&step=")
    assert nodes["pay"].chosen
    assert [nodes[name].words for name in ("pay", "part")] == [
        "Pay 6.0 s · 1 retry: running",
        "Part 1.0 s 3/3 (a sub-workflow): done",
    ]
    assert {(edge.source, edge.target) for edge in drawn.edges if edge.travelled} == {("read", "part"), ("part", "pay")}


def test_an_open_sub_workflow_can_be_folded_again() -> None:
    drawn = draw(graph(), [], {}, {}, link=link, opened=("part", "part/deep"))
    assert {group.name: group.address for group in drawn.groups} == {
        "part": "?unfold=part%2Fdeep",
        "part/deep": "?unfold=part",
    }


REGIONS = [f"region_{number:02}" for number in range(30)]


def fan(kind: str = "join") -> Description:
    wide = describe(["split", *REGIONS, "collect"], [])
    edges = [EdgeInfo(source="split", target=name) for name in REGIONS]
    edges += [EdgeInfo(source=name, target="collect", kind=kind, label="all") for name in REGIONS]
    return wide.model_copy(update={"edges": tuple(edges)})


def test_thirty_similar_branches_are_one_step_that_opens() -> None:
    folded = fold(fan())
    assert [(step.name, step.title) for step in folded.description.steps] == [
        ("split", ""),
        ("similar:region_00", "Region ×30"),
        ("collect", ""),
    ]
    assert [(edge.source, edge.target) for edge in folded.description.edges] == [
        ("split", "similar:region_00"),
        ("similar:region_00", "collect"),
    ]
    assert folded.similar == {"similar:region_00": tuple(REGIONS)}
    for opened in ({ALL}, {"similar:region_00"}):
        assert len(fold(fan(), opened).description.steps) == 32


def test_the_branch_that_failed_and_the_chosen_one_are_drawn_beside_those_they_are_like() -> None:
    folded = fold(fan(), apart={"region_00", "region_17", "split"})
    assert folded.names["region_17"] == "region_17"
    assert "Region ×28" in {step.title for step in folded.description.steps}
    assert {edge.source for edge in folded.description.edges if edge.target == "collect"} == {
        *("region_00", "region_17", "similar:region_00")
    }
    assert len(fold(fan(), apart=REGIONS).similar["similar:region_00"]) == 30


def test_branches_of_one_shape_are_one_and_the_one_that_failed_is_drawn_whole_beside_it() -> None:
    names = [f"{region}_{part}" for region in ("asia", "europe", "africa", "arctic") for part in ("load", "check")]
    edges = [edge for a, b in zip(names[::2], names[1::2], strict=True) for edge in (("split", a), (a, b), (b, "end"))]
    described = describe(["split", *names, "end"], edges)
    folded = fold(described, apart={"asia_check"})
    assert [step.title or step.name for step in folded.description.steps] == [
        *("split", "asia_load", "asia_check", "Load ×3", "Check ×3", "end")
    ]
    assert ("similar:asia_load", "similar:asia_check") in {(e.source, e.target) for e in folded.description.edges}
    assert len(fold(described, {"similar:asia_check"}).description.steps) == 10
    shorter = described.model_copy(update={"edges": described.edges[:-3]})
    assert not fold(shorter).similar


def test_branches_that_differ_in_one_edge_or_are_few_are_not_similar() -> None:
    more = fan()
    other = more.model_copy(update={"edges": (*more.edges, EdgeInfo(source="region_03", target="split"))})
    assert len(fold(other).similar["similar:region_00"]) == 29
    assert not fold(describe(["a", "b", "c", "d"], [("a", "b"), ("a", "c"), ("a", "d")])).similar


def test_a_group_shows_how_many_are_done_and_leads_to_where_it_is_open() -> None:
    moves = [move("split", "running"), move("split", "done", 1)]
    moves += [move(name, "running", 2, name) for name in REGIONS]
    moves += [move(name, "done", 3, name) for name in REGIONS[:10]]
    counts, found = count_states(moves), intervals_by_state(moves, at(9))
    drawn = draw(fan(), moves, counts, found, link=link, compared=True)
    group = next(node for node in drawn.nodes if node.similar)
    assert (group.counts, group.state, group.similar) == ("10/30", "running", 30)
    assert group.address == "?unfold=similar%3Aregion_00&step="
    assert "sub-workflow" not in group.words
    assert (drawn.longest, group.heat, drawn.nodes[-1].heat) == (7.0, 4, None)
    opened = draw(fan(), moves, counts, found, link=link, opened=("similar:region_00",))
    assert len(opened.nodes) == 32
    assert not opened.heats


def test_the_label_of_a_join_is_drawn_once_and_no_label_lies_on_a_box_or_another() -> None:
    labelled = layout(fan())
    assert sum(edge.labelled for edge in labelled.edges) == 1
    assert all(edge.label == "all" for edge in labelled.edges if edge.target == "collect")
    steps = ["judge", "redraft", "send", "drop"]
    made = describe(steps, [])
    edges = [EdgeInfo(source="judge", target=name, kind="when", label=f"a == {name!r}") for name in steps[1:]]
    edges += [EdgeInfo(source=name, target="judge", kind="when", label="again") for name in steps[1:3]]
    drawn = layout(made.model_copy(update={"edges": tuple(edges)}))
    boxes = [(node.x, node.y, node.width, node.height) for node in drawn.nodes]
    labels = [(edge.back_x, edge.back_y, edge.label_width, 18.0) for edge in drawn.edges]
    for number, one in enumerate(labels):
        assert not any(touch(one, box) for box in boxes)
        assert not any(touch(one, other) for other in labels[number + 1 :])


def test_arrows_that_lead_back_to_one_step_arrive_apart() -> None:
    edges = [("draft", "check"), ("check", "review"), ("check", "draft"), ("review", "draft")]
    drawn = layout(describe(["draft", "check", "review"], edges))
    back = [edge.head for edge in drawn.edges if edge.target == "draft"]
    assert len(set(back)) == 2


def test_a_definition_opens_and_closes_its_parts_by_address() -> None:
    parts = [f"part_{n}" for n in range(9)]
    described = describe(
        ["begin", *parts, "end"], [*(("begin", part) for part in parts), *((part, "end") for part in parts)]
    )
    closed = draw_definition(described, (), lambda names: f"?unfold={names}")
    assert len(closed.nodes) == 3
    (similar,) = [node for node in closed.nodes if node.folded]
    opened = draw_definition(described, opened_in(similar.href.removeprefix("?unfold=")), lambda names: names)
    assert len(opened.nodes) == 11
    assert closed.nodes[0].href == "#step-begin"
